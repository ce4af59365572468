/** What the patterns of a policy match: names, addresses, URIs. */
import { BlockList, isIP } from "node:net";
import { LRUCache } from "lru-cache";

/**
 * `*` stands for any run of characters. Linear in the text: no expression engine sees what strangers write. Neither the
 * wildcards of alerts, where `?` stands for a letter too (here it divides a URI and stands for itself), nor globs, in
 * which a star ends at a slash and braces and brackets mean something: certificate names know nothing of that.
 */
export function matchesPattern(pattern: string, text: string): boolean {
  const parts = pattern.toLowerCase().split("*");
  const value = text.toLowerCase();
  const first = parts[0] ?? "";
  if (parts.length === 1) return value === first;
  const last = parts.at(-1) ?? "";
  if (value.length < first.length + last.length || !value.startsWith(first) || !value.endsWith(last))
    return false;
  let at = first.length;
  const end = value.length - last.length;
  for (const part of parts.slice(1, -1)) {
    const found = value.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

/** Addresses may also be given as ranges. */
export function matchesAddress(pattern: string, address: string): boolean {
  const [base = "", prefix] = pattern.split("/");
  const family = isIP(base);
  if (
    prefix === undefined ||
    family === 0 ||
    !/^\d{1,3}$/.test(prefix) ||
    Number(prefix) > (family === 6 ? 128 : 32)
  )
    return matchesPattern(pattern, address);
  if (isIP(address) !== family) return false;
  const kind = family === 6 ? "ipv6" : "ipv4";
  const known = ranges.get(pattern);
  if (known) return known.check(address, kind);
  const range = new BlockList();
  range.addSubnet(base, Number(prefix), kind);
  ranges.set(pattern, range);
  return range.check(address, kind);
}

/** Making one costs more than asking it a hundred times. */
const ranges = new LRUCache<string, BlockList>({ max: 5000 });

const URI = /^([^/?#\\]*):\/\/([^/?#\\]*)(.*)$/s;
/** What divides user, host and port: no star stands for it. */
const DIVIDERS = /[@:]/g;

function matchesHost(pattern: string, host: string): boolean {
  if (String(pattern.match(DIVIDERS)) !== String(host.match(DIVIDERS))) return false;
  const parts = host.split(DIVIDERS);
  return pattern.split(DIVIDERS).every((part, index) => matchesPattern(part, parts[index] ?? ""));
}

/**
 * In a URI a star before the path stays within its scheme or host: `https://*.example.com` is no way to
 * `https://evil.com/x.example.com`. A pattern that names no host (`*`, `spiffe://*`) has no such border.
 */
export function matchesUri(pattern: string, text: string): boolean {
  const [, scheme, host, rest] = URI.exec(text) ?? [];
  if (scheme === undefined || host === undefined || rest === undefined) return matchesPattern(pattern, text);
  const wanted = URI.exec(pattern);
  if (!wanted) {
    if (/^\*+([/?#\\]|$)/.test(pattern)) return matchesPattern(pattern, text);
    return pattern.startsWith("*") && matchesUri(`*://${pattern}`, text);
  }
  const [, wantedScheme = "", wantedHost = "", wantedRest = ""] = wanted;
  if (!matchesHost(wantedScheme, scheme)) return false;
  if (wantedHost === "*" && wantedRest === "") return true;
  return matchesHost(wantedHost, host) && matchesPattern(wantedRest, rest);
}

/**
 * Is there a name that a wildcard certificate (`*.example.com`: one label, RFC 9525 6.3) is good for and the pattern
 * matches? Then a policy that denies the one must deny the other.
 */
export function couldStandFor(wildcard: string, pattern: string): boolean {
  if (!wildcard.startsWith("*.")) return false;
  const rest = wildcard.slice(1).toLowerCase();
  const wanted = pattern.toLowerCase();
  // The label takes the first letters of the pattern, however many; the rest must be what stands behind it.
  for (let taken = 0; taken <= wanted.length && !wanted.slice(0, taken).includes("."); taken += 1) {
    const isSomething = taken > 0 || wanted[0] === "*";
    if (isSomething && matchesPattern(wanted.slice(taken), rest)) return true;
  }
  return false;
}
