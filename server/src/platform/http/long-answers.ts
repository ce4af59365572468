/**
 * Streamed answers. A token that was valid at the start is checked again while they last,
 * and a client that reads nothing for a while, or next to nothing for long, is disconnected: it would hold a page, a slot
 * and a connection for ever. However an answer ends, begun or not, its source is released too.
 */
import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";

const JUDGED_MS = 1000;
const STALLED_MS = 30_000;
/** A client that reads less in the long run only holds resources. */
const LEAST_PER_SECOND = 32 * 1024;
/** No more is written at once, so that "read nothing" is measured in small steps. */
const PIECE = 64 * 1024;

type Source = NodeJS.ReadableStream;
type Part = string | Buffer;

/** For a body that nobody will read. */
export function letGo(body: Part | Source): void {
  if (body instanceof Readable) body.destroy();
}

/**
 * How long the reader made us wait, and for how much. Only its own time counts: a source may be slow. And only what it
 * read counts, not whether the connection was silent: a byte now and then, in either direction, is not reading.
 */
class Reader {
  readonly #response: ServerResponse;
  readonly #stalledMs: number;
  readonly #timer: NodeJS.Timeout;
  #heldMs = 0;
  #taken = 0;
  #offeredAt: number | undefined;

  constructor(response: ServerResponse, stalledMs: number) {
    this.#response = response;
    this.#stalledMs = stalledMs;
    this.#timer = setInterval(() => this.#look(), Math.ceil(stalledMs / 4)).unref();
    const end = () => clearInterval(this.#timer);
    response.once("finish", end).once("close", end);
    if (response.destroyed) end();
  }

  offer(): void {
    this.#offeredAt = performance.now();
  }

  took(length: number): void {
    if (this.#offeredAt !== undefined) this.#heldMs += performance.now() - this.#offeredAt;
    this.#offeredAt = undefined;
    this.#taken += length;
  }

  #look(): void {
    if (this.#offeredAt === undefined) return;
    const waits = performance.now() - this.#offeredAt;
    const beyond = this.#heldMs + waits - this.#stalledMs;
    if (waits <= this.#stalledMs && this.#taken >= (beyond / 1000) * LEAST_PER_SECOND) return;
    clearInterval(this.#timer);
    this.#response.destroy();
  }
}

function* piecesOf(part: Part): Generator<Buffer> {
  const bytes = typeof part === "string" ? Buffer.from(part) : part;
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}

async function* judgedMeanwhile(
  source: Source,
  confirm: () => Promise<void>,
  reader: Reader,
): AsyncGenerator<Buffer> {
  let judgedAt = performance.now();
  for await (const part of source)
    for (const piece of piecesOf(part)) {
      if (performance.now() - judgedAt > JUDGED_MS) {
        await confirm();
        judgedAt = performance.now();
      }
      reader.offer();
      yield piece;
      reader.took(piece.length);
    }
  // The last of it may still be on its way.
  reader.offer();
}

/** `confirm` throws when it must end; what was sent until then stays cut off, for the client to see. */
export function longAnswer(
  source: Source,
  response: ServerResponse,
  { confirm, stalledMs = STALLED_MS }: { readonly confirm: () => Promise<void>; readonly stalledMs?: number },
): Readable {
  const reader = new Reader(response, stalledMs);
  const answer = Readable.from(judgedMeanwhile(source, confirm, reader), { objectMode: false });
  // One that is ended before it began never comes to the end of its generator.
  answer.once("close", () => letGo(source));
  response.once("close", () => letGo(source));
  if (response.destroyed) letGo(source);
  return answer;
}
