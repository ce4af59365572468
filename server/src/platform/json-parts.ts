/** Counts the values in a JSON text without parsing it. */

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
/** `,` `:` `[` `{`: with each of them another value begins. */
const BEGINS_PART = new Set([0x2c, 0x3a, 0x5b, 0x7b]);

/** Where the string that begins at `start` ends; the length of the text if it does not. */
function endOfString(text: string, start: number): number {
  const end = text.indexOf('"', start + 1);
  if (end < 0) return text.length;
  if (text.charCodeAt(end - 1) !== BACKSLASH) return end;
  // Letter by letter: a search from one escaped quote to the next would cost a call each.
  for (let at = start + 1; at < text.length; at += 1) {
    const letter = text.charCodeAt(at);
    if (letter === BACKSLASH) at += 1;
    else if (letter === QUOTE) return at;
  }
  return text.length;
}

/** Long texts in few fields are stepped over. */
export function hasMoreParts(text: string, most: number): boolean {
  let parts = 0;
  for (let at = 0; at < text.length && parts <= most; at += 1) {
    const letter = text.charCodeAt(at);
    if (letter === QUOTE) at = endOfString(text, at);
    else if (BEGINS_PART.has(letter)) parts += 1;
  }
  return parts > most;
}
