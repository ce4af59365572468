/**
 * Passwords are guessable, so checking one must be slow: scrypt with 32 MiB (OWASP's N=2^15, r=8, p=3), in the
 * thread pool. The parameters stand in the stored text, so that they can be raised later without a migration.
 */
import { randomBytes, scrypt, timingSafeEqual, type ScryptOptions } from "node:crypto";
import { tooManyRequests } from "../problem.ts";
import type { Sealed } from "../sealed.ts";

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
 * and the thread pool it runs in serves signing and files too (S-56).
 */
const AT_ONCE = 2;
const MAX_WAITING = 32;
let running = 0;
const waiting: (() => void)[] = [];

async function gated<T>(work: () => Promise<T>): Promise<T> {
  if (running >= AT_ONCE) {
    if (waiting.length >= MAX_WAITING)
      throw tooManyRequests(5, "Too many passwords are being checked at the moment.");
    await new Promise<void>((resolve) => waiting.push(resolve));
  } else running += 1;
  try {
    return await work();
  } finally {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }
}

const derive = (password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    // The same letters can be typed as different code points; NFKC makes them one password.
    scrypt(password.normalize("NFKC"), salt, LENGTH, { ...options, maxmem: MAX_MEMORY }, (error, key) =>
      error ? reject(error) : resolve(key),
    );
  });

export async function hashPassword(password: Sealed<string>): Promise<string> {
  const salt = randomBytes(16);
  const { N, r, p } = cost;
  const key = await gated(() => derive(password.open(), salt, { N, r, p }));
  return `scrypt$${N}$${r}$${p}$${salt.toString("base64")}$${key.toString("base64")}`;
}

// What an unknown account is checked against, so that it takes as long as a known one (S-01).
const nobody = (): string =>
  `scrypt$${cost.N}$${cost.r}$${cost.p}$${Buffer.alloc(16).toString("base64")}$${Buffer.alloc(LENGTH).toString("base64")}`;

/** `stored` undefined = no such account: the same work is done and the answer is no. */
export async function checkPassword(password: Sealed<string>, stored: string | undefined): Promise<boolean> {
  const [, n, r, p, salt = "", wanted = ""] = (stored ?? nobody()).split("$");
  const theirs = { N: Number(n), r: Number(r), p: Number(p) };
  const key = await gated(() => derive(password.open(), Buffer.from(salt, "base64"), theirs));
  const expected = Buffer.from(wanted, "base64");
  return expected.length === key.length && timingSafeEqual(key, expected) && stored !== undefined;
}
