import { randomBytes, type KeyObject } from "node:crypto";
import type { Actor } from "../platform/actor.ts";
import { addSeconds, findingOf, searchTextOf } from "../certificates/model.ts";
import { listExtension, shardOf, type Issuer } from "./issuers.model.ts";
import {
  attributeValues,
  basicConstraints,
  buildTbs,
  commonNameOf,
  defaultSignatureAlgorithm,
  encodeName,
  extendedKeyUsage,
  extendedKeyUsageName,
  extendedKeyUsageOid,
  fitsKey,
  importPrivateKey,
  keyAlgorithmOf,
  keyFingerprint,
  keyIdentifier,
  keyUsage,
  inspectTbs,
  nameConstraints,
  OID,
  readPublicKey,
  readTbs,
  schemeOfIdentifier,
  serialFromRandom,
  subjectAltName,
  subjectKeyIdentifier,
  violatesNameConstraints,
  X509Error,
  type CertificateFields,
  type DistinguishedName,
  type Extension,
  type ExtendedKeyUsageName,
  type Finding,
  type GeneralName,
  type KeyUsage,
  type NameConstraints,
  type SignatureAlgorithm,
  type SigningKey,
  type TbsCertificate,
} from "@keyward/x509";

/** What is to be certified, after defaults and before the policy. */
export interface CertificateTemplate {
  readonly subject: DistinguishedName;
  readonly altNames: readonly GeneralName[];
  readonly keyUsages: readonly KeyUsage[];
  readonly extendedKeyUsages: readonly ExtendedKeyUsageName[];
  readonly isCa: boolean;
  readonly pathLength: number | undefined;
  readonly nameConstraints: NameConstraints | undefined;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly signatureAlgorithm: SignatureAlgorithm | undefined;
  /** Beyond what signing adds by itself, such as id-pkix-ocsp-nocheck. */
  readonly extensions?: readonly Extension[];
}

/** What the inventory stores besides the certificate's content. */
export interface IssuanceContext {
  readonly friendlyName?: string | undefined;
  readonly metadata?: readonly { readonly key: string; readonly value: string }[] | undefined;
  readonly renewedFromId?: string | undefined;
  readonly autoRenew?: boolean | undefined;
  /** The renewal setting of the certificate that this one replaces, which overrides the profile's. */
  readonly autoRenewal?: boolean | undefined;
  readonly renewBeforeSeconds?: number | undefined;
}

export interface IssuanceRequest {
  readonly actor: Actor;
  readonly projectId: string;
  readonly orgId: string;
  readonly profileId: string | null;
  readonly applicationId: string | null;
  /** Null: the certificate signs itself with `privateKey`. */
  readonly issuer: Issuer | null;
  readonly template: CertificateTemplate;
  readonly publicKey: Buffer;
  /** PKCS#8. Stored encrypted beside the certificate; absent when the key was made elsewhere. */
  readonly privateKey: Buffer | undefined;
  /** It was not made for this issuance request: it may be on the list of compromised keys. */
  readonly reusesKey?: boolean;
  /** A CA's own key is stored with the CA, not in the inventory. */
  readonly keepsKey: boolean;
  /** An internal certificate, such as that of an OCSP responder: recorded and audited, but not shown in the inventory. */
  readonly isInternal?: boolean;
  readonly context: IssuanceContext;
  readonly idempotency: { readonly key: string; readonly digest: Buffer } | undefined;
  /** What a policy said already. */
  readonly findings: readonly Finding[];
  readonly isBlockedKey: boolean;
}

export interface PreparedTbs {
  readonly serialNumber: string;
  readonly tbs: Buffer;
  /** The parsed bytes, as the lint read them; undefined if it could not. */
  readonly parsed: TbsCertificate | undefined;
  readonly signer: SigningKey;
  readonly shard: number;
  readonly findings: readonly Finding[];
}

const SERIAL_OCTETS = 16;

const ownSigner = (key: KeyObject): SigningKey => ({ key, algorithm: defaultSignatureAlgorithm(key) });

/** Who signs, and with which of the algorithms its key can do. */
function signerOf({ issuer, privateKey, template }: IssuanceRequest): SigningKey {
  const own = issuer?.signer ?? (privateKey && ownSigner(importPrivateKey(privateKey)));
  if (!own)
    throw new X509Error("signer.missing", "csr", "A self-signed certificate needs a key that is made here.");
  if (template.signatureAlgorithm === undefined || template.signatureAlgorithm === own.algorithm) return own;
  if (!fitsKey(template.signatureAlgorithm, own.key)) {
    const message = `${template.signatureAlgorithm} cannot be made with the authority's key; it signs with ${own.algorithm}.`;
    throw new X509Error("signature_algorithm.key", "signatureAlgorithm", message);
  }
  return { key: own.key, algorithm: template.signatureAlgorithm };
}

/** Time-stamping certificates have this one extended key usage, marked critical (RFC 3161 2.3), or clients refuse them. */
function purposesOf({ extendedKeyUsages: usages }: CertificateTemplate): Extension[] {
  if (usages.length === 0) return [];
  return [
    extendedKeyUsage(
      usages,
      usages.every((each) => extendedKeyUsageOid(each) === OID.timeStamping),
    ),
  ];
}

function extensionsOf(
  { issuer, template, publicKey }: IssuanceRequest,
  base: string,
  shard: number,
): Extension[] {
  const { altNames, subject, isCa, pathLength } = template;
  const lists = issuer && listExtension(issuer, base, shard);
  return [
    basicConstraints({ isCa, ...(pathLength === undefined ? {} : { pathLength }) }),
    ...(template.keyUsages.length > 0 ? [keyUsage(template.keyUsages)] : []),
    ...purposesOf(template),
    subjectKeyIdentifier(keyIdentifier(publicKey)),
    ...(issuer ? [issuer.keyIdentifierExtension, issuer.accessExtension] : []),
    ...(altNames.length > 0 ? [subjectAltName(altNames, subject.length === 0)] : []),
    ...(template.nameConstraints ? [nameConstraints(template.nameConstraints)] : []),
    ...(lists ? [lists] : []),
    ...(template.extensions ?? []),
  ];
}

function constraintFindings({ issuer, template }: IssuanceRequest): Finding[] {
  const violation =
    issuer &&
    violatesNameConstraints(
      { subject: template.subject, altNames: template.altNames, isCa: template.isCa },
      issuer.constraints,
    );
  return violation ? [findingOf(`name_constraints.${violation.rule}`, "altNames", violation.message)] : [];
}

/**
 * A CA with its issuer's name would pass for that one under a new key, and so use up no level of path length
 * (RFC 5280 6.1.4): a chain of such CAs could go on without end.
 */
function likenessFindings({ issuer, template }: IssuanceRequest, subject: Buffer): Finding[] {
  if (!template.isCa || !issuer?.certificate.subject.der.equals(subject)) return [];
  const message = "An authority must have another name than the one that certifies it.";
  return [findingOf("subject.same_as_issuer", "subject", message)];
}

function purposeFindings({ issuer, template }: IssuanceRequest): Finding[] {
  const allowed = issuer?.purposes;
  if (!allowed || template.isCa) return [];
  const limits = [...allowed].join(", ") || "nothing";
  return template.extendedKeyUsages
    .map((each) => extendedKeyUsageName(extendedKeyUsageOid(each)))
    .filter((purpose) => !allowed.has(purpose))
    .map((purpose) => ({
      code: "extended_key_usage.wider_than_issuer",
      severity: "warn",
      field: "extendedKeyUsages",
      message: `The issuer's chain is limited to ${limits}: most clients will not accept it for ${purpose}.`,
    }));
}

/** The bytes to sign (TBS) and all findings against them. */
export function prepareTbs(request: IssuanceRequest, base: string): PreparedTbs {
  const serialNumber = serialFromRandom(randomBytes(SERIAL_OCTETS));
  const signer = signerOf(request);
  const shard = shardOf(serialNumber, request.issuer?.crlShards ?? 1);
  const subject = encodeName(request.template.subject);
  const fields: CertificateFields = {
    serialNumber,
    issuer: request.issuer?.certificate.subject.der ?? subject,
    subject,
    notBefore: request.template.notBefore,
    notAfter: request.template.notAfter,
    publicKey: request.publicKey,
    extensions: extensionsOf(request, base, shard),
  };
  const tbs = buildTbs(fields, signer.algorithm);
  const { findings, parsed } = inspectTbs(tbs, request.issuer?.certificate ?? "self-signed", {
    isKnownWeak: () => request.isBlockedKey,
    levelsBelowIssuer: request.issuer?.levelsBelow,
  });
  return {
    serialNumber,
    tbs,
    parsed,
    signer,
    shard,
    findings: [
      ...request.findings,
      ...likenessFindings(request, subject),
      ...constraintFindings(request),
      ...purposeFindings(request),
      ...findings,
    ],
  };
}

/** The inventory's columns, read back from the bytes that are signed: what is shown is what was certified. */
export interface InventoryFacts {
  readonly serialNumber: string;
  readonly commonName: string;
  readonly altNames: readonly { readonly type: string; readonly value: string }[];
  readonly searchText: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly isCa: boolean;
  readonly keyAlgorithm: string | null;
  readonly signatureAlgorithm: string | null;
  readonly keyFingerprint: Buffer;
  readonly details: Record<string, unknown>;
}

const isTextual = (name: GeneralName): name is Extract<GeneralName, { value: string }> =>
  typeof name.value === "string";

/** Null for kinds that are not certified here: a certificate from elsewhere is listed all the same. */
function keyAlgorithmIn(publicKey: Buffer): string | null {
  try {
    return keyAlgorithmOf(readPublicKey(publicKey)) ?? null;
  } catch (error) {
    if (error instanceof X509Error && error.code === "key.unsupported") return null;
    throw error;
  }
}

export function inventoryFacts(tbs: Buffer, parsed = readTbs(tbs)): InventoryFacts {
  const { subject, extensions, notBefore, notAfter, publicKey, serialNumber, algorithmIdentifier } = parsed;
  const commonName = commonNameOf(subject.rdns) ?? "";
  const altNames = (extensions.subjectAltName ?? [])
    .filter(isTextual)
    .map(({ type, value }) => ({ type, value }));
  const first = (oid: string): string | undefined => attributeValues(subject.rdns, oid)[0];
  return {
    serialNumber,
    commonName,
    altNames,
    searchText: searchTextOf(
      commonName,
      altNames.map(({ value }) => value),
      serialNumber,
    ),
    notBefore: notBefore.at,
    notAfter: notAfter.at,
    isCa: extensions.basicConstraints?.isCa === true,
    keyAlgorithm: keyAlgorithmIn(publicKey),
    signatureAlgorithm: schemeOfIdentifier(algorithmIdentifier)?.name ?? null,
    keyFingerprint: Buffer.from(keyFingerprint(publicKey), "hex"),
    details: {
      subject: {
        commonName,
        organization: first(OID.organization),
        organizationalUnit: first(OID.organizationalUnit),
        country: first(OID.country),
        state: first(OID.state),
        locality: first(OID.locality),
        domainComponents: attributeValues(subject.rdns, OID.domainComponent),
      },
      keyUsages: extensions.keyUsage ?? [],
      extendedKeyUsages: extensions.extendedKeyUsage ?? [],
      pathLength: extensions.basicConstraints?.pathLength,
    },
  };
}

/** When the server renews by itself; never before half of the lifetime has passed. */
export function renewalTime(
  facts: Pick<InventoryFacts, "notBefore" | "notAfter">,
  context: IssuanceContext,
): Date | null {
  if (context.autoRenew !== true) return null;
  const lifetime = (facts.notAfter.getTime() - facts.notBefore.getTime()) / 1000;
  const before = Math.min(context.renewBeforeSeconds ?? lifetime / 3, lifetime / 2);
  return addSeconds(facts.notAfter, -Math.floor(before));
}
