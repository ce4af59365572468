// Key usage and extended key usage, in the words of the wire.

import { OID } from "./oids.ts";

/** In the order of the bits (RFC 5280 4.2.1.3). */
export const KEY_USAGES = [
  "digital_signature",
  "non_repudiation",
  "key_encipherment",
  "data_encipherment",
  "key_agreement",
  "key_cert_sign",
  "crl_sign",
  "encipher_only",
  "decipher_only",
] as const;
export type KeyUsage = (typeof KEY_USAGES)[number];

const EXTENDED_KEY_USAGE_OIDS = {
  server_auth: OID.serverAuth,
  client_auth: OID.clientAuth,
  code_signing: OID.codeSigning,
  email_protection: OID.emailProtection,
  ocsp_signing: OID.ocspSigning,
  time_stamping: OID.timeStamping,
  any_purpose: OID.anyExtendedKeyUsage,
} as const;
export type ExtendedKeyUsage = keyof typeof EXTENDED_KEY_USAGE_OIDS;

const namesByOid = new Map<string, string>(
  Object.entries(EXTENDED_KEY_USAGE_OIDS).map(([name, oid]) => [oid, name]),
);
const oidsByName = new Map<string, string>(Object.entries(EXTENDED_KEY_USAGE_OIDS));

/** A usage we have a name for, or any other by its object identifier. */
export type ExtendedKeyUsageName = ExtendedKeyUsage | `${number}.${string}`;

export const extendedKeyUsageOid = (usage: string): string => oidsByName.get(usage) ?? usage;
export const extendedKeyUsageName = (oid: string): string => namesByOid.get(oid) ?? oid;
