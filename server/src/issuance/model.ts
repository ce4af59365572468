// From what a caller sent to what shall be certified: the request's attributes win, then what the CSR says, then the
// profile's defaults. Nothing is checked here; the policy and the lint check the result.
import { invalid, invalidField, type Issue } from "../platform/problem.ts";
import { levelsLeft, type Issuer } from "../signing/issuers.model.ts";
import {
  addSeconds,
  beginning,
  findingOf,
  latest,
  parseDuration,
  parseMoment,
  toSecond,
} from "../certificates/model.ts";
import { allowedKeys, allowedSignatures, usagesUnder } from "../policies/model.ts";
import type { PolicyRules } from "../policies/contract.ts";
import type { ProfileDefaults } from "../profiles/contract.ts";
import { SAN_WORDS } from "../certificates/contract.ts";
import type { CertificateRow } from "../inventory/model.ts";
import type { Attributes } from "./contract.ts";
import type { CertificateTemplate } from "../signing/model.ts";
import {
  attributeValues,
  commonNameOf,
  fitsKey,
  nameFrom,
  normaliseGeneralName,
  OID,
  parseKeyAlgorithm,
  parseSignatureAlgorithm,
  type CertificateRequest,
  type DistinguishedName,
  type ExtendedKeyUsageName,
  type Finding,
  type GeneralName,
  type KeyAlgorithm,
  type KeyUsage,
  type SignatureAlgorithm,
} from "@keyward/x509";

export interface Material {
  readonly attributes: Attributes;
  readonly csr: CertificateRequest | undefined;
  readonly defaults: ProfileDefaults;
  readonly rules: PolicyRules;
  readonly issuer: Issuer | null;
  /** For a renewal: the certificate that it replaces. */
  readonly replaced?: Replaced | undefined;
  readonly now: Date;
}

export interface Replaced {
  readonly lifetimeSeconds: number;
  readonly notAfter: Date;
}

type Alt = NonNullable<Attributes["altNames"]>[number];

const DEFAULT_TTL_SECONDS = 90 * 86_400;
const said = (text: string | null | undefined): string | undefined =>
  text === null || text === undefined || text === "" ? undefined : text;

function subjectOf({ attributes, csr, defaults }: Material): DistinguishedName {
  const asked = csr?.subject.rdns ?? [];
  const from = (oid: string): string | undefined => attributeValues(asked, oid)[0];
  const components =
    attributes.domainComponents ?? (csr ? attributeValues(asked, OID.domainComponent) : undefined);
  return nameFrom({
    commonName: said(attributes.commonName) ?? commonNameOf(asked) ?? defaults.commonName,
    organization: said(attributes.organization) ?? from(OID.organization) ?? defaults.organization,
    organizationalUnit:
      said(attributes.organizationalUnit) ??
      said(attributes.ou) ??
      from(OID.organizationalUnit) ??
      defaults.organizationalUnit,
    country: said(attributes.country) ?? from(OID.country) ?? defaults.country,
    state: said(attributes.state) ?? said(attributes.province) ?? from(OID.state) ?? defaults.state,
    locality: said(attributes.locality) ?? from(OID.locality) ?? defaults.locality,
    domainComponents: components && components.length > 0 ? components : defaults.domainComponents,
  });
}

/** Public CAs stop at a hundred, too. */
const MOST_ALT_NAMES = 100;

function altNamesOf({ attributes, csr, defaults }: Material): GeneralName[] {
  const textual = (
    names: readonly {
      readonly type: "dns_name" | "ip_address" | "email" | "uri" | "upn";
      readonly value: string;
    }[],
  ): GeneralName[] => names.map(({ type, value }) => normaliseGeneralName(type, value));
  const given = attributes.altNames ? textual(attributes.altNames) : undefined;
  const fromCsr = csr?.extensions.subjectAltName;
  const names =
    given ??
    (fromCsr && fromCsr.length > 0 ? [...fromCsr] : undefined) ??
    textual(defaults.subjectAltNames ?? []);
  // As many as the contract lets a request name: each is matched with each pattern of the policy.
  if (names.length > MOST_ALT_NAMES)
    throw invalidField(["csr"], `must ask for at most ${MOST_ALT_NAMES} alternative names`);
  const seen = new Set<string>();
  return names.filter((each) => {
    const key = `${each.type}:${typeof each.value === "string" ? each.value : JSON.stringify(each.value)}`;
    return !seen.has(key) && seen.add(key);
  });
}

function validityOf({ attributes, defaults, rules, issuer, replaced, now }: Material): {
  notBefore: Date;
  notAfter: Date;
} {
  const [ttl, from, until] = [said(attributes.ttl), said(attributes.notBefore), said(attributes.notAfter)];
  if (ttl !== undefined && (from !== undefined || until !== undefined)) {
    const issue: Issue = {
      code: "custom",
      path: ["attributes", "ttl"],
      message: "send either ttl or notBefore and notAfter, not both",
    };
    throw invalid([issue]);
  }
  const begin = (lifetime: number): Date =>
    from === undefined
      ? beginning(now, lifetime, issuer?.certificate.notBefore)
      : parseMoment(from, "notBefore");
  const max =
    rules.validity?.max === undefined ? undefined : parseDuration(rules.validity.max, "validity.max");
  if (until !== undefined) {
    const notAfter = parseMoment(until, "notAfter");
    const notBefore = begin((notAfter.getTime() - now.getTime()) / 1000);
    if (from !== undefined || max === undefined) return { notBefore, notAfter };
    // A request for the policy's maximum from now on is not refused because of the backdated `notBefore`.
    const earliest = addSeconds(notAfter, -max);
    return { notBefore: earliest <= now ? latest(notBefore, earliest) : toSecond(now), notAfter };
  }
  // Without a requested lifetime: as before, or the profile's default, within the policy's and the CA's limits.
  const usual =
    replaced?.lifetimeSeconds ?? (defaults.ttlDays ? defaults.ttlDays * 86_400 : DEFAULT_TTL_SECONDS);
  const lifetime = ttl === undefined ? Math.min(usual, max ?? usual) : parseDuration(ttl, "ttl");
  const notBefore = begin(lifetime);
  const wished = addSeconds(notBefore, lifetime);
  const end = issuer?.certificate.notAfter;
  if (ttl !== undefined || end === undefined || end >= wished) return { notBefore, notAfter: wished };
  // A renewal that would expire no later than the old one is refused, so that an alert reports it.
  return { notBefore, notAfter: !replaced || end > replaced.notAfter ? end : wished };
}

/** Clocks differ, and people plan for tomorrow. */
const AHEAD_SECONDS = 86_400;

/**
 * What a policy about the lifetime alone does not see: one that is over, and one that lies so far ahead that
 * a caller who may have certificates today would have those of later years too.
 */
export function timeFindings(
  rules: PolicyRules,
  { notBefore, notAfter }: CertificateTemplate,
  now: Date,
): Finding[] {
  if (notAfter <= now && notBefore < notAfter)
    return [findingOf("validity.ended", "notAfter", "It has ended already.")];
  const max = rules.validity?.max;
  if (max === undefined || notBefore <= now) return [];
  const longest = parseDuration(max, "validity.max");
  const [lifetime, ahead] = [notAfter.getTime() - notBefore.getTime(), notAfter.getTime() - now.getTime()];
  if (lifetime > longest * 1000 || ahead <= (longest + AHEAD_SECONDS) * 1000) return [];
  const message = `It would end later than ${max} from now, which is as long as the policy lets a certificate last.`;
  return [findingOf("policy.validity_ahead", "notBefore", message)];
}

/** RSA keys may also encrypt a session key; the others only sign. */
const usualKeyUsages = (algorithm: KeyAlgorithm | undefined): KeyUsage[] =>
  algorithm?.startsWith("RSA") ? ["digital_signature", "key_encipherment"] : ["digital_signature"];

function usagesOf(
  { attributes, csr, defaults, rules }: Material,
  isCa: boolean,
  algorithm: KeyAlgorithm | undefined,
) {
  const asked = <T>(list: readonly T[] | null | undefined): readonly T[] | undefined =>
    list && list.length > 0 ? list : undefined;
  const keyUsages =
    asked(attributes.keyUsages) ?? asked(csr?.extensions.keyUsage) ?? asked(defaults.keyUsages);
  const extended =
    asked(attributes.extendedKeyUsages) ??
    asked(csr?.extensions.extendedKeyUsage) ??
    asked(defaults.extendedKeyUsages);
  return {
    keyUsages: usagesUnder(
      rules.keyUsages,
      keyUsages,
      isCa ? ["digital_signature", "key_cert_sign", "crl_sign"] : usualKeyUsages(algorithm),
    ),
    extendedKeyUsages: usagesUnder<string>(
      rules.extendedKeyUsages,
      extended,
      isCa ? [] : ["server_auth", "client_auth"],
    ) as ExtendedKeyUsageName[],
  };
}

/** The key to make here, when the caller brings none. */
export function keyAlgorithmFor({
  attributes,
  defaults,
  rules,
}: Pick<Material, "attributes" | "defaults" | "rules">): KeyAlgorithm {
  const asked = said(attributes.keyAlgorithm) ?? said(defaults.keyAlgorithm);
  return asked === undefined ? (allowedKeys(rules)?.[0] ?? "EC_prime256v1") : parseKeyAlgorithm(asked);
}

function signatureFor({ attributes, defaults, rules, issuer }: Material): SignatureAlgorithm | undefined {
  const asked = said(attributes.signatureAlgorithm);
  if (asked !== undefined) return parseSignatureAlgorithm(asked);
  const usual = said(defaults.signatureAlgorithm);
  const fits = (algorithm: SignatureAlgorithm): boolean =>
    issuer !== null && fitsKey(algorithm, issuer.signer.key);
  // A default made for another CA's key type is no reason to refuse.
  const preferred = usual === undefined ? undefined : parseSignatureAlgorithm(usual);
  if (preferred !== undefined && fits(preferred)) return preferred;
  const allowed = allowedSignatures(rules);
  if (!allowed || (issuer && allowed.includes(issuer.signer.algorithm))) return undefined;
  return allowed.find(fits);
}

export function templateOf(material: Material, keyAlgorithm: KeyAlgorithm | undefined): CertificateTemplate {
  const { attributes, csr, defaults } = material;
  const constraints = attributes.basicConstraints ?? defaults.basicConstraints;
  const isCa = constraints?.isCA ?? csr?.extensions.basicConstraints?.isCa ?? false;
  const pathLength = isCa
    ? (constraints?.pathLength ?? csr?.extensions.basicConstraints?.pathLength ?? levelsLeft(material.issuer))
    : undefined;
  return {
    subject: subjectOf(material),
    altNames: altNamesOf(material),
    ...usagesOf(material, isCa, keyAlgorithm),
    isCa,
    pathLength,
    nameConstraints: undefined,
    ...validityOf(material),
    signatureAlgorithm: signatureFor(material),
  };
}

/** How long before its end a certificate of this profile is renewed by the server. */
export function renewBeforeSeconds(
  profile: { readonly renewBeforeDays: number | null; readonly renewBeforePercent: number | null },
  template: CertificateTemplate,
): number | undefined {
  const lifetime = (template.notAfter.getTime() - template.notBefore.getTime()) / 1000;
  if (profile.renewBeforePercent !== null) return Math.round((lifetime * profile.renewBeforePercent) / 100);
  return profile.renewBeforeDays === null ? undefined : profile.renewBeforeDays * 86_400;
}

/**
 * What the right to a certificate is checked with. A name that is not text is given by its kind, so that a right to
 * certain names does not cover it.
 */
export const namesOf = (template: CertificateTemplate, friendlyName: string | undefined) => ({
  commonName: commonNameOf(template.subject) ?? "",
  altNames: template.altNames.map(({ type, value }) => (typeof value === "string" ? value : type)),
  friendlyName: friendlyName ?? "",
});

export const replacedBy = ({ notBefore, notAfter }: CertificateRow): Replaced => ({
  lifetimeSeconds: Math.round((notAfter.getTime() - notBefore.getTime()) / 1000),
  notAfter,
});

/** Clients send null or nothing for what they leave as it is. */
function saidAnew(anew: Attributes): Attributes {
  const { ou, province, ...rest } = anew;
  const named = {
    ...rest,
    organizationalUnit: said(rest.organizationalUnit) ?? ou,
    state: said(rest.state) ?? province,
  };
  return Object.fromEntries(
    Object.entries(named).filter(([, value]) => value !== null && value !== undefined && value !== ""),
  );
}

/** What a renewal asks for: the same names and usages as before, but for what is said anew. */
export function attributesAgain(row: CertificateRow, anew: Attributes, isCsrGiven: boolean): Attributes {
  const { subject = {}, keyUsages = [], extendedKeyUsages = [], pathLength } = row.details;
  return {
    ...subject,
    domainComponents: subject.domainComponents ? [...subject.domainComponents] : undefined,
    altNames: row.altNames.filter((each): each is Alt => SAN_WORDS.includes(each.type as Alt["type"])),
    keyUsages: keyUsages as Attributes["keyUsages"],
    extendedKeyUsages: [...extendedKeyUsages],
    ...(isCsrGiven ? {} : { keyAlgorithm: row.keyAlgorithm }),
    basicConstraints: { isCA: row.isCa, ...(pathLength === undefined ? {} : { pathLength }) },
    ...saidAnew(anew),
  };
}
