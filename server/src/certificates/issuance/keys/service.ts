/**
 * Fresh keys for certificates, as bytes. Asking OpenSSL for key objects and encoding each of them (public key, sealed
 * copy, answer) costs more than everything else in issuing; keys on curves are so quick to make that handing them to
 * the thread pool costs more than it saves. RSA keys take long and belong there.
 */
import { generateKeyPair } from "node:crypto";
import { promisify } from "node:util";
import { tooManyRequests } from "../../../platform/problem.ts";
import { makeCurveKey, type CurveName, type KeyAlgorithm, type KeyBytes } from "../../x509/index.ts";

const generate = promisify(generateKeyPair);

/**
 * A long RSA key takes a second, and a caller may ask for fifty in that time. Two threads of the pool make them; the
 * others are for signing and logging in, which everybody needs. Whoever would wait for too long is told so.
 */
const RSA_AT_ONCE = 2;
const MOST_WAITING = 64;

export function createTurns(atOnce: number, mostWaiting: number) {
  let underWay = 0;
  const waiting: (() => void)[] = [];
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (underWay < atOnce) underWay += 1;
    else if (waiting.length < mostWaiting) await new Promise<void>((resolve) => void waiting.push(resolve));
    else throw tooManyRequests(10, "Too many RSA keys are being made at the moment.");
    try {
      return await work();
    } finally {
      // The place is handed on as it is.
      const next = waiting.shift();
      if (next) next();
      else underWay -= 1;
    }
  };
}
const inTurn = createTurns(RSA_AT_ONCE, MOST_WAITING);

const ENCODINGS = {
  publicKeyEncoding: { type: "spki", format: "der" },
  privateKeyEncoding: { type: "pkcs8", format: "der" },
} as const;

export async function makeKey(algorithm: KeyAlgorithm): Promise<KeyBytes> {
  switch (algorithm) {
    case "RSA_2048":
    case "RSA_3072":
    case "RSA_4096":
      // The typings of these overloads forget that encoded keys are bytes.
      return (await inTurn(() =>
        generate("rsa", { modulusLength: Number(algorithm.slice(4)), publicExponent: 65537, ...ENCODINGS }),
      )) as unknown as KeyBytes;
    case "EC_prime256v1":
    case "EC_secp384r1":
    case "EC_secp521r1":
      return makeCurveKey(algorithm.slice(3) as CurveName);
    case "Ed25519":
      return (await generate("ed25519", ENCODINGS)) as unknown as KeyBytes;
  }
}
