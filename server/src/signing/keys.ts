/**
 * Fresh keys for certificates, as bytes. Asking OpenSSL for key objects and encoding each of them (public key, encrypted
 * copy, answer) costs more than everything else in issuing; keys on curves are so quick to make that handing them to
 * the thread pool costs more than it saves. RSA keys take long and have threads of their own, with a low priority.
 */
import { generateKeyPair } from "node:crypto";
import { availableParallelism } from "node:os";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { createFairQueue } from "../platform/fair-queue.ts";
import { makeCurveKey, type CurveName, type KeyAlgorithm, type KeyBytes } from "@keyward/x509";

const generate = promisify(generateKeyPair);

/**
 * A long RSA key takes a second, and a caller may ask for fifty in that time. One or two threads make them, organisations
 * take turns, and a request that would wait for too long is refused.
 */
const turns = createFairQueue({
  what: "RSA keys are being made",
  // With two cores, one is for everything else.
  places: availableParallelism() > 2 ? 2 : 1,
  waitingPerTenant: 32,
  waiting: 256,
  patienceMs: 60_000,
});

/** A request for such a key may wait for a minute, and its caller may lose the right meanwhile. */
export const takesTurns = (algorithm: KeyAlgorithm): boolean => algorithm.startsWith("RSA");

/** Makes a key of this kind, in the organisation's turn if it takes long. */
export const inKeyTurn = <T>(algorithm: KeyAlgorithm, orgId: string, make: () => Promise<T>): Promise<T> =>
  takesTurns(algorithm) ? turns.run(orgId, make) : make();

const ENCODINGS = {
  publicKeyEncoding: { type: "spki", format: "der" },
  privateKeyEncoding: { type: "pkcs8", format: "der" },
} as const;

/** Idle workers; as many as there are slots, started when they are needed. */
const idle: Worker[] = [];

function makeRsaKey(modulusLength: number): Promise<KeyBytes> {
  const worker = idle.pop() ?? new Worker(new URL("./make-rsa-keys.js", import.meta.url));
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => reject(error);
    worker.ref();
    worker.once("error", fail);
    worker.once("message", ({ publicKey, privateKey }: Record<keyof KeyBytes, Uint8Array>) => {
      worker.off("error", fail);
      // A stopping process does not wait for an idle thread.
      worker.unref();
      idle.push(worker);
      resolve({ publicKey: Buffer.from(publicKey), privateKey: Buffer.from(privateKey) });
    });
    worker.postMessage(modulusLength);
  });
}

export async function makeKey(algorithm: KeyAlgorithm, orgId: string): Promise<KeyBytes> {
  switch (algorithm) {
    case "RSA_2048":
    case "RSA_3072":
    case "RSA_4096":
      return inKeyTurn(algorithm, orgId, () => makeRsaKey(Number(algorithm.slice(4))));
    case "EC_prime256v1":
    case "EC_secp384r1":
    case "EC_secp521r1":
      return makeCurveKey(algorithm.slice(3) as CurveName);
    case "Ed25519":
      // The typings of this overload forget that encoded keys are bytes.
      return (await generate("ed25519", ENCODINGS)) as unknown as KeyBytes;
  }
}

/** A placeholder key where nothing is issued (dry run): made once, its private half thrown away. */
const standIns = new Map<KeyAlgorithm, Promise<Buffer>>();
export function standInFor(algorithm: KeyAlgorithm): Promise<Buffer> {
  const known = standIns.get(algorithm);
  if (known) return known;
  const made = makeKey(algorithm, "rehearsals").then(({ publicKey }) => publicKey);
  standIns.set(algorithm, made);
  made.catch(() => standIns.delete(algorithm));
  return made;
}
