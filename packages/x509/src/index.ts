// The public face of the X.509 toolkit: pure functions over bytes. It knows no database and no clock; times and,
// where a test needs it, chance come in as arguments.

export * from "./algorithms.ts";
export * from "./certificate.ts";
export * from "./crl.ts";
export { DerError } from "./der.ts";
export { assertCanonical } from "./der-tree.ts";
export * from "./csr.ts";
export * from "./extensions.ts";
export { normaliseGeneralName, type GeneralName } from "./general-names.ts";
export { buildJks } from "./jks.ts";
export { assertStrongKey } from "./key-strength.ts";
export {
  defaultSignatureAlgorithm,
  exportPkcs8,
  exportPkcs8Pem,
  exportSpki,
  generateKeys,
  keyAlgorithmOf,
  keyFingerprint,
  keyIdentifier,
  keysMatch,
  makeCurveKey,
  readPublicKey,
  type CurveName,
  type KeyBytes,
} from "./keys.ts";
export { hasErrors, inspectTbs, lintTbs } from "./lint.ts";
export { lintCrl } from "./lint-crl.ts";
export type { Finding } from "./lint-finding.ts";
export { nameConstraints, violatesNameConstraints, type NameConstraints } from "./name-constraints.ts";
export { formatName, parseName } from "./name-text.ts";
export { attributeValues, commonNameOf, encodeName, nameFrom, type DistinguishedName } from "./names.ts";
export * from "./ocsp.ts";
export * from "./ocsp-request.ts";
export { OID } from "./oids.ts";
export { decodePemOf, encodePem } from "./pem.ts";
export { buildPkcs12 } from "./pkcs12.ts";
export { importPrivateKey } from "./private-keys.ts";
export { serialFromRandom } from "./serials.ts";
export * from "./signatures.ts";
export * from "./usages.ts";
export * from "./verify-chain.ts";
export { X509Error } from "./x509-error.ts";
