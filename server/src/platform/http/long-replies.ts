/** Replies as text. Where a reply is a long list, its items are picked and written in bites. */
import { z } from "zod";
import { Pace } from "../pace.ts";
import { createPicker } from "./picker.ts";

/** Lists up to this long are written at once, as long as their items are small. */
const SHORT = 8;
const CHUNK = 256 * 1024;

function elementOf(field: z.ZodType): z.ZodType | undefined {
  if (field instanceof z.ZodOptional || field instanceof z.ZodNullable || field instanceof z.ZodDefault)
    return elementOf(field.unwrap() as z.ZodType);
  return field instanceof z.ZodArray ? (field.element as z.ZodType) : undefined;
}

export type ReplyWriter = (value: unknown) => string | Promise<Buffer>;

export function createReplyWriter(schema: z.ZodType): ReplyWriter {
  const pick = createPicker(schema);
  const atOnce = (value: unknown): string => JSON.stringify(pick(value));
  if (!(schema instanceof z.ZodObject)) return atOnce;
  const lists = Object.entries(schema.shape as Record<string, z.ZodType>).flatMap(([name, field]) => {
    const element = elementOf(field);
    return element ? [{ name, pick: createPicker(element) }] : [];
  });
  if (lists.length === 0) return atOnce;
  const isLong = (value: unknown): value is readonly unknown[] =>
    Array.isArray(value) && value.length > SHORT;

  const inBites = async (value: Record<string, unknown>): Promise<Buffer> => {
    const long = new Map(lists.filter(({ name }) => isLong(value[name])).map((list) => [list.name, list]));
    const outline = pick({ ...value, ...Object.fromEntries([...long.keys()].map((name) => [name, []])) });
    const pace = new Pace();
    const chunks: Buffer[] = [];
    let text = "";
    const add = (more: string): void => {
      text += more;
      if (text.length < CHUNK) return;
      chunks.push(Buffer.from(text));
      text = "";
    };
    let before = "{";
    for (const [name, part] of Object.entries(outline as Record<string, unknown>)) {
      const list = long.get(name);
      const said = list ? "[" : JSON.stringify(part);
      if (said === undefined) continue;
      add(`${before}${JSON.stringify(name)}:${said}`);
      before = ",";
      if (!list) continue;
      for (const [at, item] of (value[name] as readonly unknown[]).entries()) {
        add(`${at === 0 ? "" : ","}${JSON.stringify(list.pick(item) ?? null)}`);
        if (pace.isDue()) await pace.rest();
      }
      add("]");
    }
    chunks.push(Buffer.from(`${text}}`));
    return Buffer.concat(chunks);
  };

  return (value) => {
    const fields = value as Record<string, unknown>;
    const hasLong =
      typeof value === "object" && value !== null && lists.some(({ name }) => isLong(fields[name]));
    return hasLong ? inBites(fields) : atOnce(value);
  };
}
