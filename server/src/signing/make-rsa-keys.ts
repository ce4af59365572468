/**
 * The thread that makes RSA keys, one after the other, with a low priority: a long key is a second of
 * nothing but arithmetic, and on a small machine requests and the database would wait for it.
 */
import { generateKeyPairSync } from "node:crypto";
import { readlinkSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { parentPort } from "node:worker_threads";

try {
  // Linux gives each thread a priority of its own; "<pid>/task/<tid>" is this one.
  const [thread] = readlinkSync("/proc/thread-self").split("/").slice(-1);
  setPriority(Number(thread), constants.priority.PRIORITY_BELOW_NORMAL);
} catch {
  // Elsewhere it works at the priority of the process.
}

parentPort?.on("message", (modulusLength: number) =>
  parentPort?.postMessage(
    generateKeyPairSync("rsa", {
      modulusLength,
      publicExponent: 65537,
      publicKeyEncoding: { type: "spki", format: "der" },
      privateKeyEncoding: { type: "pkcs8", format: "der" },
    }),
  ),
);
