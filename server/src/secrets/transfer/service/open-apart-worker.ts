/** The thread that opens a project's file (open-apart.ts). */
import { parentPort, workerData } from "node:worker_threads";
import type { Opened, OpenOrder } from "./open-apart.ts";
import { openArchive } from "./seal-archive.ts";

const BITE = 500;
const BITE_LETTERS = 512 * 1024;

const say = (said: Opened): void => parentPort?.postMessage(said);

/** Half of a character more or less would be decoded to something, and be another file. */
function decode(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  const isWhole =
    text.length % 4 === 0 && bytes.length === (text.length / 4) * 3 - (/=*$/.exec(text)?.[0].length ?? 0);
  return isWhole ? bytes : undefined;
}

const { file, passphrase } = workerData as OpenOrder;
const bytes = decode(Buffer.from(file.buffer, file.byteOffset, file.byteLength).toString("latin1"));
if (bytes)
  try {
    const { secrets, ...rest } = await openArchive(bytes, passphrase);
    let at = 0;
    parentPort?.on("message", () => {
      const start = at;
      for (let letters = 0; at < secrets.length && at - start < BITE && letters < BITE_LETTERS; at += 1)
        letters += JSON.stringify(secrets[at]).length;
      say({ kind: "bite", secrets: secrets.slice(start, at) });
    });
    say({ kind: "head", rest });
  } catch {
    say({ kind: "refused", why: "unreadable" });
  }
else say({ kind: "refused", why: "base64" });
