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
/** An external certificate was imported: listed and watched like our own, but not issued here. */
export const certificateImported = fact<CertificateFact>("certificate.imported");
export const certificateRevoked = fact<CertificateFact>("certificate.revoked");
export const certificateRenewalFailed = fact<CertificateFact & { readonly reason: string }>(
  "certificate.renewal-failed",
);

/** A CA, policy, profile or application changed: caches of them are invalid. */
export const issuanceChanged = fact<{ readonly projectId: string }>("certificates.issuance-changed");

/** Released from hold: caches of its revocation are invalid. */
export const certificateReleased = fact<{ readonly projectId: string; readonly certificateId: string }>(
  "certificate.released",
);
