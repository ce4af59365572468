/**
 * Outgoing requests to an address that a user typed (SSRF protection). Such an address is a weapon: it may name this
 * machine, the private network or a cloud's metadata service, in decimal or octal, behind a DNS name that answers
 * something harmless on the first lookup and something private on the second (DNS rebinding), or behind a redirect.
 *
 * So: the URL is checked when it is stored, the name is resolved once when the request is sent, the answers are
 * checked, and the connection goes to exactly those addresses; there is no second lookup. TLS still checks the name.
 * Redirects are not followed, time and size are bounded, and nothing of the answer's body comes back but its status.
 */
import { lookup as systemLookup } from "node:dns/promises";
import {
  request as requestPlain,
  type ClientRequest,
  type IncomingMessage,
  type RequestOptions,
} from "node:http";
import { request as requestTls } from "node:https";
import { BlockList, isIP, type LookupFunction } from "node:net";

export interface OutboundRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

interface OutboundAnswer {
  readonly status: number;
  /** What a `retry-after` header asked for, in seconds; a date or nonsense counts as absent. */
  readonly retryAfterSeconds: number | undefined;
}

export interface Outbound {
  post(request: OutboundRequest): Promise<OutboundAnswer>;
  /** Why this address can never be used, or undefined. For the moment it is stored; sending asks again. */
  objection(url: string): string | undefined;
}

/** The address is not allowed; the message says why and may be shown to the user. */
export class OutboundRefused extends Error {
  override readonly name = "OutboundRefused";
}

/** All addresses of a name. The system's own resolver unless a test brings another. */
export type Resolver = (host: string) => Promise<readonly string[]>;

interface OutboundNeeds {
  /** Private addresses that the operator allows as targets. */
  readonly allowed: BlockList;
  readonly resolve?: Resolver;
  readonly timeoutMs?: number;
  /** Further CAs to trust, in PEM. */
  readonly ca?: string;
}

const TIMEOUT_MS = 15_000;
const MAX_ANSWER_BYTES = 64 * 1024;
const MAX_URL_LENGTH = 2048;

const resolveBySystem: Resolver = async (host) =>
  (await systemLookup(host, { all: true })).map((found) => found.address);

/** Everything in IPv4 that is not somebody's public machine (IANA special-purpose registry, multicast, reserved). */
const NOT_PUBLIC_4 = blockList("ipv4", [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
]);
/** In IPv6 the public part is the small one: global unicast, without the ranges that only wrap or document. */
const GLOBAL_6 = blockList("ipv6", ["2000::/3"]);
const NOT_PUBLIC_6 = blockList("ipv6", ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"]);

/** Ports on which something else than HTTP listens by custom: an HTTP request must not become a command there. */
const FOREIGN_PORTS = new Set([
  1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
  109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
  526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
  3306, 3659, 4045, 4190, 5060, 5061, 5432, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
  11211,
]);

function blockList(family: "ipv4" | "ipv6", ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = "", prefix = "0"] = range.split("/");
    list.addSubnet(address, Number(prefix), family);
  }
  return list;
}

/** `::ffff:7f00:1` is 127.0.0.1 in disguise; the kernel would connect there. */
function unmapped(address: string): string {
  const bare = address.replace(/%.*$/, "");
  if (isIP(bare) !== 6) return bare;
  const canonical = new URL(`http://[${bare}]`).hostname.slice(1, -1);
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical);
  if (!mapped) return canonical;
  const [high, low] = [Number.parseInt(mapped[1] ?? "0", 16), Number.parseInt(mapped[2] ?? "0", 16)];
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

export function isPublicAddress(text: string): boolean {
  const address = unmapped(text);
  const family = isIP(address);
  if (family === 4) return !NOT_PUBLIC_4.check(address, "ipv4");
  if (family === 6) return GLOBAL_6.check(address, "ipv6") && !NOT_PUBLIC_6.check(address, "ipv6");
  return false;
}

function isListed(list: BlockList, text: string): boolean {
  const address = unmapped(text);
  return list.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}

/** The host as something to resolve: without the brackets of IPv6 and without the dot at the end. */
const bareHost = (url: URL): string => url.hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");

/** The URL standard's parser has already turned decimal, octal, hexadecimal and short IPv4 forms into dotted ones. */
function parse(text: string, mayBePlain: boolean): URL {
  if (text.length > MAX_URL_LENGTH) throw new OutboundRefused("the URL is too long");
  if (/[\u0000-\u0020\u007f]/.test(text))
    throw new OutboundRefused("the URL contains spaces or control characters");
  if (!URL.canParse(text)) throw new OutboundRefused("this is not a URL");
  const url = new URL(text);
  if (url.protocol !== "https:" && url.protocol !== "http:")
    throw new OutboundRefused("only https URLs can be used");
  if (url.protocol === "http:" && !mayBePlain) {
    throw new OutboundRefused("only https URLs can be used (http needs KEYWARD_ALLOW_PRIVATE_TARGETS)");
  }
  if (url.username !== "" || url.password !== "" || /^[a-z]+:\/*[^/?#]*@/i.test(text)) {
    throw new OutboundRefused("a URL with a user name or password in it cannot be used");
  }
  if (bareHost(url) === "") throw new OutboundRefused("the URL names no host");
  if (url.port === "0" || FOREIGN_PORTS.has(Number(url.port))) {
    throw new OutboundRefused(`port ${url.port} belongs to another protocol`);
  }
  return url;
}

/** What a name certainly means without asking anyone. */
function knownAddress(host: string): string | undefined {
  if (isIP(host)) return host;
  return /(^|\.)localhost$/i.test(host) ? "127.0.0.1" : undefined;
}

export function createOutbound(needs: OutboundNeeds): Outbound {
  const resolve = needs.resolve ?? resolveBySystem;
  const timeoutMs = needs.timeoutMs ?? TIMEOUT_MS;
  const mayBePlain = needs.allowed.rules.length > 0;
  const isAllowed = (address: string): boolean =>
    isPublicAddress(address) || isListed(needs.allowed, address);
  const refusal =
    "this address is private or reserved (an operator can list it in KEYWARD_ALLOW_PRIVATE_TARGETS)";

  const vettedAddresses = async (url: URL): Promise<readonly string[]> => {
    const host = bareHost(url);
    const found = isIP(host) ? [host] : await resolve(host);
    const usable = found
      .filter((address) => isIP(unmapped(address)) !== 0 && isAllowed(address))
      .map(unmapped);
    if (found.length === 0) throw new Error(`the name ${host} has no address`);
    if (usable.length === 0) throw new OutboundRefused(refusal);
    return usable;
  };

  return {
    objection(text) {
      try {
        const known = knownAddress(bareHost(parse(text, mayBePlain)));
        return known === undefined || isAllowed(known) ? undefined : refusal;
      } catch (error) {
        if (error instanceof OutboundRefused) return error.message;
        throw error;
      }
    },
    async post({ url: text, headers, body }) {
      const url = parse(text, mayBePlain);
      const deadline = AbortSignal.timeout(timeoutMs);
      const addresses = await inTime(vettedAddresses(url), deadline);
      const options: RequestOptions & { ca?: string } = {
        method: "POST",
        headers: { "user-agent": "Keyward", ...headers, "content-length": String(Buffer.byteLength(body)) },
        // A connection of its own: one kept alive could have been opened for another name.
        agent: false,
        lookup: pinned(addresses),
        signal: deadline,
        ...(needs.ca === undefined ? {} : { ca: needs.ca }),
      };
      return exchange(
        url.protocol === "https:" ? requestTls(url, options) : requestPlain(url, options),
        body,
        deadline,
      );
    },
  };
}

/** In place of the system's look-up: whatever is asked, the answer is what was vetted. */
function pinned(addresses: readonly string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_host, options, answer) => {
    const [first] = all;
    if (options.all) answer(null, all);
    else answer(null, first?.address ?? "", first?.family);
  };
}

const late = () => new Error("no answer in time");

async function inTime<T>(work: Promise<T>, deadline: AbortSignal): Promise<T> {
  let giveUp: (() => void) | undefined;
  const timeout = new Promise<never>((_, reject) => {
    giveUp = () => reject(late());
    deadline.addEventListener("abort", giveUp, { once: true });
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    if (giveUp) deadline.removeEventListener("abort", giveUp);
  }
}

function retryAfter(response: IncomingMessage): number | undefined {
  const text = response.headers["retry-after"];
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

function exchange(request: ClientRequest, body: string, deadline: AbortSignal): Promise<OutboundAnswer> {
  return new Promise((settle, fail) => {
    let answer: OutboundAnswer | undefined;
    const end = (reason: Error): void => (answer ? settle(answer) : fail(reason));
    // Whatever the other side does with the connection, this ends when the time is over.
    deadline.addEventListener("abort", () => end(late()), { once: true });
    request.on("error", (error) => end(deadline.aborted ? late() : error));
    request.on("close", () => end(new Error("the connection was closed without an answer")));
    // Nobody asked for another protocol; unless someone listens, the connection would stay open without end.
    request.on("upgrade", (response, socket) => {
      socket.destroy();
      settle({ status: response.statusCode ?? 0, retryAfterSeconds: undefined });
    });
    request.on("response", (response) => {
      const known = { status: response.statusCode ?? 0, retryAfterSeconds: retryAfter(response) };
      answer = known;
      let size = 0;
      // Only the status matters; the rest is read up to a bound.
      response.on("data", (chunk: Buffer) => {
        size += chunk.length;
        if (size > MAX_ANSWER_BYTES) response.destroy();
      });
      response.on("error", () => settle(known));
      response.on("close", () => settle(known));
    });
    request.end(body);
  });
}
