/**
 * From an event to the JSON lines that say it. Names and folders alone: a value never comes near this room. A line
 * is kept under half of what the readers in the field can take (64 KiB), so a large change becomes several messages.
 */
import type { SecretEvent } from "./model.ts";

export const MAX_LINE_BYTES = 32 * 1024;
const FIELD_BYTES = "data: ".length;

/** JSON leaves these as they are, and some readers' idea of a line ends at them. */
const LINE_ENDS = /[\u0085\u2028\u2029]/g;

const quote = (text: string): string =>
  JSON.stringify(text).replace(LINE_ENDS, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

type Said = Pick<SecretEvent, "type" | "environment" | "path" | "keys">;

export function messagesOf({ type, environment, path, keys }: Said): string[] {
  const head = `{"projectType":"secret-manager","data":{"eventType":"${type}","payload":`;
  const place = `{"environment":${quote(environment)},"secretPath":${quote(path)}`;
  if (keys === null) return [`${head}${place}}}}`];
  const messages: string[] = [];
  const emptyBytes = FIELD_BYTES + Buffer.byteLength(head) + "[]}}".length;
  let items: string[] = [];
  let bytes = emptyBytes;
  const close = () => {
    if (items.length > 0) messages.push(`${head}[${items.join(",")}]}}`);
    items = [];
    bytes = emptyBytes;
  };
  for (const key of keys) {
    const item = `${place},"secretKey":${quote(key)}}`;
    const itemBytes = Buffer.byteLength(item) + 1;
    if (bytes + itemBytes > MAX_LINE_BYTES) close();
    items.push(item);
    bytes += itemBytes;
  }
  close();
  return messages;
}
