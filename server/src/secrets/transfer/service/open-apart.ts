/**
 * Opens a project's file on a thread of its own: fifty megabytes of JSON hold up for a second whoever reads them. The
 * secrets come back in bites, one asked for after the other, so that nobody waits long here either. One file at a time
 * on a node, organisations in turn; each may take so much memory and no more.
 */
import { Worker } from "node:worker_threads";
import { invalidField, Problem } from "../../../platform/problem.ts";
import { createTurns } from "../../../platform/turns.ts";
import type { Archive, ArchivedSecret } from "../archive/contract.ts";
import { unreadable } from "./seal-archive.ts";

export interface OpenOrder {
  readonly file: string;
  readonly passphrase: string;
}
export type Opened =
  | { readonly kind: "head"; readonly rest: Omit<Archive, "secrets"> }
  | { readonly kind: "bite"; readonly secrets: readonly ArchivedSecret[] }
  | { readonly kind: "refused"; readonly why: "base64" | "unreadable" };

const MEMORY_MB = 1024;
const IDLE_MS = 120_000;

const turns = createTurns({
  what: "project files are being opened",
  places: 1,
  perTenant: 1,
  waitingPerTenant: 2,
  waiting: 64,
  patienceMs: 120_000,
});

function readFrom(worker: Worker): Promise<Archive> {
  return new Promise((resolve, reject) => {
    let rest: Omit<Archive, "secrets"> | undefined;
    const secrets: ArchivedSecret[] = [];
    const timer = setTimeout(() => reject(unreadable()), IDLE_MS).unref();
    worker.on("message", (said: Opened) => {
      timer.refresh();
      if (said.kind === "refused")
        return reject(
          said.why === "base64" ? invalidField(["file"], "file must be base64 text") : unreadable(),
        );
      if (said.kind === "head") rest = said.rest;
      else secrets.push(...said.secrets);
      if (said.kind === "bite" && said.secrets.length === 0 && rest) return resolve({ ...rest, secrets });
      worker.postMessage("more");
    });
    // Out of memory is the file's fault too: whoever exports so much in one file is told to split it.
    worker.on("error", (error: NodeJS.ErrnoException) =>
      reject(error.code === "ERR_WORKER_OUT_OF_MEMORY" ? tooManyParts() : error),
    );
    worker.on("exit", () => reject(unreadable()));
  });
}

const tooManyParts = (): Problem =>
  new Problem(413, "PayloadTooLarge", "The project in this file is too large to be taken in at once.");

export const openApart = (orgId: string, order: OpenOrder): Promise<Archive> =>
  turns.run(orgId, async () => {
    const worker = new Worker(new URL("./open-apart-worker.js", import.meta.url), {
      workerData: order,
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    });
    try {
      return await readFrom(worker);
    } finally {
      await worker.terminate();
    }
  });
