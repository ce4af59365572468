/**
 * Passwords are guessable, so checking one must be slow: scrypt with 32 MiB (OWASP's N=2^15, r=8, p=3), in the
 * thread pool. The parameters stand in the stored text, so that they can be raised later without a migration.
 */
import { randomBytes, scrypt, timingSafeEqual, type ScryptOptions } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Sealed } from "../sealed.ts";
import { createTurns } from "../turns.ts";

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
 * Two at a time, a few waiting, the rest told to come back: hashing is what a stranger can make us do most cheaply,
 * and the thread pool it runs in serves signing and files too (S-56). Networks take turns, so that one that sends a
 * crowd waits behind its own crowd. Those that sent wrong passwords of late share one turn among them: who has many
 * addresses is soon among these with all of them, and whoever comes from elsewhere hardly notices.
 */
const turns = createTurns({
  what: "passwords are being checked",
  places: 2,
  waitingPerTenant: 16,
  waiting: 128,
  patienceMs: 20_000,
});
const SUSPECT_AFTER = 3;
const SUSPECT_MS = 600_000;
const failures = new LRUCache<string, number>({ max: 20_000, ttl: SUSPECT_MS });
const SUSPECTS = "suspects";

const turnOf = (from: string): string => ((failures.get(from) ?? 0) >= SUSPECT_AFTER ? SUSPECTS : from);

function judgeNetwork(from: string, isRight: boolean): void {
  if (isRight) failures.delete(from);
  else failures.set(from, (failures.get(from) ?? 0) + 1);
}

const derive = (password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    // The same letters can be typed as different code points; NFKC makes them one password.
    scrypt(password.normalize("NFKC"), salt, LENGTH, { ...options, maxmem: MAX_MEMORY }, (error, key) =>
      error ? reject(error) : resolve(key),
    );
  });

/** `from`: the network or account in whose turn it is done. */
export async function hashPassword(password: Sealed<string>, from: string): Promise<string> {
  const salt = randomBytes(16);
  const { N, r, p } = cost;
  const key = await turns.run(from, () => derive(password.open(), salt, { N, r, p }));
  return `scrypt$${N}$${r}$${p}$${salt.toString("base64")}$${key.toString("base64")}`;
}

// What an unknown account is checked against, so that it takes as long as a known one (S-01).
const nobody = (): string =>
  `scrypt$${cost.N}$${cost.r}$${cost.p}$${Buffer.alloc(16).toString("base64")}$${Buffer.alloc(LENGTH).toString("base64")}`;

/** `stored` undefined = no such account: the same work is done and the answer is no. `from`: the caller's network. */
export async function checkPassword(
  password: Sealed<string>,
  stored: string | undefined,
  from: string,
): Promise<boolean> {
  const [, n, r, p, salt = "", wanted = ""] = (stored ?? nobody()).split("$");
  const theirs = { N: Number(n), r: Number(r), p: Number(p) };
  const key = await turns.run(turnOf(from), () =>
    derive(password.open(), Buffer.from(salt, "base64"), theirs),
  );
  const expected = Buffer.from(wanted, "base64");
  const isRight = expected.length === key.length && timingSafeEqual(key, expected) && stored !== undefined;
  judgeNetwork(from, isRight);
  return isRight;
}
