/**
 * Authorisation before work. The coarse right is checked first where the URL says what it is about: then no byte of the body
 * is read for a refused caller. Where only the body says it, a large one is scanned for that name alone
 * before it is parsed. Where an object has to be looked up first, its body is small, and a caller without rights to it
 * gets that refusal and not the errors of the content.
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

/** A body up to this long is parsed before the check: that costs less than scanning it. */
export const SMALL_BODY = 64 * 1024;
/** If sending a request takes longer than this, its caller is checked again before it is carried out. */
export const FRESH_MS = 1000;

interface GuardedRoute {
  readonly right: Right;
  readonly isNamedByPath: boolean;
  readonly fields: readonly string[];
}

export interface RightsGateNeeds {
  readonly judge: RightsJudge;
  /** Throws if the token of this header is no longer valid. */
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

/** An unknown project is a 404 after validation, as usual, where that costs nothing: nobody has a right there. */
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

  /** Checks as far as the URL alone allows; undefined if it does not. */
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

    /** When the whole body has arrived and nothing of it was parsed yet. */
    beforeUse(route: Route, request: FastifyRequest): Promise<void> | undefined {
      const isLate = performance.now() - request.requestContext.startedAt > FRESH_MS;
      return isLate ? again(route, request).then(() => judgeBody(route, request)) : judgeBody(route, request);
    },

    /** What to answer instead of "invalid": a refusal, if the caller has no rights there. */
    async refusalOf(route: Route, request: FastifyRequest, error: unknown): Promise<unknown> {
      const [entry, { actor }] = [entryOf(route), request.requestContext];
      if (!(error instanceof Problem) || error.status !== 422 || !entry || !actor) return error;
      const { right } = entry;
      const find = right.of === "thing" ? right.find : right.of === "project" ? right.otherwise : undefined;
      const params = find && route.endpoint.params.safeParse(request.params);
      // A URL without a valid id names nothing to check.
      if (!find || !params?.success) return error;
      try {
        const named = { params: params.data, body: fieldsOf(request.body) } as Named;
        await find(actor, named);
        return error;
      } catch (refusal) {
        // Unknown ids and those of other tenants decide nothing here; then the validation error is answered, as usual.
        return refusal instanceof Problem && refusal.status === 404 ? error : refusal;
      }
    },
  };
}
