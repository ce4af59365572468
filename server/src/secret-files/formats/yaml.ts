/**
 * One flat YAML mapping of names to strings. Everything is written between double quotes, which leaves no value that
 * could be read as a number, a date or `no`.
 */
import { Worker } from "node:worker_threads";
import { createFairQueue } from "../../platform/fair-queue.ts";
import { FormatError, readAll, type EntriesToCome, type FileEntries, type Writing } from "./entries.ts";
import { yamlReading } from "./yaml-reader.ts";
import type { ReadFile } from "./yaml-worker.ts";

const SIMPLE_KEY = /^[A-Za-z_][A-Za-z0-9_-]*$/;
/** YAML 1.1 readers take these for words or numbers when they stand bare. */
const WORD = /^(y|n|yes|no|true|false|on|off|null|~)$/i;

/** A JSON string is a YAML string once the line breaks that only YAML knows are escaped too. */
const quoted = (text: string): string =>
  JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

export function* yamlLines(entries: FileEntries): Writing {
  if (entries.size === 0) yield "{}\n";
  for (const [key, value] of entries)
    yield `${SIMPLE_KEY.test(key) && !WORD.test(key) ? key : quoted(key)}: ${quoted(value)}\n`;
}
export const writeYaml = (entries: FileEntries): string => [...yamlLines(entries)].join("");

/** The library reads all in one go: a tenth of a second for a value of a megabyte. So much is read where it came in. */
const AT_ONCE_LETTERS = 8 * 1024;
const MEMORY_MB = 512;
const PATIENCE_MS = 60_000;

const turns = createFairQueue({
  what: "YAML files are being read",
  places: 2,
  perTenant: 1,
  waitingPerTenant: 8,
  waiting: 64,
  patienceMs: PATIENCE_MS,
});

const tooMuch = (): FormatError => new FormatError("the file takes too much to read: split it");

async function readApart(text: string): Promise<FileEntries> {
  const worker = new Worker(new URL("./yaml-worker.js", import.meta.url), {
    workerData: text,
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
  });
  let timer: NodeJS.Timeout | undefined;
  try {
    return await new Promise<FileEntries>((resolve, reject) => {
      timer = setTimeout(() => reject(tooMuch()), PATIENCE_MS);
      worker.on("message", (read: ReadFile) =>
        "refusal" in read ? reject(new FormatError(read.refusal)) : resolve(read.entries),
      );
      worker.on("error", (error: NodeJS.ErrnoException) =>
        reject(error.code === "ERR_WORKER_OUT_OF_MEMORY" ? tooMuch() : error),
      );
      worker.on("exit", () => reject(tooMuch()));
    });
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}

export async function* yamlEntries(text: string, orgId: string): EntriesToCome {
  yield* text.length <= AT_ONCE_LETTERS ? yamlReading(text) : await turns.run(orgId, () => readApart(text));
}
export const readYaml = (text: string): FileEntries => readAll(yamlReading(text));
