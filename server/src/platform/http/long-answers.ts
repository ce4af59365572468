/**
 * Answers that are written as they are read. A token that was good at the start is looked at again while they last,
 * and a client that takes nothing for a while is let go: it would keep a page, a place and a connection for ever.
 */
import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";

const JUDGED_MS = 1000;
const STALLED_MS = 30_000;

async function* judgedMeanwhile(
  source: NodeJS.ReadableStream,
  confirm: () => Promise<void>,
): AsyncGenerator<string | Buffer> {
  let judgedAt = performance.now();
  for await (const part of source) {
    if (performance.now() - judgedAt > JUDGED_MS) {
      await confirm();
      judgedAt = performance.now();
    }
    yield part;
  }
}

/** `confirm` throws when it must end; what was sent until then stays cut off, for the client to see. */
export function longAnswer(
  source: NodeJS.ReadableStream,
  response: ServerResponse,
  { confirm, stalledMs = STALLED_MS }: { readonly confirm: () => Promise<void>; readonly stalledMs?: number },
): Readable {
  response.setTimeout(stalledMs, () => response.destroy());
  return Readable.from(judgedMeanwhile(source, confirm), { objectMode: false });
}
