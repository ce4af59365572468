/** From the bytes of a body to what they say. */
import { isUtf8 } from "node:buffer";
import { setImmediate } from "node:timers/promises";
import type { FastifyRequest } from "fastify";
import { badRequest, Problem } from "../problem.ts";
import type { Gate } from "./gate.ts";
import { hasTooManyParts, UNSTORABLE_ESCAPES } from "./input.ts";
import { LARGE, type LargeBodies } from "./large-bodies.ts";

/** A decoder would quietly put another character in place of what it cannot read, and a secret would be another one. */
export const notText = () => badRequest("The body is not valid UTF-8.");
const tooManyParts = () =>
  new Problem(413, "PayloadTooLarge", "The request body has too many keys and items.");
const notJson = () => badRequest("The body is not valid JSON.");
/** What is done with a longer text is done one thing at a time, others in between. */
const SMALL = 1024 * 1024;
const FAULTS = { text: notText, parts: tooManyParts, json: notJson };

async function parseHere(request: FastifyRequest, body: Buffer): Promise<unknown> {
  if (!isUtf8(body)) throw notText();
  const text = body.toString();
  if (text.length > SMALL) await setImmediate();
  if (hasTooManyParts(text)) throw tooManyParts();
  if (text.length > SMALL) await setImmediate();
  request.visit.bodyHasEscapes = UNSTORABLE_ESCAPES.test(text);
  if (text.length > SMALL) await setImmediate();
  try {
    return JSON.parse(text);
  } catch {
    throw notJson();
  }
}

export const createJsonParser =
  (gate: Gate, large: LargeBodies) =>
  async (request: FastifyRequest, body: Buffer): Promise<unknown> => {
    if (body.length === 0) return undefined;
    const judged = gate.atBody(request, body);
    if (judged) await judged;
    if (body.length <= LARGE) return parseHere(request, body);
    const answer = await large.parse(body);
    if ("fault" in answer) throw FAULTS[answer.fault]();
    request.visit.bodyHasEscapes = answer.hasEscapes;
    return answer.value;
  };
