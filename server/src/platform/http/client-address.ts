import { isIPv4, isIPv6, type BlockList } from "node:net";

/**
 * The address a request comes from: the socket's, unless the socket belongs to a proxy we trust; then the last
 * address of X-Forwarded-For that is not itself a trusted proxy. Nothing else is believed (S-50).
 */
export function plainAddress(address: string): string {
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

/**
 * What limits and lockouts are counted by: an IPv4 address, or the /64 of an IPv6 one. Whoever has one IPv6 address
 * has 2^64 of them.
 */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = "", tail] = address.split("%")[0]?.split("::") ?? [];
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const missing = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  const groups = [...left, ...Array.from({ length: missing }, () => "0"), ...right];
  const network = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(":")}::/64`;
}
