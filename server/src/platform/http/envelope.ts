/** One error envelope for every route: `{reqId, statusCode, error, message, details?}` and no other key. */
import { z } from "zod";
import { reasonOf, type Log } from "../log.ts";
import { Problem, type Issue } from "../problem.ts";
import { clip } from "../text.ts";

interface Envelope {
  readonly reqId: string;
  readonly statusCode: number;
  readonly error: string;
  readonly message: unknown;
  readonly details?: unknown;
}

export const envelopeSchema = z.object({
  reqId: z.string(),
  statusCode: z.number(),
  error: z.string(),
  message: z.union([
    z.string(),
    z.array(
      z.object({ code: z.string(), path: z.array(z.union([z.string(), z.number()])), message: z.string() }),
    ),
  ]),
  details: z.unknown().optional(),
});

const MOST = { message: 2000, issue: 300, part: 100 } as const;

/** What a message quotes came from the caller, of any length, and is not sent back whole. */
const bounded = ({ code, path, message }: Issue): Issue => ({
  code,
  path: path.map((part) => (typeof part === "string" ? clip(part, MOST.part) : part)),
  message: clip(message, MOST.issue),
});

export function toEnvelope(reqId: string, problem: Problem): Envelope {
  const base = {
    reqId,
    statusCode: problem.status,
    error: problem.error,
    message: problem.issues?.map(bounded) ?? clip(problem.message, MOST.message),
  };
  const mayHaveDetails = problem.status === 400 || problem.status === 403;
  return mayHaveDetails && problem.details !== undefined ? { ...base, details: problem.details } : base;
}

/** The framework's own errors, in our envelope. */
const FRAMEWORK: Record<string, () => Problem> = {
  FST_ERR_CTP_BODY_TOO_LARGE: () =>
    new Problem(413, "PayloadTooLarge", "The request body is larger than this endpoint takes."),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new Problem(
      415,
      "UnsupportedMediaType",
      "The body must be JSON: send the header content-type: application/json.",
    ),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    new Problem(400, "BadRequest", "The body's size differs from its content-length."),
  FST_ERR_BAD_URL: () => new Problem(400, "BadRequest", "The address is not a valid URL path."),
  FST_ERR_MAX_PARAM_LENGTH: () => new Problem(404, "NotFound", "This address does not exist."),
};

export function issuesOf(error: z.ZodError): Issue[] {
  // A body can break a rule a hundred thousand times; the first fifty say enough.
  return error.issues.slice(0, 50).map((issue) => ({
    code: issue.code ?? "custom",
    path: issue.path.map((part) =>
      typeof part === "symbol" ? String(part) : typeof part === "string" ? clip(part, MOST.part) : part,
    ),
    message: clip(issue.message, MOST.issue),
  }));
}

export function asProblem(error: unknown, log: Log, reqId: string): Problem {
  if (error instanceof Problem) {
    // The caller is told to retry; the reason is for the operator.
    if (error.status === 503 && error.cause instanceof Error)
      log.warn({ reqId, reason: reasonOf(error) }, "a request was put off");
    return error;
  }
  const { code, statusCode } = (typeof error === "object" && error !== null ? error : {}) as {
    code?: string;
    statusCode?: number;
  };
  const known = code === undefined ? undefined : FRAMEWORK[code];
  if (known) return known();
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return new Problem(400, "BadRequest", "The request cannot be understood.");
  // A bug. Its text may hold a value, so only the log gets it, never the answer.
  log.error(
    {
      reqId,
      reason: error instanceof Error ? error.message : "thrown value",
      stack: error instanceof Error ? error.stack : undefined,
    },
    "a request failed on a bug",
  );
  return new Problem(
    500,
    "InternalServerError",
    "Something went wrong on our side. Quote the request id to the operator of this server.",
  );
}
