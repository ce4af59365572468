// IP addresses between text and octets. Reading is strict: no leading zeros (octal to some, decimal to others),
// no zone, no shorthand such as 127.1. Writing follows RFC 5952, so every address has one spelling.

/** 4 or 16 octets, or undefined when the text is not an address. */
export function parseIp(text: string): Buffer | undefined {
  return text.includes(":") ? parseIpv6(text) : parseIpv4(text);
}

function parseIpv4(text: string): Buffer | undefined {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256))
    return undefined;
  return Buffer.from(parts.map(Number));
}

function parseIpv6(text: string): Buffer | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const isLastHalf = (index: number): boolean => index === halves.length - 1;
  const [left, right] = halves.map((half, index) => groupsOf(half, isLastHalf(index)));
  if (left === undefined || (halves.length === 2 && right === undefined)) return undefined;
  const given = left.length + (right?.length ?? 0);
  // "::" stands for at least one group of zeros.
  if (halves.length === 2 ? given > 7 : given !== 8) return undefined;
  const groups = [...left, ...new Array<number>(8 - given).fill(0), ...(right ?? [])];
  const octets = Buffer.alloc(16);
  groups.forEach((group, index) => octets.writeUInt16BE(group, index * 2));
  return octets;
}

function groupsOf(half: string, mayEndInIpv4: boolean): number[] | undefined {
  if (half === "") return [];
  const groups: number[] = [];
  const parts = half.split(":");
  for (const [index, part] of parts.entries()) {
    if (/^[0-9A-Fa-f]{1,4}$/.test(part)) {
      groups.push(Number.parseInt(part, 16));
      continue;
    }
    const tail = mayEndInIpv4 && index === parts.length - 1 ? parseIpv4(part) : undefined;
    if (tail === undefined) return undefined;
    groups.push(tail.readUInt16BE(0), tail.readUInt16BE(2));
  }
  return groups;
}

export function formatIp(octets: Uint8Array): string {
  if (octets.length === 4) return octets.join(".");
  const view = Buffer.from(octets);
  const groups = Array.from({ length: 8 }, (_, index) => view.readUInt16BE(index * 2));
  // RFC 5952 section 5: the mapped prefix is the one place where the dotted tail stays.
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    return `::ffff:${view.subarray(12).join(".")}`;
  }
  const { start, length } = longestZeroRun(groups);
  const hex = groups.map((group) => group.toString(16));
  if (length < 2) return hex.join(":");
  return `${hex.slice(0, start).join(":")}::${hex.slice(start + length).join(":")}`;
}

/** The first of the longest runs: RFC 5952 4.2.3. */
function longestZeroRun(groups: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  let start = 0;
  for (const [index, group] of groups.entries()) {
    if (group !== 0) start = index + 1;
    else if (index + 1 - start > best.length) best = { start, length: index + 1 - start };
  }
  return best;
}

interface IpRange {
  readonly address: Buffer;
  readonly mask: Buffer;
}

/** `10.0.0.0/8`; bits below the prefix must be zero, so that a typing error is not taken for a wider range. */
export function parseCidr(text: string): IpRange | undefined {
  const [addressText = "", prefixText = "", ...rest] = text.split("/");
  const address = parseIp(addressText);
  if (address === undefined || rest.length > 0 || !/^(0|[1-9]\d{0,2})$/.test(prefixText)) return undefined;
  const prefix = Number(prefixText);
  if (prefix > address.length * 8) return undefined;
  const mask = Buffer.from(
    address.map((_, index) => 0xff & (0xff00 >> Math.min(8, Math.max(0, prefix - index * 8)))),
  );
  return address.every((octet, index) => (octet & ~(mask[index] ?? 0)) === 0) ? { address, mask } : undefined;
}

/** The prefix length of a mask, or undefined when its ones are not contiguous. */
export function prefixLengthOf(mask: Uint8Array): number | undefined {
  const bits = Array.from(mask, (octet) => octet.toString(2).padStart(8, "0")).join("");
  return /^1*0*$/.test(bits) ? bits.replaceAll("0", "").length : undefined;
}

export function isInRange(address: Uint8Array, range: IpRange): boolean {
  if (address.length !== range.address.length) return false;
  return address.every(
    (octet, index) => ((octet ^ (range.address[index] ?? 0)) & (range.mask[index] ?? 0)) === 0,
  );
}
