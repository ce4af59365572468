// Whether the bytes of a public key are a point that its curve has. Signature libraries assume it; an authority that
// certifies a point off the curve, or one of tiny order, vouches for a key whose signatures prove nothing.

import type { CurveName } from "./keys.ts";

interface Curve {
  readonly prime: bigint;
  readonly b: bigint;
  readonly octets: number;
}

/** SEC 2: y^2 = x^3 - 3x + b over the prime field. All three have cofactor 1, so on the curve means in the group. */
const CURVES: Readonly<Record<CurveName, Curve>> = {
  prime256v1: {
    prime: 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n,
    b: 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn,
    octets: 32,
  },
  secp384r1: {
    prime: 2n ** 384n - 2n ** 128n - 2n ** 96n + 2n ** 32n - 1n,
    b: 0xb3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aefn,
    octets: 48,
  },
  secp521r1: {
    prime: 2n ** 521n - 1n,
    b: 0x0051953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00n,
    octets: 66,
  },
};

/** An uncompressed point (0x04, x, y) that satisfies the equation, with both coordinates reduced. */
export function isOnCurve(point: Buffer, name: CurveName): boolean {
  const { prime, b, octets } = CURVES[name];
  if (point.length !== 1 + 2 * octets || point[0] !== 4) return false;
  const x = BigInt(`0x${point.toString("hex", 1, 1 + octets)}`);
  const y = BigInt(`0x${point.toString("hex", 1 + octets)}`);
  if (x >= prime || y >= prime) return false;
  return (y * y - (x * x * x - 3n * x + b)) % prime === 0n;
}

const P25519 = 2n ** 255n - 19n;
/** RFC 8032 5.1: -x^2 + y^2 = 1 + d x^2 y^2 with d = -121665/121666. */
const D25519 = modulo(-121665n * power(121666n, P25519 - 2n));

/**
 * RFC 8032 5.1.3 decoding without computing x, and none of the eight points of small order: those have y = 0 or
 * y^2 = 1 (orders 1, 2, 4), or double to a point with y = 0 (order 8), which means x^2 = -y^2 and so
 * d y^4 + 2 y^2 - 1 = 0.
 */
export function isSoundEd25519Point(encoded: Buffer): boolean {
  if (encoded.length !== 32) return false;
  const y = BigInt(`0x${Buffer.from(encoded).reverse().toString("hex")}`) & ((1n << 255n) - 1n);
  if (y >= P25519) return false;
  const ySquared = modulo(y * y);
  const isSmallOrder =
    ySquared === 0n || ySquared === 1n || modulo(D25519 * ySquared * ySquared + 2n * ySquared - 1n) === 0n;
  // x^2 = (y^2 - 1) / (d y^2 + 1); the quotient is a square exactly when the product is.
  const product = modulo((ySquared - 1n) * (D25519 * ySquared + 1n));
  return !isSmallOrder && power(product, (P25519 - 1n) / 2n) === 1n;
}

function modulo(value: bigint): bigint {
  const rest = value % P25519;
  return rest < 0n ? rest + P25519 : rest;
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  let square = base;
  for (let left = exponent; left > 0n; left >>= 1n) {
    if ((left & 1n) === 1n) result = modulo(result * square);
    square = modulo(square * square);
  }
  return result;
}
