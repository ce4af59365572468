/**
 * A Problem is an expected error: its HTTP status, a stable name that clients may switch on, and a
 * sentence for the person who made the request. Anything else that is thrown is a bug and becomes a 500.
 */
export interface Issue {
  readonly code: string;
  readonly path: readonly (string | number)[];
  readonly message: string;
}

export class Problem extends Error {
  override readonly name = "Problem";
  readonly status: number;
  /** The `error` word of the envelope. */
  readonly error: string;
  readonly details: unknown;
  readonly issues: readonly Issue[] | undefined;
  readonly retryAfterSeconds: number | undefined;
  /** Where it was refused, for the project's audit log; never shown to the caller. */
  readonly projectId: string | undefined;

  constructor(
    status: number,
    error: string,
    message: string,
    more: {
      details?: unknown;
      issues?: readonly Issue[] | undefined;
      retryAfterSeconds?: number | undefined;
      projectId?: string | undefined;
      cause?: unknown;
    } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.status = status;
    this.error = error;
    this.details = more.details;
    this.issues = more.issues;
    this.retryAfterSeconds = more.retryAfterSeconds;
    this.projectId = more.projectId;
  }
}

export const badRequest = (message: string, details?: unknown): Problem =>
  new Problem(400, "BadRequest", message, { details });
export const licenceRequired = (feature: string): Problem =>
  new Problem(
    400,
    "LicenseRequired",
    `The feature ${feature} is not available on your current plan. Ask the owner of this instance for a licence that includes it.`,
  );
export const unauthorized = (message: string): Problem => new Problem(401, "UnauthorizedError", message);
export const tokenRejected = (message: string): Problem => new Problem(401, "TokenError", message);
export const permissionDenied = (
  message: string,
  considered: readonly unknown[],
  projectId?: string,
): Problem => new Problem(403, "PermissionDenied", message, { details: considered, projectId });
export const permissionBoundary = (
  message: string,
  missingPermissions: readonly unknown[],
  projectId?: string,
): Problem =>
  new Problem(403, "PermissionBoundaryError", message, { details: { missingPermissions }, projectId });
export const addressForbidden = (message: string): Problem => new Problem(403, "ForbiddenError", message);
/** One sentence for "unknown" and "someone else's", so that existence never leaks. */
export const notFound = (what: string, id?: string): Problem =>
  new Problem(
    404,
    "NotFound",
    id === undefined ? `${what} was not found.` : `${what} ${quote(id)} was not found.`,
  );
export const conflict = (message: string): Problem => new Problem(409, "Conflict", message);
export const invalid = (issues: readonly Issue[]): Problem =>
  new Problem(422, "ValidationFailure", issues.map((issue) => issue.message).join("; "), { issues });
export const invalidField = (path: readonly (string | number)[], message: string): Problem =>
  invalid([{ code: "custom", path, message }]);
export const tooManyRequests = (seconds: number, what: string): Problem =>
  new Problem(429, "RateLimitExceeded", `${what} Try again in ${seconds} seconds.`, {
    retryAfterSeconds: seconds,
  });
export const unavailable = (cause?: unknown): Problem =>
  new Problem(503, "ServiceUnavailable", "The database cannot be reached at the moment.", {
    retryAfterSeconds: 2,
    cause,
  });

/** The same refusal with one sentence more: what had been done before it came to that. */
export const stoppedAfter = (problem: Problem, done: string): Problem =>
  new Problem(problem.status, problem.error, `${problem.message} ${done}`, problem);

// Ids in messages come from the caller: bounded, and without characters that could forge a log line.
function quote(text: string): string {
  const clean = text.replace(/[^\x20-\x7e]/g, "?");
  return `"${clean.length > 80 ? `${clean.slice(0, 80)}…` : clean}"`;
}
