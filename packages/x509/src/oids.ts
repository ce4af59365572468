// Object identifiers, by the names the standards give them.

export const OID = {
  // Attribute types (X.520, RFC 4519, PKCS#9)
  commonName: "2.5.4.3",
  serialNumber: "2.5.4.5",
  country: "2.5.4.6",
  locality: "2.5.4.7",
  state: "2.5.4.8",
  organization: "2.5.4.10",
  organizationalUnit: "2.5.4.11",
  domainComponent: "0.9.2342.19200300.100.1.25",
  emailAddress: "1.2.840.113549.1.9.1",

  // Keys and curves
  rsaEncryption: "1.2.840.113549.1.1.1",
  ecPublicKey: "1.2.840.10045.2.1",
  prime256v1: "1.2.840.10045.3.1.7",
  secp384r1: "1.3.132.0.34",
  secp521r1: "1.3.132.0.35",
  ed25519: "1.3.101.112",

  // Signatures and digests
  sha256WithRsa: "1.2.840.113549.1.1.11",
  sha384WithRsa: "1.2.840.113549.1.1.12",
  sha512WithRsa: "1.2.840.113549.1.1.13",
  rsaPss: "1.2.840.113549.1.1.10",
  mgf1: "1.2.840.113549.1.1.8",
  ecdsaWithSha256: "1.2.840.10045.4.3.2",
  ecdsaWithSha384: "1.2.840.10045.4.3.3",
  ecdsaWithSha512: "1.2.840.10045.4.3.4",
  sha1: "1.3.14.3.2.26",
  sha256: "2.16.840.1.101.3.4.2.1",
  sha384: "2.16.840.1.101.3.4.2.2",
  sha512: "2.16.840.1.101.3.4.2.3",

  // Certificate and CRL extensions (RFC 5280)
  subjectKeyIdentifier: "2.5.29.14",
  keyUsage: "2.5.29.15",
  subjectAltName: "2.5.29.17",
  issuerAltName: "2.5.29.18",
  basicConstraints: "2.5.29.19",
  crlNumber: "2.5.29.20",
  reasonCode: "2.5.29.21",
  invalidityDate: "2.5.29.24",
  deltaCrlIndicator: "2.5.29.27",
  issuingDistributionPoint: "2.5.29.28",
  nameConstraints: "2.5.29.30",
  crlDistributionPoints: "2.5.29.31",
  certificatePolicies: "2.5.29.32",
  anyPolicy: "2.5.29.32.0",
  authorityKeyIdentifier: "2.5.29.35",
  extendedKeyUsage: "2.5.29.37",
  authorityInfoAccess: "1.3.6.1.5.5.7.1.1",
  accessOcsp: "1.3.6.1.5.5.7.48.1",
  accessCaIssuers: "1.3.6.1.5.5.7.48.2",
  policyQualifierCps: "1.3.6.1.5.5.7.2.1",

  // Extended key usages
  anyExtendedKeyUsage: "2.5.29.37.0",
  serverAuth: "1.3.6.1.5.5.7.3.1",
  clientAuth: "1.3.6.1.5.5.7.3.2",
  codeSigning: "1.3.6.1.5.5.7.3.3",
  emailProtection: "1.3.6.1.5.5.7.3.4",
  timeStamping: "1.3.6.1.5.5.7.3.8",
  ocspSigning: "1.3.6.1.5.5.7.3.9",

  // OCSP (RFC 6960)
  ocspBasic: "1.3.6.1.5.5.7.48.1.1",
  ocspNonce: "1.3.6.1.5.5.7.48.1.2",
  ocspNoCheck: "1.3.6.1.5.5.7.48.1.5",

  // Requests (PKCS#9) and Microsoft's user principal name
  extensionRequest: "1.2.840.113549.1.9.14",
  challengePassword: "1.2.840.113549.1.9.7",
  userPrincipalName: "1.3.6.1.4.1.311.20.2.3",

  // PKCS#5, #7, #12
  pkcs7Data: "1.2.840.113549.1.7.1",
  pkcs7EncryptedData: "1.2.840.113549.1.7.6",
  pbes2: "1.2.840.113549.1.5.13",
  pbkdf2: "1.2.840.113549.1.5.12",
  hmacWithSha256: "1.2.840.113549.2.9",
  aes256Cbc: "2.16.840.1.101.3.4.1.42",
  shroudedKeyBag: "1.2.840.113549.1.12.10.1.2",
  certBag: "1.2.840.113549.1.12.10.1.3",
  x509Certificate: "1.2.840.113549.1.9.22.1",
  friendlyName: "1.2.840.113549.1.9.20",
  localKeyId: "1.2.840.113549.1.9.21",

  // The key protector of Java's JKS keystore
  jksKeyProtector: "1.3.6.1.4.1.42.2.17.1.1",
} as const;
