import { isIPv4, isIPv6, type BlockList } from "node:net";

/**
 * The address a request comes from: the socket's, unless the socket belongs to a proxy we trust; then the last
 * address of X-Forwarded-For that is not itself a trusted proxy. Nothing else is believed (S-50).
 */
function plainAddress(address: string): string {
  return address.startsWith("::ffff:") && isIPv4(address.slice(7)) ? address.slice(7) : address;
}

export function isListed(list: BlockList, address: string): boolean {
  const plain = plainAddress(address);
  return isIPv4(plain) ? list.check(plain, "ipv4") : isIPv6(plain) && list.check(plain, "ipv6");
}

export function clientAddress(
  peer: string | undefined,
  forwardedFor: string | string[] | undefined,
  trusted: BlockList,
): string {
  const socket = plainAddress(peer ?? "0.0.0.0");
  if (forwardedFor === undefined || !isListed(trusted, socket)) return socket;
  const hops = (Array.isArray(forwardedFor) ? forwardedFor.join(",") : forwardedFor)
    .split(",")
    .map((hop) => plainAddress(hop.trim()));
  for (const hop of hops.reverse()) {
    if (!isIPv4(hop) && !isIPv6(hop)) return socket;
    if (!isListed(trusted, hop)) return hop;
  }
  return socket;
}

/** The first so many groups of an IPv6 address, in one spelling. */
function groupsOf(address: string, count: number): string {
  const [head = "", tail] = address.split("%")[0]?.split("::") ?? [];
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const missing = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  const groups = [...left, ...Array.from({ length: missing }, () => "0"), ...right];
  const network = groups.slice(0, count).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(":")}::/${count * 16}`;
}

/**
 * What limits and lockouts are counted by: an IPv4 address, or the /64 of an IPv6 one. A client with one IPv6 address
 * has 2^64 of them.
 */
export const networkOf = (address: string): string => (isIPv6(address) ? groupsOf(address, 4) : address);

/**
 * What strangers take turns by: the /20 of an IPv4 address, the /48 of an IPv6 one. A range of this size can belong to one
 * customer, who could come from each address of it once.
 */
export function regionOf(address: string): string {
  if (isIPv6(address)) return groupsOf(address, 3);
  const [first = "", second = "", third = "0"] = address.split(".");
  return `${first}.${second}.${Number(third) & 0xf0}.0/20`;
}
