/** Schemas that the contracts of the certificate rooms share. */
import { z } from "zod";
import { projectRef } from "../projects/contract.ts";
import { queryInteger, uuid } from "../platform/http/endpoint.ts";

/** Absent: the organisation's certificate project. */
export const inProject = z.object({ projectId: projectRef.optional() });
export const byId = z.object({ id: uuid });
export const paging = {
  offset: queryInteger(0, 999_999_999_999_999, 0),
  limit: queryInteger(1, 100, 20),
};

/** Both spellings of the field are read (`EC_prime256v1` and `ECDSA-P256`); unknown ones are refused by name. */
export const algorithmText = z.string().min(1).max(64);
/** `90d`, `12h`, `30m`, `45s`, `2w`, `1y`. */
export const durationText = z.string().min(1).max(32);
export const momentText = z.string().min(1).max(64);

const KEY_USAGE_WORDS = [
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
const EXTENDED_KEY_USAGE_WORDS = [
  "client_auth",
  "server_auth",
  "code_signing",
  "email_protection",
  "ocsp_signing",
  "time_stamping",
  "any_purpose",
] as const;
export const SAN_WORDS = ["dns_name", "ip_address", "email", "uri", "upn"] as const;
export const REASON_WORDS = [
  "UNSPECIFIED",
  "KEY_COMPROMISE",
  "CA_COMPROMISE",
  "AFFILIATION_CHANGED",
  "SUPERSEDED",
  "CESSATION_OF_OPERATION",
  "CERTIFICATE_HOLD",
  "PRIVILEGE_WITHDRAWN",
  "A_A_COMPROMISE",
] as const;

export const keyUsageWord = z.enum(KEY_USAGE_WORDS);
/** A usage that has a word, or any other by its object identifier. */
export const extendedKeyUsageWord = z.union([
  z.enum(EXTENDED_KEY_USAGE_WORDS),
  z.string().regex(/^\d+(\.\d+){2,30}$/, "must be a known usage or an object identifier"),
]);
export const sanWord = z.enum(SAN_WORDS);
export const reasonWord = z.enum(REASON_WORDS);
export const altName = z.object({ type: sanWord, value: z.string().min(1).max(255) });
export const metadataPairs = z
  .array(z.object({ key: z.string().min(1).max(255), value: z.string().max(1020).default("") }))
  .max(100);

/** A finding: the rule that was broken, the field it is about, and what would pass. */
export const finding = z.object({
  code: z.string(),
  severity: z.enum(["error", "warn"]),
  field: z.string(),
  message: z.string(),
});

const part = z.string().max(255).nullish();
export const subjectWish = {
  commonName: part,
  organization: part,
  organizationalUnit: part,
  ou: part,
  country: part,
  state: part,
  province: part,
  locality: part,
  domainComponents: z.array(z.string().min(1).max(255)).max(50).nullish(),
};
export const basicConstraintsWish = z.object({
  isCA: z.boolean(),
  pathLength: z.number().int().min(0).max(255).optional(),
});
