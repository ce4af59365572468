// Weak keys, which must not be certified. A public key is cheap to test for the mistakes that key generators
// really made: short or oddly shaped RSA numbers, primes chosen next to each other (CVE-2022-26320), the structure
// of the ROCA library (CVE-2017-15361), points that are not on their curve, keys known to be public.

import { isOnCurve, isSoundEd25519Point } from "./curve-points.ts";
import {
  keyFingerprint,
  MAX_EXPONENT,
  MAX_RSA_BITS,
  ODD_EXPONENT,
  readPublicKey,
  tooLong,
  type PublicKeyFacts,
} from "./keys.ts";
import { X509Error } from "./x509-error.ts";

interface KeyWeakness {
  readonly code: string;
  readonly message: string;
}

export interface StrengthOptions {
  /** Asked with the SHA-256 of the SPKI, in hexadecimal: compromised keys, Debian's 2008 keys, test keys. */
  readonly isKnownWeak?: (fingerprint: string) => boolean;
}

export function findKeyWeakness(spki: Buffer, options: StrengthOptions = {}): KeyWeakness | undefined {
  const facts = readPublicKey(spki);
  if (options.isKnownWeak?.(keyFingerprint(spki)) === true) {
    return { code: "key.known_weak", message: "This key is on the list of compromised keys." };
  }
  return weaknessOf(facts);
}

export function assertStrongKey(spki: Buffer, options: StrengthOptions = {}): void {
  const weakness = findKeyWeakness(spki, options);
  if (weakness !== undefined) throw new X509Error(weakness.code, "publicKey", weakness.message);
}

function weaknessOf(facts: PublicKeyFacts): KeyWeakness | undefined {
  switch (facts.family) {
    case "rsa":
      return rsaWeakness(facts.modulus, facts.exponent, facts.bits);
    case "ec":
      return isOnCurve(facts.point, facts.curve)
        ? undefined
        : { code: "key.point", message: `The public key is not an uncompressed point on ${facts.curve}.` };
    case "ed25519":
      return isSoundEd25519Point(facts.point)
        ? undefined
        : { code: "key.point", message: "The public key is not a point of full order on Ed25519." };
  }
}

const MIN_RSA_BITS = 2048;
const MIN_EXPONENT = 65537n;

function rsaWeakness(modulus: bigint, exponent: bigint, bits: number): KeyWeakness | undefined {
  if (bits < MIN_RSA_BITS)
    return { code: "key.rsa_short", message: `RSA keys need 2048 bits; this one has ${bits}.` };
  // Verifying costs grow with the size: an upper bound keeps one request from occupying a core.
  if (bits > MAX_RSA_BITS) return tooLong(bits);
  if (exponent % 2n === 0n || exponent < MIN_EXPONENT || exponent > MAX_EXPONENT) return ODD_EXPONENT;
  const residues = residuesOf(modulus);
  if (modulus % 2n === 0n || residues.some(({ residue }) => residue === 0)) {
    return { code: "key.rsa_small_factor", message: "The RSA modulus has a small factor." };
  }
  if (hasRocaFingerprint(residues)) {
    return {
      code: "key.roca",
      message: "The key comes from a generator with the ROCA weakness (CVE-2017-15361).",
    };
  }
  if (hasCloseFactors(modulus)) {
    return { code: "key.rsa_close_primes", message: "The primes of the RSA key are too close together." };
  }
  return undefined;
}

interface Residue {
  readonly prime: number;
  readonly residue: number;
}

const ODD_PRIMES_TO_751 = Array.from({ length: 750 }, (_, index) => index + 2).filter(
  (candidate) => candidate % 2 === 1 && isPrime(candidate),
);

function isPrime(candidate: number): boolean {
  for (let divisor = 2; divisor * divisor <= candidate; divisor += 1)
    if (candidate % divisor === 0) return false;
  return true;
}

/** Primes in groups whose product is an exact double: one long division per group instead of one per prime. */
const PRIME_GROUPS = groupPrimes(ODD_PRIMES_TO_751);

function groupPrimes(primes: readonly number[]): { product: bigint; primes: number[] }[] {
  const groups: { product: bigint; primes: number[] }[] = [];
  let group = { product: 1n, primes: [] as number[] };
  for (const prime of primes) {
    if (group.product * BigInt(prime) > BigInt(Number.MAX_SAFE_INTEGER)) {
      groups.push(group);
      group = { product: 1n, primes: [] };
    }
    group.product *= BigInt(prime);
    group.primes.push(prime);
  }
  return [...groups, group];
}

function residuesOf(modulus: bigint): Residue[] {
  return PRIME_GROUPS.flatMap(({ product, primes }) => {
    const remainder = Number(modulus % product);
    return primes.map((prime) => ({ prime, residue: remainder % prime }));
  });
}

/**
 * ROCA primes have the form k*M + 65537^a mod M with M a product of the first primes, so modulo each of these
 * primes the modulus is a power of 65537. A sound key has that property by chance for all of them once in 2^27
 * or rarer.
 */
const ROCA_PRIME_LIMIT = 167;
const ROCA_POWERS = new Map(
  ODD_PRIMES_TO_751.filter((prime) => prime <= ROCA_PRIME_LIMIT).map((prime) => [
    prime,
    powersOf(65537, prime),
  ]),
);

function powersOf(base: number, prime: number): ReadonlySet<number> {
  const powers = new Set<number>();
  for (let power = 1; !powers.has(power); power = (power * (base % prime)) % prime) powers.add(power);
  return powers;
}

function hasRocaFingerprint(residues: readonly Residue[]): boolean {
  return residues.every(({ prime, residue }) => ROCA_POWERS.get(prime)?.has(residue) ?? true);
}

const FERMAT_ROUNDS = 100;

/** Fermat's factoring: n = a^2 - b^2 with a starting at the square root finds close factors at once. */
function hasCloseFactors(modulus: bigint): boolean {
  let a = squareRoot(modulus);
  if (a * a < modulus) a += 1n;
  let rest = a * a - modulus;
  for (let round = 0; round < FERMAT_ROUNDS; round += 1) {
    if (isSquare(rest)) return true;
    rest += 2n * a + 1n;
    a += 1n;
  }
  return false;
}

/** Squares leave few remainders modulo 64 and 3465; the test of 63 in 64 numbers ends before the long root. */
const SQUARES_MOD_64 = new Set(Array.from({ length: 64 }, (_, root) => (root * root) % 64));
const SQUARES_MOD_3465 = new Set(Array.from({ length: 3465 }, (_, root) => (root * root) % 3465));

function isSquare(value: bigint): boolean {
  if (!SQUARES_MOD_64.has(Number(value & 63n)) || !SQUARES_MOD_3465.has(Number(value % 3465n))) return false;
  const root = squareRoot(value);
  return root * root === value;
}

/** Newton's method, from above. */
function squareRoot(value: bigint): bigint {
  if (value < 2n) return value;
  let root = 1n << BigInt((value.toString(16).length * 4 + 2) >> 1);
  for (;;) {
    const next = (root + value / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}
