/** What the operator can do in the caller's words: only the caller knows what its variables and options are called. */
export interface Advice {
  /** Where the data directory is the trouble: "point SHOP_DATA_DIR elsewhere". */
  readonly otherDirectory: string;
  /** The way out that always exists: "set DATABASE_URL to a PostgreSQL of your own". */
  readonly ownDatabase: string;
}

const PLAIN: Advice = {
  otherDirectory: "use another data directory",
  ownDatabase: "use a PostgreSQL of your own",
};

/** A cure in words, or one whose words are the caller's. */
type Cure = string | ((advice: Advice) => string);
export const otherDirectory: Cure = (advice) => advice.otherDirectory;
export const ownDatabase: Cure = (advice) => advice.ownDatabase;

function lineOf(what: string, cures: readonly Cure[], advice: Advice): string {
  const said = cures.map((cure) => (typeof cure === "string" ? cure : cure(advice)));
  const last = said.pop();
  const ways = said.length === 0 ? last : `${said.join(", ")}, or ${last}`;
  return (ways === undefined ? `${what}.` : `${what}: ${ways}.`).replaceAll(/\s*\n\s*/g, " ");
}

/** A start that cannot succeed, said in one line an operator can act on: what is wrong, where, and the cure. */
export class EmbeddedPostgresError extends Error {
  override readonly name = "EmbeddedPostgresError";
  readonly #what: string;
  readonly #cures: readonly Cure[];

  constructor(what: string, cures: readonly Cure[], cause?: unknown, advice: Advice = PLAIN) {
    super(lineOf(what, cures, advice), cause === undefined ? undefined : { cause });
    this.#what = what;
    this.#cures = cures;
  }

  /** The same refusal in the words of a caller that its operator knows. */
  inWordsOf(advice: Advice): EmbeddedPostgresError {
    return new EmbeddedPostgresError(this.#what, this.#cures, this.cause, advice);
  }
}

export const cannotStart = (
  what: string,
  cures: readonly Cure[] = [],
  cause?: unknown,
): EmbeddedPostgresError => new EmbeddedPostgresError(what, cures, cause);

/** The errno name ("EACCES") of a failed system call, or undefined for any other failure. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
