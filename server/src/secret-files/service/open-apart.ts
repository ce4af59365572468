/**
 * Opens a project's file on a worker thread: parsing fifty megabytes of JSON would block the event loop for a second. It
 * comes back in chunks, one asked for after the other, so that nobody waits long here either. One file at a time
 * on a node, organisations in turn; each may take so much memory and no more.
 */
import { Worker } from "node:worker_threads";
import { Pace } from "../../platform/pace.ts";
import { Problem } from "../../platform/problem.ts";
import { createFairQueue } from "../../platform/fair-queue.ts";
import type { Archive } from "../archive/contract.ts";
import { ArchiveOfPieces } from "../archive/model.ts";
import type { OpenedFile, OpenOrder } from "./open-apart-worker.ts";
import { notBase64, unreadable } from "./seal-archive.ts";

const MEMORY_MB = 1024;
const IDLE_MS = 120_000;

const turns = createFairQueue({
  what: "project files are being opened",
  places: 1,
  perTenant: 1,
  waitingPerTenant: 2,
  waiting: 64,
  patienceMs: 120_000,
});

function readFrom(worker: Worker): Promise<Archive> {
  return new Promise((resolve, reject) => {
    const archive = new ArchiveOfPieces();
    const timer = setTimeout(() => reject(unreadable()), IDLE_MS).unref();
    worker.on("message", (said: OpenedFile) => {
      timer.refresh();
      if (said.kind === "refused") {
        const { status, error, message, issues } = said;
        return reject(new Problem(status, error, message, issues.length > 0 ? { issues } : {}));
      }
      for (const piece of said.pieces) archive.add(piece);
      if (said.pieces.length === 0) return resolve(archive.whole);
      worker.postMessage("more");
    });
    // Out of memory is the file's fault too: the message says to split the export.
    worker.on("error", (error: NodeJS.ErrnoException) =>
      reject(error.code === "ERR_WORKER_OUT_OF_MEMORY" ? tooManyParts() : error),
    );
    worker.on("exit", () => reject(unreadable()));
  });
}

const tooManyParts = (): Problem =>
  new Problem(413, "PayloadTooLarge", "The project in this file is too large to be taken in at once.");

const SLICE = 1024 * 1024;

/** To be given away: a text would be copied as a whole. Undefined where it is not even ASCII. */
async function lettersOf(text: string): Promise<Uint8Array | undefined> {
  const letters = Buffer.from(new ArrayBuffer(text.length));
  const pace = new Pace();
  for (let at = 0; at < text.length; at += SLICE) {
    const slice = text.slice(at, at + SLICE);
    if (letters.write(slice, at, "utf8") !== slice.length) return undefined;
    if (pace.isDue()) await pace.rest();
  }
  return letters;
}

interface SealedFile {
  readonly file: string;
  readonly passphrase: string;
}

export const openApart = (orgId: string, order: SealedFile): Promise<Archive> =>
  turns.run(orgId, async () => {
    const file = await lettersOf(order.file);
    if (!file) throw notBase64();
    const worker = new Worker(new URL("./open-apart-worker.js", import.meta.url), {
      workerData: { file, passphrase: order.passphrase } satisfies OpenOrder,
      transferList: [file.buffer as ArrayBuffer],
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    });
    try {
      return await readFrom(worker);
    } finally {
      await worker.terminate();
    }
  });
