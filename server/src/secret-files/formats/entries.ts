/**
 * Names and values in the order in which they stand in a file. Files are large and come from anybody, so they are read
 * entry by entry: the caller can stop at the first one too many, and yield in between.
 */
import { Pace } from "../../platform/pace.ts";

export type FileEntries = ReadonlyMap<string, string>;
type FileEntry = readonly [key: string, value: string];
/** Undefined where nothing was found for a while: the caller may yield. */
export type EntryReading = Generator<FileEntry | undefined, void>;

/** From a thread of its own. */
export type EntriesToCome = AsyncGenerator<FileEntry | undefined, void>;

/**
 * A comment begins with # at the beginning or behind a space: a password may contain one. Not with an expression that
 * runs to the end of the line from each of them: a line of nothing but ` #` took minutes.
 */
export function withoutComment(line: string): string {
  const comment = /(?:^|\s)#/.exec(line);
  return comment ? line.slice(0, comment.index) : line;
}
/** A file, a line or so at a time. */
export type Writing = Generator<string, void>;

/** What is wrong with a file, for the person who sent it. Never quotes a value. */
export class FormatError extends Error {
  override readonly name = "FormatError";
}

/** No value may be longer: what is read letter by letter must end somewhere. */
export const MAX_VALUE_LETTERS = 1024 * 1024;
export const valueTooLong = (): string => `a value is longer than ${MAX_VALUE_LETTERS} characters`;

/** More than any file that is taken has; a million would be a burden before the first is looked at. */
export const MOST_VALUES = 10_000;
export const tooManyValues = (): FormatError =>
  new FormatError(`The file holds more than ${MOST_VALUES} values: split it.`);

/** Everything at once; for files that are known to be small. */
export const readAll = (reading: EntryReading): FileEntries =>
  new Map([...reading].filter((entry) => entry !== undefined));

/** In chunks, and no further than one entry beyond the most that anybody wants. */
export async function readInChunks(
  reading: EntryReading | EntriesToCome,
  most: number,
): Promise<FileEntries> {
  const entries = new Map<string, string>();
  const pace = new Pace();
  for await (const entry of reading) {
    if (entry) entries.set(...(entry as [string, string]));
    if (entries.size > most)
      throw new FormatError(
        `the file holds more than ${most} secrets, which is the most that can be imported at once: split it`,
      );
    await pace.giveWay();
  }
  return entries;
}
