// Distinguished names (RFC 5280 4.1.2.4). A name is an ordered list of relative names, most general first; a
// relative name is a set, nearly always of one attribute. Order and repetition carry meaning, so a name is kept
// as the list it is. An issuer name is never rebuilt from text: chains are matched byte for byte, so the child
// copies the DER of its parent's subject (`ParsedName.der`).

import * as der from "./der.ts";
import { readDer, type DerReader } from "./der-reader.ts";
import { OID } from "./oids.ts";
import { quote, X509Error } from "./x509-error.ts";

export interface NameAttribute {
  /** Dotted object identifier. */
  readonly type: string;
  readonly value: string;
}
export type RelativeName = readonly NameAttribute[];
export type DistinguishedName = readonly RelativeName[];

export interface ParsedName {
  readonly der: Buffer;
  readonly rdns: DistinguishedName;
}

interface AttributeRule {
  readonly type: string;
  readonly keyword: string;
  readonly field: string;
  /** Upper bound in characters: RFC 5280 appendix A.1; for domain components a DNS label's. */
  readonly maxLength: number;
  readonly encoding: "utf8" | "printable" | "ia5";
}

const RULES: readonly AttributeRule[] = [
  { type: OID.commonName, keyword: "CN", field: "common_name", maxLength: 64, encoding: "utf8" },
  { type: OID.organization, keyword: "O", field: "organization", maxLength: 64, encoding: "utf8" },
  {
    type: OID.organizationalUnit,
    keyword: "OU",
    field: "organizational_unit",
    maxLength: 64,
    encoding: "utf8",
  },
  { type: OID.country, keyword: "C", field: "country", maxLength: 2, encoding: "printable" },
  { type: OID.state, keyword: "ST", field: "state", maxLength: 128, encoding: "utf8" },
  { type: OID.locality, keyword: "L", field: "locality", maxLength: 128, encoding: "utf8" },
  { type: OID.domainComponent, keyword: "DC", field: "domain_component", maxLength: 63, encoding: "ia5" },
  {
    type: OID.serialNumber,
    keyword: "serialNumber",
    field: "serial_number",
    maxLength: 64,
    encoding: "printable",
  },
  { type: OID.emailAddress, keyword: "emailAddress", field: "email", maxLength: 255, encoding: "ia5" },
];
const ruleByType = new Map(RULES.map((rule) => [rule.type, rule]));
const ruleByKeyword = new Map(RULES.map((rule) => [rule.keyword.toLowerCase(), rule]));
// Spellings other programs use in text names.
for (const [alias, keyword] of [
  ["s", "ST"],
  ["e", "emailAddress"],
  ["email", "emailAddress"],
] as const) {
  const rule = ruleByKeyword.get(keyword.toLowerCase());
  if (rule !== undefined) ruleByKeyword.set(alias, rule);
}

interface SubjectFields {
  readonly country?: string | undefined;
  readonly state?: string | undefined;
  readonly locality?: string | undefined;
  /** Most general first, as in the name itself: `["com", "example"]` for example.com. */
  readonly domainComponents?: readonly string[] | undefined;
  readonly organization?: string | undefined;
  readonly organizationalUnit?: string | readonly string[] | undefined;
  readonly serialNumber?: string | undefined;
  readonly emailAddress?: string | undefined;
  readonly commonName?: string | undefined;
}

/** A name in the customary order, general to particular. Absent and empty fields are left out. */
export function nameFrom(fields: SubjectFields): DistinguishedName {
  const units =
    typeof fields.organizationalUnit === "string" ? [fields.organizationalUnit] : fields.organizationalUnit;
  const pairs: readonly (readonly [string, string | undefined])[] = [
    [OID.country, fields.country],
    [OID.state, fields.state],
    [OID.locality, fields.locality],
    ...(fields.domainComponents ?? []).map((part) => [OID.domainComponent, part] as const),
    [OID.organization, fields.organization],
    ...(units ?? []).map((unit) => [OID.organizationalUnit, unit] as const),
    [OID.serialNumber, fields.serialNumber],
    [OID.emailAddress, fields.emailAddress],
    [OID.commonName, fields.commonName],
  ];
  const rdns: RelativeName[] = [];
  for (const [type, value] of pairs) if (value !== undefined && value !== "") rdns.push([{ type, value }]);
  return rdns;
}

/** Every value of an attribute type, in the order of the name. */
export function attributeValues(name: DistinguishedName, type: string): string[] {
  return name.flatMap((rdn) => rdn.filter((attribute) => attribute.type === type).map(({ value }) => value));
}

/** The most particular common name, which is the last one. */
export const commonNameOf = (name: DistinguishedName): string | undefined =>
  attributeValues(name, OID.commonName).at(-1);

export function encodeName(name: DistinguishedName): Buffer {
  return der.sequenceOf(
    name.map((rdn) => {
      if (rdn.length === 0)
        throw new X509Error("name.empty_rdn", "subject", "A relative name needs an attribute.");
      return der.setOf(rdn.map(encodeAttribute));
    }),
  );
}

function encodeAttribute({ type, value }: NameAttribute): Buffer {
  const rule = ruleByType.get(type);
  checkAttribute(value, rule ?? { type, keyword: type, field: type, maxLength: 32768, encoding: "utf8" });
  return der.sequence(der.oid(type), encodeValue(value, rule?.encoding ?? "utf8"));
}

function encodeValue(value: string, encoding: AttributeRule["encoding"]): Buffer {
  switch (encoding) {
    case "printable":
      return der.printableString(value);
    case "ia5":
      return der.ia5String(value);
    case "utf8":
      return der.utf8String(value);
  }
}

function checkAttribute(value: string, rule: AttributeRule): void {
  const refuse = (code: string, message: string): X509Error =>
    new X509Error(`name.${code}`, rule.field, message);
  // Bounds count characters; only a value that seems too long is worth splitting into them.
  const length = value.length <= rule.maxLength ? value.length : [...value].length;
  if (length === 0) throw refuse("empty", `${rule.keyword} is empty; leave it out instead.`);
  if (rule.keyword === "C" && !/^[A-Z]{2}$/.test(value)) {
    throw refuse(
      "country",
      `C must be a two-letter country code in capitals (ISO 3166), not ${quote(value)}.`,
    );
  }
  if (length > rule.maxLength) {
    throw refuse(
      "too_long",
      `${rule.keyword} has ${length} characters; at most ${rule.maxLength} are allowed.`,
    );
  }
  if (/[\u0000-\u001f\u007f-\u009f]/.test(value))
    throw refuse("control", `${rule.keyword} has a control character.`);
  if (/\p{Surrogate}/u.test(value)) throw refuse("unicode", `${rule.keyword} has half of a surrogate pair.`);
  if (rule.encoding === "printable" && !/^[A-Za-z0-9 '()+,\-./:=?]+$/.test(value)) {
    throw refuse("characters", `${rule.keyword} allows letters, digits, space and '()+,-./:=? only.`);
  }
  if (rule.encoding === "ia5" && /[^\x20-\x7e]/.test(value)) {
    throw refuse("characters", `${rule.keyword} allows ASCII characters only.`);
  }
}

export function parseNameDer(bytes: Buffer): ParsedName {
  return readDer(bytes, readName);
}

export function readName(reader: DerReader): ParsedName {
  const { value: rdns, bytes } = reader.capture((each) => each.list(der.TAG.sequence, readRelativeName));
  return { der: bytes, rdns };
}

function readRelativeName(reader: DerReader): RelativeName {
  const attributes = reader.setOf(readAttribute);
  if (attributes.length === 0) throw reader.error("a relative name without attributes");
  return attributes;
}

function readAttribute(reader: DerReader): NameAttribute {
  return reader.sequence((pair) => ({ type: pair.oid(), value: readDirectoryString(pair) }));
}

/** Any of the string types that names have been written in since 1988. */
export function readDirectoryString(reader: DerReader): string {
  const tag = reader.nextTag ?? 0;
  switch (tag) {
    case der.TAG.utf8String:
      return reader.utf8String();
    case der.TAG.printableString:
    case der.TAG.ia5String:
    case der.TAG.numericString:
    case der.TAG.visibleString:
      return reader.ia5String(tag);
    case der.TAG.teletexString:
      // T.61 in the standard, Latin-1 in every certificate ever seen.
      return reader.content(tag).toString("latin1");
    case der.TAG.bmpString: {
      const content = Buffer.from(reader.content(tag));
      if (content.length % 2 !== 0) throw reader.error("BMPString of odd length");
      return content.swap16().toString("utf16le");
    }
    default:
      // Not a string at all: show it as RFC 4514 does, in hexadecimal.
      return `#${reader.element().toString("hex")}`;
  }
}

/**
 * Names as RFC 5280 7.1 compares them: letter case and runs of spaces do not count, nor does the string type.
 * One text per name, so that a Map can hold it.
 */
export function comparisonKey(name: DistinguishedName): string {
  return JSON.stringify(name.map(rdnKey));
}

function rdnKey(rdn: RelativeName): string[] {
  return rdn
    .map(({ type, value }) => `${type}=${value.normalize("NFKC").toLowerCase().trim().replace(/\s+/g, " ")}`)
    .sort();
}

export const namesMatch = (a: DistinguishedName, b: DistinguishedName): boolean =>
  comparisonKey(a) === comparisonKey(b);

/** Whether `name` lies in the tree that starts at `base`: base is a prefix of it. */
export function isWithinName(name: DistinguishedName, base: DistinguishedName): boolean {
  return name.length >= base.length && namesMatch(name.slice(0, base.length), base);
}

/** What `name-text.ts` needs to know of the attribute table. */
export const keywordOf = (type: string): string | undefined => ruleByType.get(type)?.keyword;
export const typeOfKeyword = (keyword: string): string | undefined =>
  ruleByKeyword.get(keyword.toLowerCase())?.type;
