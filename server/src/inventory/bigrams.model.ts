/**
 * The letters and bigrams of a block of names, as one bit each (a Bloom-like filter). A term can only be in a block
 * that has all of its bits; whether it really is, only comparing the names tells.
 *
 * Names are made of few letters. Those have a class of their own, all others share the last one: 64 bits for letters,
 * then 64 times 64 for pairs, 520 octets for two thousand names.
 */
const OWN_CLASS = "\nabcdefghijklmnopqrstuvwxyz0123456789-._*@:/ +=,()'&#%~!?;\"\\<>";
const CLASSES = 64;
const OTHERS = CLASSES - 1;
const BITS = CLASSES + CLASSES * CLASSES;

const classes = new Uint8Array(128).fill(OTHERS);
for (const [index, letter] of [...OWN_CLASS].entries()) classes[letter.charCodeAt(0)] = index;
const classAt = (text: string, at: number): number => classes[text.charCodeAt(at)] ?? OTHERS;
const pairOf = (first: number, second: number): number => CLASSES + first * CLASSES + second;

/** Numbered as PostgreSQL's get_bit does: from the lowest bit of the first octet. */
export function bigramsOf(texts: readonly string[]): Buffer {
  const letters = Buffer.alloc(BITS / 8);
  const mark = (bit: number): void => {
    letters[bit >> 3] = (letters[bit >> 3] ?? 0) | (1 << (bit & 7));
  };
  for (const text of texts) {
    let previous: number | undefined;
    for (let at = 0; at < text.length; at += 1) {
      const current = classAt(text, at);
      mark(current);
      if (previous !== undefined) mark(pairOf(previous, current));
      previous = current;
    }
  }
  return letters;
}

/** The bits that a text with this term in it has. */
export function bitsOf(term: string): number[] {
  if (term.length === 1) return [classAt(term, 0)];
  return Array.from({ length: term.length - 1 }, (_, at) => pairOf(classAt(term, at), classAt(term, at + 1)));
}
