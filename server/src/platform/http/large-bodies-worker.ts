/** The thread that parses large bodies (large-bodies.ts). */
import { isUtf8 } from "node:buffer";
import { parentPort } from "node:worker_threads";
import { hasTooManyParts, UNSTORABLE_ESCAPES } from "./input.ts";

interface ParsedApart {
  readonly value: unknown;
  readonly hasEscapes: boolean;
}
export type ParseAnswer = ParsedApart | { readonly fault: "text" | "parts" | "json" };

function answerTo(body: Uint8Array): ParseAnswer {
  if (!isUtf8(body)) return { fault: "text" };
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
  if (hasTooManyParts(text)) return { fault: "parts" };
  try {
    return { value: JSON.parse(text), hasEscapes: UNSTORABLE_ESCAPES.test(text) };
  } catch {
    return { fault: "json" };
  }
}

parentPort?.once("message", (body: Uint8Array) => {
  try {
    parentPort?.postMessage(answerTo(body));
  } catch {
    // So deeply nested that it cannot even be handed over.
    parentPort?.postMessage({ fault: "parts" } satisfies ParseAnswer);
  }
});
