// For tests: a small CA with fixed dates, so that a test states only what it is about.

import { randomBytes, type KeyObject } from "node:crypto";
import type { KeyAlgorithm } from "./algorithms.ts";
import {
  parseCertificate,
  signCertificateSync,
  type Certificate,
  type CertificateFields,
} from "./certificate.ts";
import {
  authorityKeyIdentifier,
  basicConstraints,
  extendedKeyUsage,
  keyUsage,
  subjectAltName,
  subjectKeyIdentifier,
  type Extension,
} from "./extensions.ts";
import type { GeneralName } from "./general-names.ts";
import { defaultSignatureAlgorithm, exportSpki, generateKeys, keyIdentifier } from "./keys.ts";
import { encodeName, nameFrom, type DistinguishedName } from "./names.ts";
import { serialFromRandom } from "./serials.ts";
import type { SigningKey } from "./signatures.ts";

export const NOON = new Date("2026-06-01T12:00:00Z");
const ROOT_FROM = new Date("2026-01-01T00:00:00Z");
const ROOT_TO = new Date("2055-01-01T00:00:00Z");
const LEAF_TO = new Date("2026-12-01T00:00:00Z");

const pairs = new Map<string, ReturnType<typeof generateKeys>>();

/** One key per algorithm and label for the whole test process: RSA keys take a quarter of a second and more. */
export function sharedKeys(algorithm: KeyAlgorithm, label = "") {
  const id = `${algorithm} ${label}`;
  const known = pairs.get(id) ?? generateKeys(algorithm);
  pairs.set(id, known);
  return known;
}

export interface Authority {
  readonly certificate: Certificate;
  readonly signer: SigningKey;
  readonly keyId: Buffer;
}

export const freshSerial = (): string => serialFromRandom(randomBytes(16));
export const dns = (value: string): GeneralName => ({ type: "dns_name", value });

export const signerOf = (key: KeyObject): SigningKey => ({ key, algorithm: defaultSignatureAlgorithm(key) });

interface AuthorityWish {
  readonly name?: string;
  readonly algorithm?: KeyAlgorithm;
  readonly parent?: Authority;
  readonly pathLength?: number;
  readonly extensions?: readonly Extension[];
  readonly fields?: Partial<CertificateFields>;
}

export async function makeAuthority(wish: AuthorityWish = {}): Promise<Authority> {
  const { name = "Test Root", algorithm = "EC_prime256v1", parent, pathLength } = wish;
  const { publicKey, privateKey } = await sharedKeys(algorithm, name);
  const spki = exportSpki(publicKey);
  const keyId = keyIdentifier(spki);
  const subject = encodeName(nameFrom({ organization: "Acme", commonName: name }));
  const signer = signerOf(privateKey);
  const fields: CertificateFields = {
    serialNumber: freshSerial(),
    issuer: parent?.certificate.subject.der ?? subject,
    subject,
    notBefore: ROOT_FROM,
    notAfter: ROOT_TO,
    publicKey: spki,
    extensions: [
      basicConstraints({ isCa: true, pathLength }),
      keyUsage(["key_cert_sign", "crl_sign", "digital_signature"]),
      subjectKeyIdentifier(keyId),
      ...(parent === undefined ? [] : [authorityKeyIdentifier(parent.keyId)]),
      ...(wish.extensions ?? []),
    ],
    ...wish.fields,
  };
  const der = signCertificateSync(fields, parent?.signer ?? signer);
  return { certificate: parseCertificate(der), signer, keyId };
}

export interface LeafWish {
  readonly subject?: DistinguishedName;
  readonly altNames?: readonly GeneralName[];
  readonly algorithm?: KeyAlgorithm;
  readonly extensions?: readonly Extension[];
  readonly fields?: Partial<CertificateFields>;
}

/** The fields of a server certificate that nobody objects to. */
export async function leafFields(authority: Authority, wish: LeafWish = {}): Promise<CertificateFields> {
  const { subject = nameFrom({ commonName: "db.example.com" }), altNames = [dns("db.example.com")] } = wish;
  const { publicKey } = await sharedKeys(wish.algorithm ?? "EC_prime256v1", "leaf");
  const spki = exportSpki(publicKey);
  return {
    serialNumber: freshSerial(),
    issuer: authority.certificate.subject.der,
    subject: encodeName(subject),
    notBefore: NOON,
    notAfter: LEAF_TO,
    publicKey: spki,
    extensions: wish.extensions ?? [
      basicConstraints({ isCa: false }),
      keyUsage(["digital_signature"]),
      extendedKeyUsage(["server_auth"]),
      subjectKeyIdentifier(keyIdentifier(spki)),
      authorityKeyIdentifier(authority.keyId),
      ...(altNames.length === 0 ? [] : [subjectAltName(altNames, subject.length === 0)]),
    ],
    ...wish.fields,
  };
}

export async function issueLeaf(authority: Authority, wish: LeafWish = {}): Promise<Certificate> {
  return parseCertificate(signCertificateSync(await leafFields(authority, wish), authority.signer));
}
