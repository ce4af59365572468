import { FormatError, type Entries } from "./entries.ts";

/** Written entry by entry: an object would reorder numbers and trip over `__proto__`. */
export function writeJson(entries: Entries): string {
  const lines = [...entries].map(([key, value]) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)}`);
  return lines.length === 0 ? "{}\n" : `{\n${lines.join(",\n")}\n}\n`;
}

function asText(key: string, value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  throw new FormatError(`The value of ${JSON.stringify(key)} must be a string.`);
}

/** One flat object of names and strings. */
export function readJson(text: string): Entries {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new FormatError("This is not valid JSON.");
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed))
    throw new FormatError("The file must be one object of names and values.");
  return new Map(Object.entries(parsed).map(([key, value]) => [key, asText(key, value)]));
}
