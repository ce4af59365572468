/** Which right an event needs, what a subscription asks for, and the messages with which a stream is refused or ended. */
import { compileGlob, MAX_GLOB_LENGTH, type Glob } from "../platform/glob.ts";
import { invalid, Problem, tooManyRequests, type Issue } from "../platform/problem.ts";
import { EVENT_TYPES, type EventFilter, type SecretEventType } from "./contract.ts";

export const SUBJECT = "secret-events";
export const FEATURE = "eventSubscriptions";

export const ACTION_OF: Readonly<Record<SecretEventType, string>> = {
  "secret:create": "create",
  "secret:update": "update",
  "secret:delete": "delete",
  "secret:import-mutation": "read",
};

/** Something that happened to a folder, as the outbox delivered it. */
export interface SecretEvent {
  readonly type: SecretEventType;
  readonly projectId: string;
  readonly environment: string;
  readonly path: string;
  /** Null for an import mutation, which is about the folder as a whole. */
  readonly keys: readonly string[] | null;
  readonly xid: number;
}

const EVENT_BYTES = 256;
const KEY_BYTES = 32;

/** About how much memory an event takes while it waits. */
export const weightOf = ({ keys }: Pick<SecretEvent, "keys">): number =>
  (keys ?? []).reduce((sum, key) => sum + KEY_BYTES + key.length, EVENT_BYTES);

export interface EventGlobFilter {
  readonly event: SecretEventType;
  /** Null: any. */
  readonly environment: string | null;
  readonly glob: Glob | null;
}

/**
 * A path is matched in time that grows with its length and with the places at which the glob leaves a choice. One
 * subscription may leave so many that the longest path costs an event a few milliseconds; all that one actor has
 * open in a project, four times that. Globs that are exact or end in their only wildcard are looked up, not matched.
 */
export const MAX_CHOICES = 512;
export const MAX_CHOICES_OF_ACTOR = 4 * MAX_CHOICES;

/** A `/**` at the end matches everything and leaves no choice; but each match costs something. */
export const choicesOf = ({ glob }: Pick<EventGlobFilter, "glob">): number => {
  if (glob?.shape.kind !== "general") return 0;
  const beforeTheEnd = glob.pattern.replace(/\/\*\*\/?$/, "");
  return Math.max(1, beforeTheEnd.match(/\*+|,/g)?.length ?? 0);
};

const EVERYTHING: readonly EventGlobFilter[] = EVENT_TYPES.map((event) => ({
  event,
  environment: null,
  glob: null,
}));

const MOST_ENTRIES = 100;

/** What is wrong with the globs of a body that may have other errors, too. */
export function globFaults(body: unknown): Issue[] {
  const { register } = (body ?? {}) as { readonly register?: unknown };
  if (!Array.isArray(register)) return [];
  return register.slice(0, MOST_ENTRIES).flatMap((entry: unknown, index) => {
    const { conditions } = (entry ?? {}) as { readonly conditions?: unknown };
    const { secretPath } = (conditions ?? {}) as { readonly secretPath?: unknown };
    // The contract refuses those that are too long.
    if (typeof secretPath !== "string" || secretPath.length > MAX_GLOB_LENGTH) return [];
    const compiled = compileGlob(secretPath, "path");
    return compiled.ok ? [] : [globFault(index, compiled.reason)];
  });
}

const globFault = (index: number, message: string): Issue => ({
  code: "custom",
  path: ["register", index, "conditions", "secretPath"],
  message,
});

/** All of them are checked before any is refused. */
export function readRegister(
  register: readonly EventFilter[] | null | undefined,
): readonly EventGlobFilter[] {
  if (!register || register.length === 0) return EVERYTHING;
  const issues: Issue[] = [];
  const filters = register.map(({ event, conditions }, index): EventGlobFilter => {
    const pattern = conditions?.secretPath ?? null;
    const environment = conditions?.environmentSlug ?? null;
    const compiled = pattern === null ? undefined : compileGlob(pattern, "path");
    if (compiled?.ok === false) issues.push(globFault(index, compiled.reason));
    return { event, environment, glob: compiled?.ok ? compiled.glob : null };
  });
  if (filters.reduce((sum, filter) => sum + choicesOf(filter), 0) > MAX_CHOICES)
    issues.push({
      code: "custom",
      path: ["register"],
      message: `may have at most ${MAX_CHOICES} wildcards and alternatives in all its globs together`,
    });
  if (issues.length > 0) throw invalid(issues);
  return filters;
}

/**
 * What was committed when a stream was opened. The transactions that were running then are after it, even if their
 * ids are smaller.
 */
export interface Since {
  readonly xmax: number;
  readonly running: ReadonlySet<number>;
}

const NONE: ReadonlySet<number> = new Set();

/** Transaction ids of one server say nothing about those of another: from here on, every event is after it. */
export const EVER: Since = { xmax: 0, running: NONE };

/** From PostgreSQL's own text: `xmin:xmax:running,running`. */
export function readSnapshot(text: string): Since {
  const [, xmax = "", running = ""] = text.split(":");
  return { xmax: Number(xmax), running: running === "" ? NONE : new Set(running.split(",").map(Number)) };
}

export const isAfter = ({ xid }: SecretEvent, since: Since): boolean =>
  xid >= since.xmax || since.running.has(xid);

const RETRY_SECONDS = 30;
export const tooManyStreams = (of: "project" | "identity", limit: number): Problem =>
  tooManyRequests(
    RETRY_SECONDS,
    of === "project"
      ? `This project has ${limit} open event streams, which is the limit.`
      : `You have ${limit} open event streams, which is the limit.`,
  );
export const tooManyGlobs = (): Problem =>
  tooManyRequests(
    RETRY_SECONDS,
    `Your open event streams have more than ${MAX_CHOICES_OF_ACTOR} wildcards and alternatives in different globs, which is the limit.`,
  );
export const nodeStopping = (): Problem =>
  new Problem(503, "ServiceUnavailable", "This server is stopping. Another one may answer.", {
    retryAfterSeconds: 2,
  });

export const nodeBehind = (): Problem =>
  new Problem(
    503,
    "ServiceUnavailable",
    "This server does not hear of any events at the moment. Another one may answer.",
    { retryAfterSeconds: 5 },
  );

/** Why a stream ends, as its reader sees it. */
export const END = {
  tokenExpired: "The access token has expired.",
  tokenRevoked: "The access token was revoked, or its identity is gone.",
  rightsGone: "You are no longer allowed to hear of these events.",
  rightsUnknown: "Your rights cannot be checked at the moment. Subscribe again.",
  licenceGone: "The feature eventSubscriptions is not available on your current plan.",
  projectGone: "The project was deleted.",
  tooSlow: "You read too slowly; events would have been lost. Subscribe again.",
  eventsLost: "This server lost sight of the events for a while. Subscribe again.",
  stopping: "This server is stopping. Subscribe again.",
} as const;
