/**
 * Passwords are guessable, so checking one must be slow: scrypt with 32 MiB (OWASP's N=2^15, r=8, p=3), in the
 * thread pool. The parameters are part of the stored hash, so that they can be raised later without a migration.
 */
import { randomBytes, scrypt, timingSafeEqual, type ScryptOptions } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Redacted } from "../redacted.ts";
import { createFairQueue } from "../fair-queue.ts";

interface Cost {
  readonly N: number;
  readonly r: number;
  readonly p: number;
}

const STRONG: Cost = { N: 2 ** 15, r: 8, p: 3 };
let cost = STRONG;

/** For tests, which hash hundreds of passwords that protect nothing. Nothing in the server calls this. */
export function weakenPasswordsForTests(): void {
  cost = { N: 2 ** 10, r: 8, p: 1 };
}

const LENGTH = 32;
const MAX_MEMORY = 256 * 1024 * 1024;

/**
 * Two at a time, a few waiting, the rest answered 429: hashing is the most expensive work that a stranger can cause,
 * and the thread pool it runs in serves signing and files too (S-56). Strangers take turns by region, the range that a
 * provider assigns as a whole, so that a flood waits behind itself; regions that sent wrong
 * passwords recently share one turn, and take turns among themselves as well. Right passwords make up for
 * wrong ones: people mistype. A login from a network that logged in to this account before comes first,
 * and so does a caller who has shown more than a password already: a flood of strangers, from however many
 * regions, does not lock out people who were here before.
 */
const PROVEN = "proven ";
const turns = createFairQueue({
  what: "passwords are being checked",
  places: 2,
  waitingPerTenant: 16,
  waiting: 128,
  patienceMs: 20_000,
  first: { isOf: (line) => line.startsWith(PROVEN), waiting: 128 },
});
const SUSPECT_AFTER = 3;
const SUSPECT_MS = 600_000;
const KNOWN_MS = 30 * 86_400_000;
// Counted from the first on: one error every nine minutes must not make a suspect for ever.
const failures = new LRUCache<string, number>({ max: 20_000, ttl: SUSPECT_MS, noUpdateTTL: true });
const known = new LRUCache<string, true>({ max: 50_000, ttl: KNOWN_MS });
const SUSPECTS = "suspects";
/** Where suspects wait before the queue that they share: a few of each region, so that there is room for all. */
const suspects = createFairQueue({
  what: "passwords are being checked",
  places: 2,
  waitingPerTenant: 4,
  waiting: 256,
  patienceMs: 20_000,
});

/** Who tries a password, for the fair queue. */
export interface Guesser {
  readonly account: string;
  readonly network: string;
  /** The wider range that the network is part of. */
  readonly region: string;
  /** Logged in from this network before, according to the database. */
  readonly isKnown?: boolean;
}

const homeOf = ({ account, network }: Guesser): string => `${account} ${network}`;

function inTurnOf<T>(from: Guesser, work: () => Promise<T>): Promise<T> {
  if (from.isKnown === true || known.has(homeOf(from))) return turns.run(`${PROVEN}${from.network}`, work);
  if ((failures.get(from.region) ?? 0) < SUSPECT_AFTER) return turns.run(from.region, work);
  return suspects.run(from.region, () => turns.run(SUSPECTS, work));
}

function judge(from: Guesser, isRight: boolean): void {
  const before = failures.get(from.region) ?? 0;
  if (isRight) known.set(homeOf(from), true);
  if (!isRight) failures.set(from.region, before + 1);
  else if (before > 1) failures.set(from.region, Math.floor(before / 2));
  else failures.delete(from.region);
}

const derive = (password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    // The same letters can be typed as different code points; NFKC makes them one password.
    scrypt(password.normalize("NFKC"), salt, LENGTH, { ...options, maxmem: MAX_MEMORY }, (error, key) =>
      error ? reject(error) : resolve(key),
    );
  });

/** `from`: in whose turn it is done; a caller who has shown a token or an invitation. */
export async function hashPassword(password: Redacted<string>, from: string): Promise<string> {
  const salt = randomBytes(16);
  const { N, r, p } = cost;
  const key = await turns.run(`${PROVEN}${from}`, () => derive(password.open(), salt, { N, r, p }));
  return `scrypt$${N}$${r}$${p}$${salt.toString("base64")}$${key.toString("base64")}`;
}

// What an unknown account is checked against, so that it takes as long as a known one (S-01).
const nobody = (): string =>
  `scrypt$${cost.N}$${cost.r}$${cost.p}$${Buffer.alloc(16).toString("base64")}$${Buffer.alloc(LENGTH).toString("base64")}`;

/** `stored` undefined = no such account: the same work is done and the answer is no. */
export async function checkPassword(
  password: Redacted<string>,
  stored: string | undefined,
  from: Guesser,
): Promise<boolean> {
  const [, n, r, p, salt = "", wanted = ""] = (stored ?? nobody()).split("$");
  const theirs = { N: Number(n), r: Number(r), p: Number(p) };
  const key = await inTurnOf(from, () => derive(password.open(), Buffer.from(salt, "base64"), theirs));
  const expected = Buffer.from(wanted, "base64");
  const isRight = expected.length === key.length && timingSafeEqual(key, expected) && stored !== undefined;
  judge(from, isRight);
  return isRight;
}
