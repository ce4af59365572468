/** Names and values in the order in which they stand in a file. */
export type Entries = ReadonlyMap<string, string>;

/** What is wrong with a file, in words for the person who sent it. Never quotes a value. */
export class FormatError extends Error {
  override readonly name = "FormatError";
}
