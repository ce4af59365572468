// The public face of the X.509 toolkit: pure functions over bytes. It knows no database and no clock; times and,
// where a test needs it, chance come in as arguments.

export * from "./algorithms.ts";
export * from "./certificate.ts";
export * from "./crl.ts";
export { DerError } from "./der.ts";
export { assertCanonical } from "./der-tree.ts";
export * from "./csr.ts";
export * from "./extensions.ts";
export { type ExtensionSet } from "./extension-reading.ts";
export {
  describeGeneralName,
  normaliseDnsName,
  normaliseGeneralName,
  TEXT_NAME_TYPES,
  type GeneralName,
  type TextNameType,
} from "./general-names.ts";
export { buildJks, type JksOptions } from "./jks.ts";
export { assertStrongKey, findKeyWeakness, type KeyWeakness, type StrengthOptions } from "./key-strength.ts";
export {
  defaultSignatureAlgorithm,
  exportPkcs8,
  exportPkcs8Pem,
  exportSpki,
  familyOf,
  generateKeys,
  importSpki,
  keyAlgorithmOf,
  keyBits,
  keyFingerprint,
  keyIdentifier,
  keysMatch,
  makeCurveKey,
  readPublicKey,
  type CurveName,
  type KeyBytes,
  type KeyPair,
  type PublicKeyFacts,
} from "./keys.ts";
export { hasErrors, inspectTbs, lintTbs, type InspectionOptions } from "./lint.ts";
export { lintCrl, type CrlExpectations } from "./lint-crl.ts";
export { type Finding } from "./lint-finding.ts";
export {
  nameConstraints,
  violatesNameConstraints,
  type ConstrainedNames,
  type NameConstraints,
  type NameViolation,
  type Subtree,
} from "./name-constraints.ts";
export { formatName, parseName } from "./name-text.ts";
export {
  attributeValues,
  commonNameOf,
  encodeName,
  nameFrom,
  namesMatch,
  parseNameDer,
  type DistinguishedName,
  type NameAttribute,
  type ParsedName,
  type SubjectFields,
} from "./names.ts";
export * from "./ocsp.ts";
export * from "./ocsp-request.ts";
export { OID } from "./oids.ts";
export { decodePem, decodePemOf, encodePem, type PemBlock, type PemLimits } from "./pem.ts";
export { buildPkcs12, type KeyBundle, type Pkcs12Options } from "./pkcs12.ts";
export { importPrivateKey } from "./private-keys.ts";
export { encodeSerial, parseSerial, serialFromRandom } from "./serials.ts";
export * from "./signatures.ts";
export * from "./usages.ts";
export * from "./verify-chain.ts";
export { X509Error } from "./x509-error.ts";
