/** Replies as text. Where a reply holds a long list, its items are picked and written in chunks. */
import { z } from "zod";
import { concatInChunks, Pace } from "../pace.ts";
import { createResponseProjection } from "./response-projection.ts";

/** Lists up to this long are written at once, as long as their items are small. */
const SHORT = 8;
/** Letters and parts of a short list that are still written at once. */
const SMALL = 32 * 1024;
const CHUNK = 256 * 1024;

/** What is left of `room` after a value; asked no further once nothing is. */
function roomAfter(value: unknown, room: number): number {
  if (typeof value === "string") return room - value.length - 1;
  if (typeof value !== "object" || value === null) return room - 1;
  let left = room - 1;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length && left > 0; at += 1) left = roomAfter(value[at], left);
    return left;
  }
  for (const name in value) {
    if (left <= 0) break;
    left = roomAfter((value as Record<string, unknown>)[name], left - name.length);
  }
  return left;
}

/** A part of a reply that is a list, or an object with lists in it. */
interface LongPart {
  isLong(value: unknown): boolean;
  /** The same without what is in its long lists. */
  outlineOf(value: unknown): unknown;
  /** `outline` has been picked; what is in the long lists is picked here. */
  write(outline: unknown, value: unknown): Generator<string, void>;
}

const fieldsOf = (value: unknown): Record<string, unknown> => value as Record<string, unknown>;

function listPart(element: z.ZodType): LongPart {
  const pick = createResponseProjection(element);
  return {
    isLong: (value) => Array.isArray(value) && (value.length > SHORT || roomAfter(value, SMALL) <= 0),
    outlineOf: () => [],
    *write(_outline, value) {
      for (const [at, item] of (value as readonly unknown[]).entries())
        yield `${at === 0 ? "[" : ","}${JSON.stringify(pick(item) ?? null)}`;
      yield "]";
    },
  };
}

function objectPart(shape: Record<string, z.ZodType>): LongPart | undefined {
  const parts = new Map<string, LongPart>();
  for (const [name, field] of Object.entries(shape)) {
    const part = partOf(field);
    if (part) parts.set(name, part);
  }
  if (parts.size === 0) return undefined;
  const all = [...parts];
  const long = (value: unknown) => all.filter(([name, part]) => part.isLong(fieldsOf(value)[name]));
  return {
    isLong: (value) =>
      typeof value === "object" &&
      value !== null &&
      all.some(([name, part]) => part.isLong(fieldsOf(value)[name])),
    outlineOf: (value) => ({
      ...fieldsOf(value),
      ...Object.fromEntries(long(value).map(([name, part]) => [name, part.outlineOf(fieldsOf(value)[name])])),
    }),
    *write(outline, value) {
      let before = "{";
      for (const [name, own] of Object.entries(fieldsOf(outline))) {
        const part = parts.get(name);
        const given = fieldsOf(value)[name];
        const isLong = part?.isLong(given) ?? false;
        const said = isLong ? "" : JSON.stringify(own);
        if (said === undefined) continue;
        yield `${before}${JSON.stringify(name)}:${said}`;
        before = ",";
        if (part && isLong) yield* part.write(own, given);
      }
      yield "}";
    },
  };
}

function partOf(field: z.ZodType): LongPart | undefined {
  if (field instanceof z.ZodOptional || field instanceof z.ZodNullable || field instanceof z.ZodDefault)
    return partOf(field.unwrap() as z.ZodType);
  if (field instanceof z.ZodArray) return listPart(field.element as z.ZodType);
  return field instanceof z.ZodObject ? objectPart(field.shape as Record<string, z.ZodType>) : undefined;
}

async function inChunks(pieces: Generator<string, void>): Promise<Buffer> {
  const pace = new Pace();
  const chunks: Buffer[] = [];
  let text = "";
  for (const piece of pieces) {
    text += piece;
    if (text.length >= CHUNK) {
      chunks.push(Buffer.from(text));
      text = "";
    }
    if (pace.isDue()) await pace.rest();
  }
  return concatInChunks([...chunks, Buffer.from(text)]);
}

type ReplyWriter = (value: unknown) => string | Promise<Buffer>;

export function createReplyWriter(schema: z.ZodType): ReplyWriter {
  const pick = createResponseProjection(schema);
  const atOnce = (value: unknown): string => JSON.stringify(pick(value));
  const part = schema instanceof z.ZodObject ? partOf(schema) : undefined;
  if (!part) return atOnce;
  return (value) =>
    part.isLong(value) ? inChunks(part.write(pick(part.outlineOf(value)), value)) : atOnce(value);
}
