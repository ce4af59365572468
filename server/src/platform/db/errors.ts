import { Problem, unavailable } from "../problem.ts";

/** What PostgreSQL and its client say when the database is unreachable, full, or read-only at the moment. */
const AWAY_CODES = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "ENETUNREACH",
  "ENETDOWN",
  "EHOSTDOWN",
  "ENOENT",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "57P01",
  "57P02",
  "57P03",
  "57P04",
  "57P05", // shut down, crashed, starting up, dropped, idle session ended
  "53000",
  "53100",
  "53200",
  "53300",
  "53400", // out of resources, disk, memory, connections
  "3D000", // not there (yet): it is being restored
  "25P03", // a transaction of a node that slept (paused, swapped out, a clock that jumped) was ended
  "25006", // read-only: a standby, or a disk that filled up
  "58030", // I/O error
]);
/** It is there and refuses the connection: a changed password (class 28), an expired certificate. */
const CLOSED_CODES = /^28...$|CERT|^ERR_(SSL|TLS)_|^UNABLE_TO_|^HOSTNAME_MISMATCH$|^INVALID_(CA|PURPOSE)$/;
const AWAY_WORDS =
  /SSL connection|^SASL:|connection terminated|timeout expired|timeout exceeded when trying to connect|connection ended|client has encountered a connection error|not queryable|query read timeout|after calling end on the pool/i;

interface DatabaseError {
  readonly code?: string;
  readonly constraint?: string;
  readonly message?: string;
}

const look = (error: unknown): DatabaseError => (typeof error === "object" && error !== null ? error : {});

export function isAway(error: unknown): boolean {
  if (error instanceof Problem) return false;
  const { code, message } = look(error);
  if (code !== undefined) return AWAY_CODES.has(code) || code.startsWith("08") || CLOSED_CODES.test(code);
  return AWAY_WORDS.test(message ?? "");
}

/** Two transactions conflicted (serialisation failure, deadlock); a retry will succeed. */
export const isRetryable = (error: unknown): boolean => ["40001", "40P01"].includes(look(error).code ?? "");

export const isUniqueViolation = (error: unknown, constraint?: string): boolean =>
  look(error).code === "23505" && (constraint === undefined || look(error).constraint === constraint);

export const isForeignKeyViolation = (error: unknown, constraint?: string): boolean =>
  look(error).code === "23503" && (constraint === undefined || look(error).constraint === constraint);

/**
 * It timed out: a lock that another holds, or a statement that took too long. Or one that
 * conflicted each time it was tried; on a standby that may be what comes from its primary.
 */
const isBusy = (error: unknown): boolean =>
  ["55P03", "57014"].includes(look(error).code ?? "") || isRetryable(error);

const isPostgres = ({ code = "" }: DatabaseError): boolean => code.length === 5 && /\d/.test(code);

/** Whatever it said, the server said it. Also of what was translated. */
export const hasAnswered = (error: unknown): boolean =>
  isPostgres(look(error instanceof Problem ? error.cause : error));

/** Of a commit that failed with it: it may have been made. A server that is stopped in the middle of it says so, too. */
export const isUncertain = (error: unknown): boolean =>
  !hasAnswered(error) || (look(error).code ?? "").startsWith("57P0");

/**
 * It does not show whether the database could do it: it failed while it waited for a lock, for a connection,
 * or for any answer at all. Any other error with a PostgreSQL code is an answer.
 */
export function isUnanswered(error: unknown): boolean {
  const { code = "" } = look(error);
  return isPostgres(look(error)) ? ["55P03", "57014", "53300"].includes(code) : isAway(error);
}

/** The database takes no further connection from us. */
export const isFull = (error: unknown): boolean => look(error).code === "53300";

/**
 * Too many connections, or starting up, shutting down, recovering, or a standby that is about to be the primary, or a
 * lock that somebody holds: it will be there. Also of what was translated.
 */
export function isWorthWaitingFor(error: unknown): boolean {
  const { code = "", message = "" } = look(error instanceof Problem ? error.cause : error);
  // An administrator ended it on purpose; a retry would have to be ended again.
  if (code === "57014" && message.includes("user request")) return false;
  return ["53300", "25006", "55P03", "57014"].includes(code) || code.startsWith("57P0");
}

export function translate(error: unknown): unknown {
  if (error instanceof Problem) return error;
  if (isAway(error)) return unavailable(error);
  if (!isBusy(error)) return error;
  const message = "The database is too busy at the moment.";
  return new Problem(503, "ServiceUnavailable", message, { retryAfterSeconds: 2, cause: error });
}
