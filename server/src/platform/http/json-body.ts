/** Decodes and parses a JSON body. */
import { isUtf8 } from "node:buffer";
import { StringDecoder } from "node:string_decoder";
import { setImmediate } from "node:timers/promises";
import type { FastifyRequest } from "fastify";
import { NotJson, parseInChunks, TooManyParts } from "../json-chunks.ts";
import { Pace } from "../pace.ts";
import { badRequest, Problem } from "../problem.ts";
import { SMALL_BODY, type RightsGate } from "./gate.ts";
import { UNSTORABLE_ESCAPES } from "./input.ts";
import { LARGE, type LargeBodies } from "./large-bodies.ts";

/** A decoder would quietly replace invalid bytes by another character, and change a secret. */
export const notText = () => badRequest("The body is not valid UTF-8.");
const tooManyParts = () =>
  new Problem(
    413,
    "PayloadTooLarge",
    `The request body has too many keys and items: at most ${MOST_PARTS.all}, and ${MOST_PARTS.item} in one item.`,
  );
const notJson = () => badRequest("The body is not valid JSON.");
/** A longer text is parsed in chunks. */
const SMALL = 128 * 1024;
/**
 * Keys and items: of all of a body, and of one of its items. Large bodies are meant to be long texts in few fields, or
 * long lists of small objects; a million keys take a second to parse and validate.
 */
const MOST_PARTS = { all: 200_000, item: 50_000 };
const FAULTS = { text: notText, parts: tooManyParts, json: notJson };

async function parseLong(text: string): Promise<unknown> {
  try {
    return await parseInChunks(text, MOST_PARTS);
  } catch (error) {
    if (error instanceof TooManyParts) throw tooManyParts();
    if (error instanceof NotJson) throw notJson();
    throw error;
  }
}

/** Megabytes of non-ASCII text take long to decode. */
async function decodeInChunks(body: Buffer): Promise<string> {
  const decoder = new StringDecoder("utf8");
  const pace = new Pace();
  let text = "";
  for (let from = 0; from < body.length; from += SMALL) {
    text += decoder.write(body.subarray(from, from + SMALL));
    if (pace.isDue()) await pace.rest();
  }
  return text;
}

async function parseInParts(request: FastifyRequest, body: Buffer): Promise<unknown> {
  if (!isUtf8(body)) throw notText();
  request.requestContext.isBodyLong = true;
  const text = await decodeInChunks(body);
  request.requestContext.bodyHasEscapes = UNSTORABLE_ESCAPES.test(text);
  await setImmediate();
  return parseLong(text);
}

function parseAtOnce(request: FastifyRequest, body: Buffer): unknown {
  if (!isUtf8(body)) throw notText();
  const text = body.toString();
  request.requestContext.bodyHasEscapes = UNSTORABLE_ESCAPES.test(text);
  try {
    return JSON.parse(text);
  } catch {
    throw notJson();
  }
}

/** Answers at once where the body is small, as nearly all of them are. */
export const createJsonParser = (gate: RightsGate, large: LargeBodies) => {
  const parseLater = async (request: FastifyRequest, body: Buffer): Promise<unknown> => {
    await gate.atBody(request, body);
    if (body.length <= SMALL) return parseAtOnce(request, body);
    if (body.length <= LARGE) return parseInParts(request, body);
    const answer = await large.parse(body);
    if ("fault" in answer) throw FAULTS[answer.fault]();
    request.requestContext.bodyHasEscapes = answer.hasEscapes;
    return answer.value;
  };
  return (request: FastifyRequest, body: Buffer): unknown => {
    if (body.length === 0) return undefined;
    return body.length <= SMALL_BODY ? parseAtOnce(request, body) : parseLater(request, body);
  };
};
