/** The rules of tokens and logins: lifetimes, trusted addresses, and error messages. */
import { BlockList, isIP } from "node:net";
import { isListed } from "../platform/http/client-address.ts";
import { tokenRejected, unauthorized } from "../platform/problem.ts";

/** Ten years: what "no limit" means. Clients break on 0, and on a maximum below the lifetime. */
export const UNLIMITED_SECONDS = 315_360_000;

export interface TokenSettings {
  readonly ttl: number;
  readonly maxTtl: number;
  readonly period: number;
  readonly usesLimit: number;
}

interface Lifetime {
  readonly expiresIn: number;
  readonly maxTtl: number;
}

/** Seconds from now until a token made (or renewed) now ends, given its age. Not positive: it cannot be renewed. */
export function lifetimeOf(
  settings: Pick<TokenSettings, "ttl" | "maxTtl" | "period">,
  ageSeconds: number,
): Lifetime {
  // A periodic token lives for one period at a time, for as long as someone keeps renewing it.
  if (settings.period > 0)
    return { expiresIn: settings.period, maxTtl: Math.max(settings.period, UNLIMITED_SECONDS) };
  const maxTtl = settings.maxTtl === 0 ? UNLIMITED_SECONDS : settings.maxTtl;
  const ttl = settings.ttl === 0 ? UNLIMITED_SECONDS : settings.ttl;
  return { expiresIn: Math.min(ttl, Math.floor(maxTtl - ageSeconds)), maxTtl };
}

export const EVERYWHERE = ["0.0.0.0/0", "::/0"] as const;

/** Undefined = from everywhere. */
export function addressList(cidrs: readonly string[]): BlockList | undefined {
  if (cidrs.includes(EVERYWHERE[0]) && cidrs.includes(EVERYWHERE[1])) return undefined;
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [address = "", prefix = ""] = cidr.split("/");
    list.addSubnet(address, Number(prefix), isIP(address) === 6 ? "ipv6" : "ipv4");
  }
  return list;
}

export const isTrusted = (list: BlockList | undefined, address: string): boolean =>
  list === undefined || isListed(list, address);

export function describeCidr(cidr: string) {
  const [address = "", prefix = "32"] = cidr.split("/");
  return { type: isIP(address) === 6 ? "ipv6" : "ipv4", prefix: Number(prefix), ipAddress: address };
}

export const noToken = () =>
  unauthorized("This needs an access token: send the header Authorization: Bearer <token>.");
export const tokenInvalid = () => tokenRejected("The access token is not valid.");
export const tokenExpired = () => tokenRejected("The access token has expired.");
export const tokenRevoked = () =>
  unauthorized("The access token was revoked or used up, or its identity is gone.");
export const credentialsWrong = () => unauthorized("Invalid credentials.");
export const lockedOut = (seconds: number) =>
  unauthorized(`Locked after too many failed logins from this address. Try again in ${seconds} seconds.`);
