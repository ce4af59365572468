/** A start that cannot succeed, said in one line an operator can act on: what is wrong, where, and the cure. */
export class EmbeddedPostgresError extends Error {
  override readonly name = "EmbeddedPostgresError";
}

/** The way out that always exists, so that every refusal ends with the same words. */
export const OWN_DATABASE = "set DATABASE_URL to a PostgreSQL of your own";

export const cannotStart = (sentence: string, cause?: unknown): EmbeddedPostgresError =>
  new EmbeddedPostgresError(
    sentence.replaceAll(/\s*\n\s*/g, " "),
    cause === undefined ? undefined : { cause },
  );

/** The errno name ("EACCES") of a failed system call, or undefined for any other failure. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
