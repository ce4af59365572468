/**
 * Rights before work. Asked at the head of a request where the address says what it is about: then no byte of the body
 * is read for those who are refused. Where only the body says it, a large one is looked through for that name alone
 * before it is parsed. Where a thing has to be looked up first, its body is small, and whoever may not touch that thing
 * hears that and not what is wrong with the content.
 */
import type { FastifyRequest } from "fastify";
import { Problem } from "../problem.ts";
import { parseParams } from "./input.ts";
import { topLevelTexts } from "./peek.ts";
import {
  isNamedByPath,
  projectFieldsOf,
  refAmong,
  type RightsJudge,
  type Named,
  type Right,
} from "./rights.ts";
import type { Route } from "./serve.ts";

/** A body up to this long is parsed before anybody asks: that costs less than a look at it. */
export const SMALL_BODY = 64 * 1024;
/** Whoever takes longer than this to send a request is looked at again before it is carried out. */
export const FRESH_MS = 1000;

interface GuardedRoute {
  readonly right: Right;
  readonly isNamedByPath: boolean;
  readonly fields: readonly string[];
}

export interface RightsGateNeeds {
  readonly judge: RightsJudge;
  /** Throws if the actor of this header would not be let in any more. */
  readonly confirm: (
    actor: NonNullable<FastifyRequest["requestContext"]["actor"]>,
    header: string,
  ) => Promise<void>;
}

export type RightsGate = ReturnType<typeof createGate>;

const isShort = ({ headers }: FastifyRequest): boolean =>
  headers["content-length"] === undefined
    ? headers["transfer-encoding"] === undefined
    : Number(headers["content-length"]) <= SMALL_BODY;

/** An unknown project is not found after validation, as ever, where that costs nothing: nobody has a right there. */
const orUnknown = (judged: Promise<void>): Promise<void> =>
  judged.catch((error: unknown) => {
    if (!(error instanceof Problem) || error.status !== 404) throw error;
  });

const fieldsOf = (body: unknown): Readonly<Record<string, unknown>> =>
  typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};

export function createGate({ judge, confirm }: RightsGateNeeds) {
  const entries = new WeakMap<Route, GuardedRoute>();
  const entryOf = (route: Route): GuardedRoute | undefined => {
    const { right, endpoint } = route;
    if (!right) return undefined;
    let entry = entries.get(route);
    if (!entry) {
      const byPath = right.of === "project" && isNamedByPath(endpoint);
      const fields = right.of === "project" && !byPath ? projectFieldsOf(endpoint) : [];
      entries.set(route, (entry = { right, isNamedByPath: byPath, fields }));
    }
    return entry;
  };

  /** Asks as far as the address alone can tell; undefined if it cannot. */
  const atHead = (route: Route, request: FastifyRequest): Promise<void> | undefined => {
    const [entry, { actor }] = [entryOf(route), request.requestContext];
    if (!entry || !actor) return undefined;
    const { right } = entry;
    if (right.of === "organization" || right.of === "instance") return judge(actor, right, undefined);
    if (!entry.isNamedByPath) return undefined;
    const { projectId } = parseParams(route.endpoint, request.params) as { projectId: string };
    const judged = judge(actor, right, projectId);
    return isShort(request) ? orUnknown(judged) : judged;
  };

  const judgeNamed = (
    route: Route,
    request: FastifyRequest,
    values: (field: string) => unknown,
  ): Promise<void> | undefined => {
    const [entry, { actor }] = [entryOf(route), request.requestContext];
    if (!entry || !actor || entry.fields.length === 0) return undefined;
    const ref = refAmong(entry.fields.map(values));
    return ref === undefined ? undefined : judge(actor, entry.right, ref);
  };

  const judgeBody = (route: Route, request: FastifyRequest): Promise<void> | undefined => {
    const body = fieldsOf(request.body);
    const judged = judgeNamed(route, request, (field) => body[field]);
    return judged && orUnknown(judged);
  };

  const again = async (route: Route, request: FastifyRequest): Promise<void> => {
    const { requestContext, headers } = request;
    if (requestContext.actor) await confirm(requestContext.actor, headers.authorization ?? "");
    await atHead(route, request);
  };

  return {
    atHead,

    /** Before a large body is parsed. */
    atBody(request: FastifyRequest, body: Buffer): Promise<void> | undefined {
      const { route } = request.routeOptions.config;
      if (!route || body.length <= SMALL_BODY) return undefined;
      const fields = entryOf(route)?.fields ?? [];
      if (fields.length === 0) return undefined;
      const texts = topLevelTexts(body, fields);
      return judgeNamed(route, request, (field) => texts.get(field));
    },

    /** When everything has arrived and nothing of the body was looked at yet. */
    beforeUse(route: Route, request: FastifyRequest): Promise<void> | undefined {
      const isLate = performance.now() - request.requestContext.startedAt > FRESH_MS;
      return isLate ? again(route, request).then(() => judgeBody(route, request)) : judgeBody(route, request);
    },

    /** What to answer instead of "invalid": that the caller has no business there, if that is so. */
    async refusalOf(route: Route, request: FastifyRequest, error: unknown): Promise<unknown> {
      const [entry, { actor }] = [entryOf(route), request.requestContext];
      if (!(error instanceof Problem) || error.status !== 422 || !entry || !actor) return error;
      const { right } = entry;
      const find = right.of === "thing" ? right.find : right.of === "project" ? right.otherwise : undefined;
      const params = find && route.endpoint.params.safeParse(request.params);
      // An address that is not even one of a thing names nothing to ask about.
      if (!find || !params?.success) return error;
      try {
        const named = { params: params.data, body: fieldsOf(request.body) } as Named;
        await find(actor, named);
        return error;
      } catch (refusal) {
        // What is unknown, or somebody else's, tells nothing either way; what is wrong comes first then, as ever.
        return refusal instanceof Problem && refusal.status === 404 ? error : refusal;
      }
    },
  };
}
