import { badRequest, conflict, invalidField } from "../platform/problem.ts";
import { addSeconds, beginning, parseMoment } from "../certificates/model.ts";
import type { CertificateTemplate } from "../signing/model.ts";
import { levelsLeft, type Issuer } from "../signing/issuers.model.ts";
import type { AuthorityView } from "./contract.ts";
import {
  crlDistributionPoints,
  formatName,
  nameFrom,
  parseCertificate,
  X509Error,
  type DistinguishedName,
} from "@keyward/x509";

interface SubjectColumns {
  readonly friendlyName: string;
  readonly commonName: string;
  readonly organization: string;
  readonly ou: string;
  readonly country: string;
  readonly province: string;
  readonly locality: string;
}
interface Constraints {
  readonly permitted: readonly {
    readonly type: "dns_name" | "email" | "uri" | "ip_address";
    readonly value: string;
  }[];
  readonly excluded: readonly {
    readonly type: "dns_name" | "email" | "uri" | "ip_address";
    readonly value: string;
  }[];
}

export interface AuthorityRow {
  readonly id: string;
  readonly projectId: string;
  readonly orgId: string;
  readonly name: string;
  readonly kind: "root" | "intermediate";
  readonly status: "active" | "disabled" | "pending-certificate";
  readonly keyAlgorithm: string;
  readonly subject: SubjectColumns;
  readonly parentId: string | null;
  readonly maxPathLength: number | null;
  readonly nameConstraints: Constraints | null;
  readonly crlUrls: string[];
  readonly hasManagedCrl: boolean;
  readonly crlShards: number;
  readonly activeKeyId: string;
  readonly activeCertificateId: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly serialNumber: string | null;
  readonly notBefore: Date | null;
  readonly notAfter: Date | null;
  /** The active certificate. */
  readonly der: Buffer | null;
}

export const authorityNameTaken = (name: string) =>
  conflict(`A certificate authority named ${name} exists in this project already.`);
export const authorityPending = () => badRequest("The certificate authority has no certificate yet.");

/** What a certificate cannot hold would stop the CA from issuing, and its CRLs from being signed. */
export function checkListUrls(urls: readonly string[]): void {
  try {
    if (urls.length > 0) crlDistributionPoints(urls);
  } catch (error) {
    if (error instanceof X509Error)
      throw invalidField(["configuration", "crlDistributionPointUrls"], error.message);
    throw error;
  }
}

const YEAR_SECONDS = 31_536_000;
const ROOT_YEARS = 10;
const INTERMEDIATE_YEARS = 5;

export const subjectOf = (subject: SubjectColumns): DistinguishedName =>
  nameFrom({
    commonName: subject.commonName,
    organization: subject.organization,
    organizationalUnit: subject.ou,
    country: subject.country,
    state: subject.province,
    locality: subject.locality,
  });

/** What the active certificate says; before there is one, what was requested. */
function certifiedOf(row: AuthorityRow): { readonly dn: string; readonly maxPathLength: number | null } {
  const { maxPathLength } = row;
  if (row.der === null) return { dn: formatName(subjectOf(row.subject)), maxPathLength };
  const { subject, extensions } = parseCertificate(row.der);
  // Clients say "any number" as null or as -1, and expect to read what they wrote.
  const unlimited = maxPathLength === -1 ? -1 : null;
  return {
    dn: formatName(subject.rdns),
    maxPathLength: extensions.basicConstraints?.pathLength ?? unlimited,
  };
}

export const toAuthorityView = (row: AuthorityRow): AuthorityView => ({
  id: row.id,
  projectId: row.projectId,
  name: row.name,
  status: row.status,
  type: "internal",
  enableDirectIssuance: true,
  configuration: {
    type: row.kind,
    ...row.subject,
    ...(row.notBefore ? { notBefore: row.notBefore } : {}),
    ...(row.notAfter ? { notAfter: row.notAfter } : {}),
    ...certifiedOf(row),
    keyAlgorithm: row.keyAlgorithm,
    keySource: "internal",
    parentCaId: row.parentId,
    serialNumber: row.serialNumber,
    activeCaCertId: row.activeCertificateId,
    crlDistributionPointUrls: row.crlUrls,
    disableManagedCrlDistributionPointUrl: !row.hasManagedCrl,
    nameConstraints: row.nameConstraints as AuthorityView["configuration"]["nameConstraints"],
    crlShards: row.crlShards,
  },
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
});

export interface ValidityWish {
  readonly notBefore?: string | undefined;
  readonly notAfter?: string | undefined;
}

/** Ten years for a root, five for an intermediate, and never beyond the parent. */
export function validityOf(
  wish: ValidityWish,
  now: Date,
  parent: Issuer | null,
): { notBefore: Date; notAfter: Date } {
  const notBefore = wish.notBefore
    ? parseMoment(wish.notBefore, "notBefore")
    : beginning(now, YEAR_SECONDS, parent?.certificate.notBefore);
  if (wish.notAfter) return { notBefore, notAfter: parseMoment(wish.notAfter, "notAfter") };
  const wished = addSeconds(notBefore, (parent ? INTERMEDIATE_YEARS : ROOT_YEARS) * YEAR_SECONDS);
  return {
    notBefore,
    notAfter: parent && parent.certificate.notAfter < wished ? parent.certificate.notAfter : wished,
  };
}

const isLength = (length: number | null | undefined): length is number =>
  length !== null && length !== undefined && length >= 0;

/**
 * What is requested now; if nothing is, what the CA was once configured with, as far as the parent's chain
 * still leaves it: a renewal under a narrower parent is given what there is.
 */
export function pathLengthOf(
  asked: number | null | undefined,
  configured: number | null,
  parent: Issuer | null,
): number | undefined {
  if (isLength(asked)) return asked;
  const left = levelsLeft(parent);
  if (!isLength(configured)) return left;
  return left === undefined ? configured : Math.min(configured, left);
}

export function authorityWish(
  subject: DistinguishedName,
  validity: { notBefore: Date; notAfter: Date },
  pathLength: number | undefined,
  constraints: Constraints | null,
): CertificateTemplate {
  const isEmpty = !constraints || constraints.permitted.length + constraints.excluded.length === 0;
  return {
    subject,
    altNames: [],
    ...validity,
    pathLength,
    // A CA signs certificates, CRLs, and OCSP responses where there is no delegated responder.
    keyUsages: ["digital_signature", "key_cert_sign", "crl_sign"],
    extendedKeyUsages: [],
    isCa: true,
    nameConstraints: isEmpty ? undefined : constraints,
    signatureAlgorithm: undefined,
  };
}
