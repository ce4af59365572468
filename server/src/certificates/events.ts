import { fact } from "../platform/outbox/index.ts";

interface CertificateFact {
  readonly orgId: string;
  readonly projectId: string;
  readonly certificateId: string;
}

export const certificateIssued = fact<CertificateFact>("certificate.issued");
/** `certificateId` is the new one; a renewal states this fact instead of `certificate.issued`. */
export const certificateRenewed = fact<CertificateFact & { readonly replacedId: string }>(
  "certificate.renewed",
);
/** One from elsewhere was taken in: listed and watched like our own, but nobody issued it here. */
export const certificateImported = fact<CertificateFact>("certificate.imported");
export const certificateRevoked = fact<CertificateFact>("certificate.revoked");
export const certificateRenewalFailed = fact<CertificateFact & { readonly reason: string }>(
  "certificate.renewal-failed",
);

/** An authority, policy, profile or application changed: whoever remembers how certificates are issued here looks again. */
export const issuanceChanged = fact<{ readonly projectId: string }>("certificates.issuance-changed");

/** Taken off hold: whoever remembers it as revoked forgets. */
export const certificateReleased = fact<{ readonly projectId: string; readonly certificateId: string }>(
  "certificate.released",
);
