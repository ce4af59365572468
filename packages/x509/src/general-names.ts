// General names: the things a subject alternative name can hold (RFC 5280 4.2.1.6). What a caller types passes
// through `normaliseGeneralName` once; from then on every name has one spelling (A-labels in small letters, RFC
// 5952 addresses), so comparing, policies, constraints and duplicates are comparisons of text.

import { domainToASCII, domainToUnicode } from "node:url";
import * as der from "./der.ts";
import type { DerReader } from "./der-reader.ts";
import { formatIp, parseIp } from "./ip-addresses.ts";
import { encodeName, readName, type DistinguishedName } from "./names.ts";
import { formatName } from "./name-text.ts";
import { OID } from "./oids.ts";
import { quote, X509Error } from "./x509-error.ts";

const TEXT_NAME_TYPES = ["dns_name", "ip_address", "email", "uri", "upn"] as const;
export type TextNameType = (typeof TEXT_NAME_TYPES)[number];

export type GeneralName =
  | { readonly type: TextNameType; readonly value: string }
  | { readonly type: "directory_name"; readonly value: DistinguishedName }
  | { readonly type: "registered_id"; readonly value: string }
  /** A kind we do not interpret, kept as it came. */
  | { readonly type: "other"; readonly value: Buffer };

export function normaliseGeneralName(type: TextNameType, value: string): GeneralName {
  switch (type) {
    case "dns_name":
      return { type, value: normaliseDnsName(value) };
    case "ip_address":
      return { type, value: normaliseIp(value) };
    case "email":
      return { type, value: normaliseEmail(value) };
    case "uri":
      return { type, value: normaliseUri(value) };
    case "upn":
      return { type, value: normaliseUpn(value) };
  }
}

const refuse = (type: TextNameType, reason: string, message: string): X509Error =>
  new X509Error(`${type}.${reason}`, type, message);

/** Small letters and A-labels; refuses whatever `dnsNameProblem` finds. */
export function normaliseDnsName(value: string): string {
  const ascii = /^[\x00-\x7f]*$/.test(value) ? value.toLowerCase() : toALabels(value);
  const problem = dnsNameProblem(ascii);
  if (problem !== undefined) throw refuse("dns_name", problem, `${quote(value)} ${DNS_PROBLEMS[problem]}.`);
  return ascii;
}

export const DNS_PROBLEMS = {
  empty: "is empty",
  too_long: "is longer than 253 characters",
  trailing_dot: "ends in a dot; write the name without it",
  empty_label: "has an empty label (two dots in a row, or a dot in front)",
  label_too_long: "has a label longer than 63 characters",
  wildcard: "may use * only as the whole leftmost label, in front of a name",
  characters: "has a character other than letters, digits and inner hyphens",
  punycode: "has an xn-- label that is not valid punycode",
  address: "looks like an IP address; use the type ip_address",
} as const;
type DnsProblem = keyof typeof DNS_PROBLEMS;

/** What is wrong with a DNS name in its final ASCII spelling, if anything. */
export function dnsNameProblem(name: string): DnsProblem | undefined {
  if (name === "") return "empty";
  if (name.length > 253) return "too_long";
  if (name.endsWith(".")) return "trailing_dot";
  const base = name.startsWith("*.") ? name.slice(2) : name;
  const labels = base.split(".");
  if (labels.includes("")) return "empty_label";
  if (base.includes("*")) return "wildcard";
  if (labels.some((label) => label.length > 63)) return "label_too_long";
  if (!labels.every((label) => /^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$/.test(label))) return "characters";
  // A name that ends in a number would be read as an IPv4 address by some clients.
  if (/^\d+$/.test(labels.at(-1) ?? "")) return "address";
  if (/(^|\.)xn--/i.test(base) && !isValidPunycode(base.toLowerCase())) return "punycode";
  return undefined;
}

function isValidPunycode(name: string): boolean {
  const unicode = domainToUnicode(name);
  return unicode !== "" && domainToASCII(unicode) === name;
}

function toALabels(value: string): string {
  if (value.length > 1024) throw refuse("dns_name", "too_long", `${quote(value)} ${DNS_PROBLEMS.too_long}.`);
  // domainToASCII would also decode %41 and read 0x7f.1 as an address, so ASCII must be plain before it sees it.
  if (/[^A-Za-z0-9.*\-\u0080-\u{10ffff}]/u.test(value)) {
    throw refuse("dns_name", "characters", `${quote(value)} ${DNS_PROBLEMS.characters}.`);
  }
  const wildcard = value.startsWith("*.") ? "*." : "";
  const ascii = domainToASCII(value.slice(wildcard.length));
  if (ascii === "") {
    throw refuse(
      "dns_name",
      "idna",
      `${quote(value)} has letters that international domain names do not allow.`,
    );
  }
  return wildcard + ascii;
}

function normaliseIp(value: string): string {
  const octets = parseIp(value);
  if (octets === undefined) {
    throw refuse("ip_address", "syntax", `${quote(value)} is not an IPv4 or IPv6 address.`);
  }
  return formatIp(octets);
}

/** The local part keeps its letter case (only its own server may judge it); the domain is a DNS name. */
function normaliseEmail(value: string): string {
  const at = value.lastIndexOf("@");
  const local = value.slice(0, Math.max(0, at));
  if (
    !/^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/.test(local) ||
    local.length > 64
  ) {
    throw refuse("email", "syntax", `${quote(value)} is not an address of the form name@domain in ASCII.`);
  }
  let domain: string;
  try {
    domain = normaliseDnsName(value.slice(at + 1));
  } catch (cause) {
    const why = cause instanceof X509Error ? ` ${cause.message}` : "";
    throw refuse("email", "domain", `The domain of ${quote(value)} is not a DNS name.${why}`);
  }
  if (domain.startsWith("*."))
    throw refuse("email", "domain", "An email address cannot have a wildcard domain.");
  return `${local}@${domain}`;
}

function normaliseUri(value: string): string {
  const ascii = /^[\x00-\x7f]*$/.test(value) ? value : toAsciiUri(value);
  if (/[\x00-\x20\x7f"<>\\^`{|}]/.test(ascii)) {
    throw refuse("uri", "characters", `${quote(value)} has a character that a URI must escape.`);
  }
  if (!/^[A-Za-z][A-Za-z0-9+.-]*:[^#]/.test(ascii)) {
    throw refuse("uri", "relative", `${quote(value)} is not an absolute URI such as https://host/path.`);
  }
  if (/%(?![0-9A-Fa-f]{2})/.test(ascii))
    throw refuse("uri", "escape", `${quote(value)} has a broken % escape.`);
  if (ascii.length > 2048) throw refuse("uri", "too_long", "A URI may have at most 2048 characters.");
  // RFC 5280: with an authority there must be a host, else name constraints have nothing to look at.
  if (/^[^:]+:\/\//.test(ascii) && uriHost(ascii) === undefined) {
    throw refuse("uri", "host", `${quote(value)} has no host, or one that cannot be read.`);
  }
  return ascii;
}

function toAsciiUri(value: string): string {
  if (/^https?:/i.test(value) && URL.canParse(value)) return new URL(value).href;
  throw refuse("uri", "characters", `${quote(value)} is not ASCII; escape it first (RFC 3987 section 3.1).`);
}

/** The host of `scheme://host…` in small letters; undefined when there is none. */
export function uriHost(uri: string): string | undefined {
  const authority = /^[A-Za-z][A-Za-z0-9+.-]*:\/\/([^/?#]*)/.exec(uri)?.[1];
  if (authority === undefined) return undefined;
  const host = authority
    .slice(authority.lastIndexOf("@") + 1)
    .replace(/:\d*$/, "")
    .toLowerCase();
  return /^(\[[0-9a-f:.]+\]|[a-z0-9._~%!$&'()*+,;=-]+)$/.test(host) ? host : undefined;
}

function normaliseUpn(value: string): string {
  if (!/^[^@\s\p{Cc}]+@[^@\s\p{Cc}]+$/u.test(value) || [...value].length > 1024) {
    throw refuse("upn", "syntax", `${quote(value)} is not a user principal name of the form user@realm.`);
  }
  return value;
}

export function encodeGeneralName(name: GeneralName): Buffer {
  switch (name.type) {
    case "email":
      return der.tlv(der.contextTag(1), Buffer.from(normaliseEmail(name.value), "latin1"));
    case "dns_name":
      return der.tlv(der.contextTag(2), Buffer.from(normaliseDnsName(name.value), "latin1"));
    case "uri":
      return der.tlv(der.contextTag(6), Buffer.from(normaliseUri(name.value), "latin1"));
    case "ip_address":
      return der.tlv(der.contextTag(7), parseIp(normaliseIp(name.value)) ?? Buffer.alloc(0));
    case "upn":
      return der.explicit(
        0,
        der.oid(OID.userPrincipalName),
        der.explicit(0, der.utf8String(normaliseUpn(name.value))),
      );
    case "directory_name":
      return der.explicit(4, encodeName(name.value));
    case "registered_id":
      return der.tlv(der.contextTag(8), der.oidContent(name.value));
    case "other":
      return name.value;
  }
}

/** Reads what is there. A foreign certificate may hold names we would refuse to write; the lint says so. */
export function readGeneralName(reader: DerReader): GeneralName {
  const tag: number = reader.nextTag ?? 0;
  switch (tag) {
    case der.contextConstructedTag(0):
      return readOtherName(reader);
    case der.contextTag(1):
      return { type: "email", value: reader.ia5String(der.contextTag(1)) };
    case der.contextTag(2):
      return { type: "dns_name", value: reader.ia5String(der.contextTag(2)) };
    case der.contextConstructedTag(4):
      return {
        type: "directory_name",
        value: reader.within(der.contextConstructedTag(4), (inside) => readName(inside).rdns),
      };
    case der.contextTag(6):
      return { type: "uri", value: reader.ia5String(der.contextTag(6)) };
    case der.contextTag(7): {
      const octets = reader.content(der.contextTag(7));
      if (octets.length !== 4 && octets.length !== 16) throw reader.error("an IP address has 4 or 16 octets");
      return { type: "ip_address", value: formatIp(octets) };
    }
    case der.contextTag(8):
      return { type: "registered_id", value: reader.oid(der.contextTag(8)) };
    default:
      return { type: "other", value: reader.element() };
  }
}

/** otherName is `[0] { type-id, [0] EXPLICIT value }`; of its many kinds only the user principal name is read. */
function readOtherName(reader: DerReader): GeneralName {
  const { value: upn, bytes } = reader.capture((each) =>
    each.within(der.contextConstructedTag(0), (pair) => {
      const type = pair.oid();
      return pair.within(der.contextConstructedTag(0), (inside) => {
        if (type === OID.userPrincipalName && inside.nextTag === der.TAG.utf8String)
          return inside.utf8String();
        inside.element();
        return undefined;
      });
    }),
  );
  return upn === undefined ? { type: "other", value: bytes } : { type: "upn", value: upn };
}

export const readGeneralNames = (reader: DerReader, tag: number = der.TAG.sequence): GeneralName[] =>
  reader.list(tag, readGeneralName);

/** One line per name, for messages and for finding duplicates: `dns_name:db.example.com`. */
export function describeGeneralName(name: GeneralName): string {
  if (name.type === "directory_name") return `${name.type}:${formatName(name.value)}`;
  return `${name.type}:${name.type === "other" ? name.value.toString("hex") : name.value}`;
}
