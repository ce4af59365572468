// Name constraints (RFC 5280 4.2.1.10): a CA limited to parts of the name space. They are checked twice:
// by verify-chain.ts like any relying party, and by the issuing path before it signs, so that Keyward never makes a
// certificate that its own chain forbids. Both ask `violatesNameConstraints`.

import * as der from "./der.ts";
import type { DerReader } from "./der-reader.ts";
import { makeExtension, type Extension } from "./extensions.ts";
import {
  describeGeneralName,
  dnsNameProblem,
  normaliseDnsName,
  uriHost,
  type GeneralName,
} from "./general-names.ts";
import { formatIp, isInRange, parseCidr, parseIp, prefixLengthOf } from "./ip-addresses.ts";
import { formatName } from "./name-text.ts";
import { commonNameOf, encodeName, isWithinName, readName, type DistinguishedName } from "./names.ts";
import { OID } from "./oids.ts";
import { quote, X509Error } from "./x509-error.ts";

/**
 * A part of the name space. dns: `example.com` (the name and everything below it). email: one mailbox, a host, or
 * `.example.com` for the hosts below. uri: a host, or `.example.com`. ip: CIDR.
 */
export type Subtree =
  | { readonly type: "dns_name" | "email" | "uri" | "ip_address"; readonly value: string }
  | { readonly type: "directory_name"; readonly value: DistinguishedName }
  /** A kind we cannot judge: any name of that kind counts as a violation (RFC 5280: reject what is not understood). */
  | { readonly type: "unknown"; readonly tag: number };

export interface NameConstraints {
  readonly permitted: readonly Subtree[];
  readonly excluded: readonly Subtree[];
}

/** Always critical, as RFC 5280 demands: who does not understand it must not trust the chain. */
export function nameConstraints({ permitted, excluded }: NameConstraints): Extension {
  const parts: Buffer[] = [];
  if (permitted.length > 0) parts.push(der.explicit(0, ...permitted.map(encodeSubtree)));
  if (excluded.length > 0) parts.push(der.explicit(1, ...excluded.map(encodeSubtree)));
  if (parts.length === 0) throw refuse("Name constraints must permit or exclude something.");
  return makeExtension(OID.nameConstraints, true, der.sequenceOf(parts));
}

const refuse = (message: string): X509Error => new X509Error("name_constraints", "nameConstraints", message);

/** minimum is 0 and not sent, maximum does not exist: RFC 5280 allows nothing else. */
const encodeSubtree = (subtree: Subtree): Buffer => der.sequence(encodeBase(subtree));

function encodeBase(subtree: Subtree): Buffer {
  switch (subtree.type) {
    case "email":
      return der.tlv(der.contextTag(1), Buffer.from(checkedEmailBase(subtree.value), "latin1"));
    case "dns_name":
      return der.tlv(der.contextTag(2), Buffer.from(checkedHostBase(subtree.value), "latin1"));
    case "uri":
      return der.tlv(der.contextTag(6), Buffer.from(checkedHostBase(subtree.value), "latin1"));
    case "ip_address": {
      const range = parseCidr(subtree.value);
      if (range === undefined) throw refuse(`${quote(subtree.value)} is not a range such as 10.0.0.0/8.`);
      return der.tlv(der.contextTag(7), range.address, range.mask);
    }
    case "directory_name":
      return der.explicit(4, encodeName(subtree.value));
    case "unknown":
      throw refuse("A constraint of an unknown kind cannot be written.");
  }
}

/** The empty base stands for every name of its kind. */
function checkedHostBase(value: string): string {
  if (value === "") return "";
  const dot = value.startsWith(".") ? "." : "";
  const host = normaliseDnsName(value.slice(dot.length));
  if (host.startsWith("*"))
    throw refuse(`${quote(value)}: a constraint covers what is below it; leave the * out.`);
  return dot + host;
}

function checkedEmailBase(value: string): string {
  const at = value.lastIndexOf("@");
  return at <= 0 ? checkedHostBase(value) : value.slice(0, at + 1) + checkedHostBase(value.slice(at + 1));
}

export function readNameConstraints(reader: DerReader): NameConstraints {
  return reader.sequence((fields) => {
    const lists = [0, 1].map((number) =>
      fields.optional(der.contextConstructedTag(number), (each) =>
        each.list(der.contextConstructedTag(number), readSubtree),
      ),
    );
    return { permitted: lists[0] ?? [], excluded: lists[1] ?? [] };
  });
}

function readSubtree(reader: DerReader): Subtree {
  return reader.sequence((fields) => {
    const subtree = readBase(fields);
    if (!fields.isDone) throw fields.error("minimum and maximum must be absent");
    return subtree;
  });
}

function readBase(reader: DerReader): Subtree {
  const tag = reader.nextTag ?? 0;
  switch (tag) {
    case der.contextTag(1):
      return { type: "email", value: reader.ia5String(tag) };
    case der.contextTag(2):
      return { type: "dns_name", value: reader.ia5String(tag) };
    case der.contextConstructedTag(4):
      return { type: "directory_name", value: reader.within(tag, (inside) => readName(inside).rdns) };
    case der.contextTag(6):
      return { type: "uri", value: reader.ia5String(tag) };
    case der.contextTag(7):
      return { type: "ip_address", value: readRange(reader, tag) };
    default:
      reader.element();
      return { type: "unknown", tag };
  }
}

function readRange(reader: DerReader, tag: number): string {
  const octets = reader.content(tag);
  if (octets.length !== 8 && octets.length !== 32) throw reader.error("an IP range has 8 or 32 octets");
  const half = octets.length / 2;
  const mask = octets.subarray(half);
  const prefix = prefixLengthOf(mask);
  if (prefix === undefined) throw reader.error("an IP mask with holes");
  // Bits below the mask do not count; clearing them gives the range one spelling.
  const base = octets.subarray(0, half).map((octet, index) => octet & (mask[index] ?? 0));
  return `${formatIp(base)}/${prefix}`;
}

interface NameViolation {
  readonly name: string;
  readonly rule: "permitted" | "excluded" | "too_many";
  readonly message: string;
}

/** Names of one certificate as constraints see them. */
interface ConstrainedNames {
  readonly subject: DistinguishedName;
  readonly altNames: readonly GeneralName[];
  readonly isCa: boolean;
}

/** What may be compared with what before it is refused unseen. Names times constraints grow without measure otherwise. */
export interface ComparisonBudget {
  left: number;
}

/** A hundred names under an authority with two hundred constraints, five such authorities above one another. */
export const MAX_COMPARISONS = 100_000;

/**
 * The first violation, or undefined. `constraints` are those of every authority above the certificate; each one
 * must be satisfied by itself, which is the intersection that RFC 5280 6.1.4 (g) asks for. Like Go's verifier (its
 * CVE-2025-58187), it gives up on certificates that would take too many comparisons.
 */
export function violatesNameConstraints(
  { subject, altNames, isCa }: ConstrainedNames,
  constraints: readonly NameConstraints[],
  budget: ComparisonBudget = { left: MAX_COMPARISONS },
): NameViolation | undefined {
  const names: GeneralName[] = [...altNames, ...emailsInSubject(subject)];
  if (!isCa) names.push(...hostInCommonName(subject, altNames));
  if (subject.length > 0) names.push({ type: "directory_name", value: subject });
  for (const { permitted, excluded } of constraints) {
    budget.left -= names.length * (permitted.length + excluded.length);
    if (budget.left < 0) return TOO_MANY;
    for (const name of names) {
      const violation = violationOf(name, permitted, excluded);
      if (violation !== undefined) return violation;
    }
  }
  return undefined;
}

const TOO_MANY: NameViolation = {
  name: "",
  rule: "too_many",
  message: `Names and name constraints are too many to be compared: at most ${MAX_COMPARISONS} pairs.`,
};

/** RFC 5280 constrains these only when there is no rfc822Name; a second address must not ride along unseen, though. */
function emailsInSubject(subject: DistinguishedName): GeneralName[] {
  const found = subject.flat().filter(({ type }) => type === OID.emailAddress);
  return found.map(({ value }) => ({ type: "email", value }));
}

/** Clients that still read a host from the common name do so when there is no dNSName; so it counts as one here. */
function hostInCommonName(subject: DistinguishedName, altNames: readonly GeneralName[]): GeneralName[] {
  const value = commonNameOf(subject)?.toLowerCase();
  if (value === undefined || altNames.some(({ type }) => type === "dns_name")) return [];
  return value.includes(".") && dnsNameProblem(value) === undefined ? [{ type: "dns_name", value }] : [];
}

function violationOf(
  name: GeneralName,
  permitted: readonly Subtree[],
  excluded: readonly Subtree[],
): NameViolation | undefined {
  const shown = describeGeneralName(name).replace(/^[a-z_]+:/, "");
  const hit = excluded.find((subtree) => concerns(subtree, name) && covers(subtree, name, true));
  if (hit !== undefined) {
    return {
      name: shown,
      rule: "excluded",
      message: `${quote(shown)} lies in the excluded ${describe(hit)}.`,
    };
  }
  const relevant = permitted.filter((subtree) => concerns(subtree, name));
  if (relevant.length === 0 || relevant.some((subtree) => covers(subtree, name, false))) return undefined;
  const more = relevant.length > MOST_DESCRIBED ? ` and ${relevant.length - MOST_DESCRIBED} others` : "";
  const allowed = `${relevant.slice(0, MOST_DESCRIBED).map(describe).join(", ")}${more}`;
  return {
    name: shown,
    rule: "permitted",
    message: `${quote(shown)} lies outside the permitted ${allowed}.`,
  };
}

const MOST_DESCRIBED = 10;

const describe = (subtree: Subtree): string => {
  if (subtree.type === "unknown") return "names of an unknown kind";
  return `${subtree.type} ${subtree.type === "directory_name" ? formatName(subtree.value) : subtree.value}`;
};

/** Whether the subtree is about names of this kind. */
function concerns(subtree: Subtree, name: GeneralName): boolean {
  if (subtree.type !== "unknown") return subtree.type === name.type;
  if (name.type === "upn") return subtree.tag === der.contextConstructedTag(0);
  return (
    (name.type === "other" && name.value[0] === subtree.tag) ||
    (name.type === "registered_id" && subtree.tag === 0x88)
  );
}

/** `ifUnclear` is the answer when we cannot tell: excluded means yes, permitted means no. */
function covers(subtree: Subtree, name: GeneralName, ifUnclear: boolean): boolean {
  if (subtree.type === "directory_name" && name.type === "directory_name")
    return isWithinName(name.value, subtree.value);
  if (subtree.type === "unknown" || subtree.type === "directory_name") return ifUnclear;
  if (name.type !== subtree.type) return ifUnclear;
  switch (subtree.type) {
    case "dns_name":
      return coversDns(subtree.value, name.value, ifUnclear);
    case "email":
      return coversEmail(subtree.value, name.value);
    case "uri": {
      // No host, an address, or a spelling such as ev%69l.example: nothing a host constraint can be sure about.
      const host = uriHost(name.value);
      const isUnclear = host === undefined || dnsNameProblem(host) !== undefined;
      return isUnclear ? ifUnclear : coversHost(subtree.value, host);
    }
    case "ip_address": {
      const [address, range] = [parseIp(name.value), rangeOf(subtree)];
      return address === undefined || range === undefined ? ifUnclear : isInRange(address, range);
    }
  }
}

const ranges = new WeakMap<Subtree, ReturnType<typeof parseCidr>>();

/** Read once: an authority's constraints are asked about each certificate it issues. */
function rangeOf(subtree: Subtree & { readonly value: string }): ReturnType<typeof parseCidr> {
  if (!ranges.has(subtree)) ranges.set(subtree, parseCidr(subtree.value));
  return ranges.get(subtree);
}

/** `evil.example.` is `evil.example` to every resolver. */
const rootless = (host: string): string => host.toLowerCase().replace(/\.$/, "");

/** `example.com` covers itself and every name made by adding labels in front. */
function coversDns(base: string, name: string, ifUnclear: boolean): boolean {
  const suffix = base.toLowerCase();
  const host = rootless(name);
  if (suffix === "") return true;
  if (suffix.startsWith(".")) return host.endsWith(suffix);
  if (host === suffix || host.endsWith(`.${suffix}`)) return true;
  // *.example.com also stands for a.example.com, so an exclusion of a.example.com must stop it.
  return (
    ifUnclear &&
    host.startsWith("*.") &&
    suffix.endsWith(host.slice(1)) &&
    !suffix.slice(0, -host.length + 1).includes(".")
  );
}

/** With a leading dot: hosts below, not the host itself. Without: the host itself. */
function coversHost(base: string, host: string): boolean {
  const wanted = base.toLowerCase();
  if (wanted === "") return true;
  return wanted.startsWith(".") ? host.endsWith(wanted) && host.length > wanted.length : host === wanted;
}

function coversEmail(base: string, email: string): boolean {
  const at = email.lastIndexOf("@");
  const host = rootless(email.slice(at + 1));
  const baseAt = base.lastIndexOf("@");
  if (baseAt < 0) return coversHost(base, host);
  // Local parts compare exactly, hosts without regard to case.
  return email.slice(0, at) === base.slice(0, baseAt) && host === base.slice(baseAt + 1).toLowerCase();
}
