/** Reads a few strings of a large JSON body without parsing the rest. */

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
/** A name or an id is not longer. */
const MAX_TEXT = 1024;
/** A body of more is refused anyway, before it is parsed. */
const MAX_STRINGS = 400_000;

/** Where the string that begins at `start` ends; the length of the body if it does not. */
function endOfString(body: Buffer, start: number): number {
  const end = body.indexOf(QUOTE, start + 1);
  if (end < 0) return body.length;
  if (body[end - 1] !== BACKSLASH) return end;
  // Byte by byte: a search from one escaped quote to the next would cost a call each.
  for (let at = start + 1; at < body.length; at += 1) {
    if (body[at] === BACKSLASH) at += 1;
    else if (body[at] === QUOTE) return at;
  }
  return body.length;
}

function textAt(body: Buffer, start: number, end: number): string | undefined {
  if (end - start > MAX_TEXT || end >= body.length) return undefined;
  try {
    return JSON.parse(body.toString("utf8", start, end + 1)) as string;
  } catch {
    return undefined;
  }
}

/**
 * The values of these top-level fields, as far as they are texts. Of a field that comes twice the last one counts, as
 * it does for the parser. What is not JSON gives some answer or none: the parser will say so.
 */
export function topLevelTexts(body: Buffer, fields: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  let depth = 0;
  let isKey = true;
  let key: string | undefined;
  let strings = 0;
  for (let at = 0; at < body.length && strings <= MAX_STRINGS; at += 1) {
    const byte = body[at];
    if (byte === QUOTE) {
      strings += 1;
      const end = endOfString(body, at);
      if (depth === 1) {
        const text = isKey || key !== undefined ? textAt(body, at, end) : undefined;
        if (isKey) key = text !== undefined && fields.includes(text) ? text : undefined;
        else if (key !== undefined) {
          if (text === undefined) found.delete(key);
          else found.set(key, text);
        }
      }
      at = end;
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth += 1;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) depth -= 1;
    else if (depth === 1 && byte === COLON) isKey = false;
    else if (depth === 1 && byte === COMMA) [isKey, key] = [true, undefined];
  }
  return found;
}
