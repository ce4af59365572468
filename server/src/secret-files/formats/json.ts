import { clip } from "../../platform/text.ts";
import { hasMoreParts } from "../../platform/json-parts.ts";
import {
  FormatError,
  MAX_VALUE_LETTERS,
  readAll,
  valueTooLong,
  type FileEntries,
  type EntryReading,
  type Writing,
} from "./entries.ts";

/** Written entry by entry: an object would reorder numbers and trip over `__proto__`. */
export function* jsonLines(entries: FileEntries): Writing {
  let before = "{\n";
  for (const [key, value] of entries) {
    yield `${before}  ${JSON.stringify(key)}: ${JSON.stringify(value)}`;
    before = ",\n";
  }
  yield entries.size === 0 ? "{}\n" : "\n}\n";
}
export const writeJson = (entries: FileEntries): string => [...jsonLines(entries)].join("");

function asText(key: string, value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  throw new FormatError(`The value of ${JSON.stringify(clip(key))} must be a string.`);
}

/** More than any accepted file has; a million names would block the event loop before the first is checked. */
const MOST_PARTS = 20_000;

/** One flat object of names and strings. */
export function* jsonEntries(text: string): EntryReading {
  if (hasMoreParts(text, MOST_PARTS))
    throw new FormatError(`The file holds more than ${MOST_PARTS / 2} values: split it.`);
  yield undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new FormatError("This is not valid JSON.");
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed))
    throw new FormatError("The file must be one object of names and values.");
  yield undefined;
  for (const [key, value] of Object.entries(parsed)) {
    const own = asText(key, value);
    if (own.length > MAX_VALUE_LETTERS) throw new FormatError(valueTooLong());
    yield [key, own];
  }
}

export const readJson = (text: string): FileEntries => readAll(jsonEntries(text));
