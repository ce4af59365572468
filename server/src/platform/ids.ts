import { randomFillSync } from "node:crypto";

/**
 * Identifiers are UUID version 7 (RFC 9562): the leading milliseconds keep neighbours in time neighbours in
 * the index, which is what keeps inserts and `ORDER BY id` cheap at a million rows.
 */
const POOL_BYTES = 16 * 256;
const pool = Buffer.alloc(POOL_BYTES);
let used = POOL_BYTES;

// Random bytes are drawn in blocks: one system call per 256 ids instead of one per id.
function draw(bytes: number): Buffer {
  if (used + bytes > POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  const slice = pool.subarray(used, used + bytes);
  used += bytes;
  return slice;
}

let lastMillis = 0;
let counter = 0;

/** Ids of one process rise strictly even within a millisecond (RFC 9562, 6.2, method 1), so order of making is order of ids. */
export function newId(millis: number = Date.now()): string {
  const random = draw(10).toString("hex");
  if (millis === lastMillis && counter < 0xfff) counter += 1;
  else {
    lastMillis = millis;
    // The upper half stays free for counting on.
    counter = Number.parseInt(random.slice(0, 3), 16) & 0x7ff;
  }
  const time = millis.toString(16).padStart(12, "0");
  const variant = "89ab"[Number.parseInt(random.charAt(3), 16) & 3];
  return `${time.slice(0, 8)}-${time.slice(8)}-7${counter.toString(16).padStart(3, "0")}-${variant}${random.slice(4, 7)}-${random.slice(7, 19)}`;
}

const ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** `length` characters of [0-9A-Za-z], each evenly likely: bytes that would favour early letters are drawn again. */
export function randomAlphanumeric(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of draw(length)) {
      if (byte < 248 && text.length < length) text += ALPHANUMERIC.charAt(byte % 62);
    }
  }
  return text;
}

export const newRequestId = (): string => `req-${randomAlphanumeric(14)}`;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
export const isUuid = (text: string): boolean => UUID.test(text);
