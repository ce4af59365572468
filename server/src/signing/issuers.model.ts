import {
  authorityInfoAccess,
  authorityKeyIdentifier,
  crlDistributionPoints,
  isSelfIssued,
  keyIdentifier,
  type Certificate,
  type Extension,
  type NameConstraints,
  type SigningKey,
} from "@keyward/x509";

/** A CA that is ready to sign: its key in memory, its certificate parsed, what all its children share built once. */
export interface Issuer {
  readonly authorityId: string;
  readonly projectId: string;
  readonly orgId: string;
  readonly name: string;
  readonly isUsable: boolean;
  /** The inventory's ids of its certificate and of those above it, as far as they are known here. */
  readonly lineage: readonly string[];
  /** Which certificate of the chain is revoked: nobody would accept what is issued below it. */
  readonly revokedName: string | undefined;
  /** Its key was revoked as compromised, by whichever certificate. */
  readonly isBlocked: boolean;
  readonly keyId: string;
  readonly certificateId: string;
  readonly certificate: Certificate;
  /** Its own certificate first, root last. */
  readonly chain: readonly Buffer[];
  /** Of this CA and of every one above it. */
  readonly constraints: readonly NameConstraints[];
  /** How many CAs the path length constraints of the whole chain allow below this one; undefined for any number. */
  readonly levelsBelow: number | undefined;
  /** The extended key usages that the whole chain allows below; undefined for any. */
  readonly purposes: ReadonlySet<string> | undefined;
  readonly signer: SigningKey;
  readonly crlShards: number;
  readonly crlUrls: readonly string[];
  readonly hasManagedCrl: boolean;
  readonly keyIdentifierExtension: Extension;
  readonly accessExtension: Extension;
}

/**
 * The narrowest path length of a chain, nearest first, counted from its first certificate downwards. Below zero: the
 * chain has a level too many already, and nothing that it issues is accepted.
 */
export function levelsBelow(chain: readonly Certificate[]): number | undefined {
  let narrowest: number | undefined;
  let between = 0;
  for (const certificate of chain) {
    const own = certificate.extensions.basicConstraints?.pathLength;
    if (own !== undefined) narrowest = Math.min(narrowest ?? own, own - between);
    if (!isSelfIssued(certificate)) between += 1;
  }
  return narrowest;
}

/** RFC 5280 leaves open what extended key usages in a CA certificate mean; clients take them as a limit for all below. */
export function purposesLeft(chain: readonly Certificate[]): ReadonlySet<string> | undefined {
  let left: ReadonlySet<string> | undefined;
  for (const { extensions } of chain) {
    const own = extensions.extendedKeyUsage;
    if (own === undefined || own.includes("any_purpose")) continue;
    left = new Set(own.filter((purpose) => left?.has(purpose) ?? true));
  }
  return left;
}

/** Whether clients would accept an OCSP responder that this CA certifies now. */
export const canDelegate = (issuer: Issuer, now: Date): boolean =>
  issuer.constraints.length === 0 &&
  (issuer.levelsBelow ?? 0) >= 0 &&
  (issuer.purposes?.has("ocsp_signing") ?? true) &&
  issuer.certificate.notBefore <= now;

/** The path length to give to a subordinate CA, where none was requested. */
export const levelsLeft = (issuer: Pick<Issuer, "levelsBelow"> | null): number | undefined =>
  issuer?.levelsBelow === undefined ? undefined : Math.max(issuer.levelsBelow - 1, 0);

export const keyIdentifierOf = (certificate: Certificate): Buffer =>
  certificate.extensions.subjectKeyIdentifier ?? keyIdentifier(certificate.publicKey);
/**
 * CRLs and OCSP responses carry the issuer's name and key identifier, and there is one CRL for all certificates of a
 * key: so they hold for what was issued under two CA certificates only if these are the same.
 */
export const speaksFor = (one: Certificate, other: Certificate): boolean =>
  one.subject.der.equals(other.subject.der) && keyIdentifierOf(one).equals(keyIdentifierOf(other));
export const authorityExtension = (certificate: Certificate): Extension =>
  authorityKeyIdentifier(keyIdentifierOf(certificate));

/** The URLs in certificates (CDP, AIA): short, and served without a token. */
export const crlUrl = (base: string, keyId: string, shard: number): string =>
  `${base}/pki/crl/${keyId}/${shard}`;
const ocspUrl = (base: string, keyId: string): string => `${base}/pki/ocsp/${keyId}`;
const issuerUrl = (base: string, certificateId: string): string => `${base}/pki/ca/${certificateId}`;

export const accessExtension = (base: string, keyId: string, certificateId: string): Extension =>
  authorityInfoAccess({ ocspUrls: [ocspUrl(base, keyId)], caIssuersUrls: [issuerUrl(base, certificateId)] });

/** The CRL shard of a certificate, fixed by its serial number. */
export const shardOf = (serialNumber: string, shards: number): number =>
  shards <= 1 ? 0 : Number.parseInt(serialNumber.slice(-6), 16) % shards;

/** The CRLs a certificate names: the shard's own, then any that the operator publishes elsewhere. */
function listUrls(
  issuer: Pick<Issuer, "keyId" | "crlUrls" | "hasManagedCrl">,
  base: string,
  shard: number,
): string[] {
  return [...(issuer.hasManagedCrl ? [crlUrl(base, issuer.keyId, shard)] : []), ...issuer.crlUrls];
}

const built = new WeakMap<Issuer, Map<number, Extension>>();

/** Built once per shard: it is the same in every certificate there. */
export function listExtension(issuer: Issuer, base: string, shard: number): Extension | undefined {
  const ofIssuer = built.get(issuer) ?? new Map<number, Extension>();
  built.set(issuer, ofIssuer);
  const known = ofIssuer.get(shard);
  if (known) return known;
  const urls = listUrls(issuer, base, shard);
  if (urls.length === 0) return undefined;
  const made = crlDistributionPoints(urls);
  ofIssuer.set(shard, made);
  return made;
}
