/**
 * Passwords are guessable, so checking one must be slow: scrypt with 64 MiB (OWASP's N=2^16, r=8, p=2), in the
 * thread pool. The parameters stand in the stored text, so that they can be raised later without a migration.
 */
import { randomBytes, scrypt, timingSafeEqual, type ScryptOptions } from "node:crypto";
import type { Sealed } from "../sealed.ts";

const COST = { N: 2 ** 16, r: 8, p: 2 } as const;
const LENGTH = 32;
const MAX_MEMORY = 256 * 1024 * 1024;

const derive = (password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    // The same letters can be typed as different code points; NFKC makes them one password.
    scrypt(password.normalize("NFKC"), salt, LENGTH, { ...options, maxmem: MAX_MEMORY }, (error, key) =>
      error ? reject(error) : resolve(key),
    );
  });

export async function hashPassword(password: Sealed<string>): Promise<string> {
  const salt = randomBytes(16);
  const key = await derive(password.open(), salt, COST);
  return `scrypt$${COST.N}$${COST.r}$${COST.p}$${salt.toString("base64")}$${key.toString("base64")}`;
}

// What an unknown account is checked against, so that it takes as long as a known one (S-01).
const NOBODY = `scrypt$${COST.N}$${COST.r}$${COST.p}$${Buffer.alloc(16).toString("base64")}$${Buffer.alloc(LENGTH).toString("base64")}`;

/** `stored` undefined = no such account: the same work is done and the answer is no. */
export async function checkPassword(password: Sealed<string>, stored: string | undefined): Promise<boolean> {
  const [, n, r, p, salt = "", wanted = ""] = (stored ?? NOBODY).split("$");
  const key = await derive(password.open(), Buffer.from(salt, "base64"), {
    N: Number(n),
    r: Number(r),
    p: Number(p),
  });
  const expected = Buffer.from(wanted, "base64");
  return expected.length === key.length && timingSafeEqual(key, expected) && stored !== undefined;
}
