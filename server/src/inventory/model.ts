import { statusOf, type CertificateStatusName } from "../certificates/model.ts";

/** A line of a list. */
export interface ListedCertificate {
  readonly id: string;
  readonly serialNumber: string;
  readonly commonName: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly revokedAt: Date | null;
  readonly createdAt: Date;
}

export interface CertificateDetails {
  readonly subject?: {
    readonly commonName?: string;
    readonly organization?: string;
    readonly organizationalUnit?: string;
    readonly country?: string;
    readonly state?: string;
    readonly locality?: string;
    readonly domainComponents?: readonly string[];
  };
  readonly keyUsages?: readonly string[];
  readonly extendedKeyUsages?: readonly string[];
  readonly pathLength?: number;
  readonly friendlyName?: string;
  readonly metadata?: readonly { readonly key: string; readonly value: string }[];
  readonly renewBeforeSeconds?: number;
  /** Settings of this one certificate, which override its profile's. */
  readonly autoRenewal?: boolean;
}

/** Everything about one certificate but its private key in the clear. */
export interface CertificateRow extends ListedCertificate {
  readonly projectId: string;
  readonly orgId: string;
  readonly profileId: string | null;
  readonly applicationId: string | null;
  readonly authorityId: string | null;
  readonly authorityKeyId: string | null;
  readonly authorityCertificateId: string | null;
  readonly renewedFromId: string | null;
  readonly renewedById: string | null;
  readonly updatedAt: Date;
  readonly renewAt: Date | null;
  readonly renewalError: string | null;
  readonly revocationReason: number | null;
  readonly crlShard: number | null;
  readonly isCa: boolean;
  readonly source: "issued" | "imported";
  readonly keyAlgorithm: string | null;
  readonly signatureAlgorithm: string | null;
  readonly altNames: readonly { readonly type: string; readonly value: string }[];
  readonly keyFingerprint: Buffer;
  readonly details: CertificateDetails;
  readonly der: Buffer;
  readonly chain: readonly Buffer[] | null;
  readonly dataKeyId: string | null;
  readonly sealedKey: Buffer | null;
  readonly profileSlug: string | null;
  readonly authorityName: string | null;
  readonly applicationName: string | null;
}

export const toListed = (row: ListedCertificate, now: Date) => ({
  id: row.id,
  serialNumber: row.serialNumber,
  cn: row.commonName,
  status: statusOf(row, now),
  notBefore: row.notBefore,
  notAfter: row.notAfter,
  revokedAt: row.revokedAt,
  createdAt: row.createdAt,
});

/** What a rule of a role may depend on. */
export const attributesOf = (
  row: Pick<
    CertificateRow,
    "commonName" | "altNames" | "serialNumber" | "details" | "revokedAt" | "notAfter"
  >,
  now: Date,
) => ({
  commonName: row.commonName,
  altNames: row.altNames.map(({ value }) => value),
  serialNumber: row.serialNumber,
  friendlyName: row.details.friendlyName ?? "",
  status: statusOf(row, now),
  metadata: row.details.metadata ?? [],
});

export interface CertificateQuery {
  readonly status?: CertificateStatusName | undefined;
  readonly search?: string | undefined;
  readonly profileId?: string | undefined;
  readonly applicationId?: string | undefined;
  readonly caId?: string | undefined;
  readonly keyAlgorithm?: string | undefined;
  readonly source?: "issued" | "imported" | undefined;
  readonly expiresBefore?: string | undefined;
  readonly issuedBefore?: string | undefined;
}

/** A place in a list by (createdAt, id), exact to the microsecond it was stored with. */
export interface Cursor {
  readonly at: string;
  readonly id: string;
}
