/** The thread that opens a project's file (open-apart.ts). */
import { parentPort, workerData } from "node:worker_threads";
import { piecesOf, type Piece } from "../archive/model.ts";
import { Problem, type Issue } from "../../platform/problem.ts";
import { notBase64, openArchive, unreadable } from "./seal-archive.ts";

export interface OpenOrder {
  /** Base64, letter by letter. */
  readonly file: Uint8Array;
  readonly passphrase: string;
}
export type OpenedFile =
  /** The last one is empty. */
  | { readonly kind: "chunk"; readonly pieces: readonly Piece[] }
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly error: string;
      readonly message: string;
      readonly issues: readonly Issue[];
    };

const CHUNK = 500;
const CHUNK_LETTERS = 256 * 1024;

const say = (said: OpenedFile): void => parentPort?.postMessage(said);
const refuse = ({ status, error, message, issues = [] }: Problem): void =>
  say({ kind: "refused", status, error, message, issues });

/** Half of a character more or less would be decoded to something, and be another file. */
function decode(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  const isWhole =
    text.length % 4 === 0 && bytes.length === (text.length / 4) * 3 - (/=*$/.exec(text)?.[0].length ?? 0);
  return isWhole ? bytes : undefined;
}

function nextChunk(pieces: Generator<Piece, void>): Piece[] {
  const chunk: Piece[] = [];
  for (let letters = 0; chunk.length < CHUNK && letters < CHUNK_LETTERS;) {
    const { value, done } = pieces.next();
    if (done) break;
    chunk.push(value);
    letters += JSON.stringify(value).length;
  }
  return chunk;
}

const { file, passphrase } = workerData as OpenOrder;
const bytes = decode(Buffer.from(file.buffer, file.byteOffset, file.byteLength).toString("latin1"));
if (bytes)
  try {
    const pieces = piecesOf(await openArchive(bytes, passphrase));
    parentPort?.on("message", () => say({ kind: "chunk", pieces: nextChunk(pieces) }));
    say({ kind: "chunk", pieces: nextChunk(pieces) });
  } catch (error) {
    refuse(error instanceof Problem ? error : unreadable());
  }
else refuse(notBase64());
