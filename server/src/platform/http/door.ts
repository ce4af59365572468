/**
 * The HTTP entry point. A request gets an id, is rate-limited, authenticated, parsed by its endpoint's schemas,
 * answered by one line of a room's routes, and its reply is picked field by field. The order of checks is fixed
 * here: authentication, then the coarse right (gate.ts), then validation, then the room's own look-up, permission and
 * rules.
 */
import { isUtf8 } from "node:buffer";
import { createHash, timingSafeEqual } from "node:crypto";
import type { BlockList } from "node:net";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { Caller, Confirm, MemberActor } from "../actor.ts";
import { newRequestId } from "../ids.ts";
import type { Log } from "../log.ts";
import { badRequest, notFound, Problem, tooManyRequests } from "../problem.ts";
import type { Redacted } from "../redacted.ts";
import { clientAddress, networkOf } from "./client-address.ts";
import type { Endpoint } from "./endpoint.ts";
import { asProblem, toEnvelope } from "./envelope.ts";
import { createGate, FRESH_MS, type RightsGate, type RightsGateNeeds } from "./gate.ts";
import { parseInput, type Input } from "./input.ts";
import { createJsonParser, notText } from "./json-body.ts";
import { createLargeBodies, type LargeBodies } from "./large-bodies.ts";
import { letGo, longAnswer } from "./long-answers.ts";
import { readLongBody } from "./long-input.ts";
import { createReplyWriter } from "./long-replies.ts";
import { createUnread } from "./unread.ts";
import type { Metrics } from "./metrics.ts";
import type { RateLimits, RateVerdict } from "./rate-limits.ts";
import { Raw, type ReplyControl, type Route } from "./serve.ts";
import { EventStream } from "./sse.ts";
import { isLeaving, leaveUnread } from "./unread-body.ts";

/** Where a contract's fields can be larger, the endpoint says so. */
const MAX_BODY_BYTES = 256 * 1024;

const SECURITY_HEADERS = {
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
} as const;

interface DoorNeeds extends RightsGateNeeds {
  readonly routes: readonly Route[];
  /** The actor behind an Authorization header; throws the problem to answer. */
  readonly authenticate: (header: string | undefined, caller: Caller) => MemberActor | Promise<MemberActor>;
  readonly rateLimits: RateLimits;
  readonly metrics: Metrics;
  /** Called when an authenticated caller is refused. */
  readonly onRefused: (actor: MemberActor, endpoint: Endpoint, problem: Problem) => void;
  readonly trustedProxies: BlockList;
  readonly metricsToken: Redacted<string> | undefined;
  readonly log: Log;
}

interface RequestContext {
  caller: Caller;
  actor: MemberActor | undefined;
  bodyHasEscapes: boolean;
  /** Validated in chunks. */
  isBodyLong: boolean;
  /** Its duration says nothing about our response time. */
  isStream: boolean;
  startedAt: number;
}

declare module "fastify" {
  interface FastifyRequest {
    requestContext: RequestContext;
  }
  interface FastifyContextConfig {
    route?: Route;
  }
}

export function createDoor(needs: DoorNeeds): FastifyInstance {
  const app = Fastify({
    logger: false,
    bodyLimit: MAX_BODY_BYTES,
    requestIdHeader: false,
    genReqId: newRequestId,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 1024 },
    forceCloseConnections: "idle",
    return503OnClosing: false,
    requestTimeout: 60_000,
    keepAliveTimeout: 75_000,
    frameworkErrors: (error, request, reply) =>
      refuse(error, request as FastifyRequest, reply as FastifyReply),
    clientErrorHandler: (error, socket) => {
      // Not even HTTP: there is no request to answer in the usual way, but the envelope stays the same.
      const problem = new Problem(400, "BadRequest", "This is not a valid HTTP request.");
      const body = JSON.stringify(toEnvelope(newRequestId(), problem));
      if (socket.writable && (error as NodeJS.ErrnoException).code !== "ECONNRESET") {
        socket.end(
          `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
        );
      } else socket.destroy();
    },
  });

  const refuse = (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const problem = asProblem(error, needs.log, request.id);
    if (problem.retryAfterSeconds !== undefined)
      reply.header("retry-after", String(problem.retryAfterSeconds));
    leaveUnread(request.raw, reply.raw);
    const { actor } = request.requestContext ?? {};
    const { route } = request.routeOptions.config;
    if (problem.status === 403 && actor && route) needs.onRefused(actor, route.endpoint, problem);
    reply.code(problem.status).headers(SECURITY_HEADERS).header("x-request-id", request.id);
    reply.type("application/json").send(JSON.stringify(toEnvelope(request.id, problem)));
  };

  app.decorateRequest("requestContext");
  app.setErrorHandler(refuse);
  app.setNotFoundHandler((request, reply) => refuse(notFound("This address"), request, reply));
  const gate = createGate(needs);
  const large = createLargeBodies();
  addBodyParsers(app, gate, large);
  addHooks(app, needs, gate, large);
  for (const route of needs.routes) mount(app, route, gate, needs);
  mountMetrics(app, needs);
  return app;
}

function addBodyParsers(app: FastifyInstance, gate: RightsGate, large: LargeBodies): void {
  app.removeAllContentTypeParsers();
  const parse = createJsonParser(gate, large);
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body, done) => {
    let read: unknown;
    try {
      read = parse(request, body as Buffer);
    } catch (error) {
      return done(error as Error);
    }
    if (read instanceof Promise) read.then((value) => done(null, value), done);
    else done(null, read);
  });
  // Bytes as they came: protocols that are older than JSON (OCSP) have a content type of their own.
  app.addContentTypeParser("application/ocsp-request", { parseAs: "buffer" }, (_request, bytes, done) =>
    done(null, bytes),
  );
  app.addContentTypeParser(
    "application/x-www-form-urlencoded",
    { parseAs: "buffer" },
    (request, body, done) => {
      if (body.length > 0 && !request.routeOptions.config.route?.endpoint.acceptsForm) {
        return done(
          new Problem(
            415,
            "UnsupportedMediaType",
            "The body must be JSON: send the header content-type: application/json.",
          ),
        );
      }
      if (!isUtf8(body as Buffer)) return done(notText());
      request.requestContext.bodyHasEscapes = true;
      done(null, Object.fromEntries(new URLSearchParams(body.toString())));
    },
  );
}

function tell(reply: FastifyReply, verdict: RateVerdict, limit: string): void {
  reply.raw.setHeader("x-ratelimit-limit", verdict.limit);
  reply.raw.setHeader("x-ratelimit-remaining", verdict.remaining);
  reply.raw.setHeader("x-ratelimit-reset", verdict.resetSeconds);
  if (!verdict.allowed) throw tooManyRequests(verdict.resetSeconds, `${limit} is reached.`);
}

function countRequest(
  needs: DoorNeeds,
  { rate, rateCost }: Pick<Endpoint, "rate" | "rateCost">,
  key: string,
  reply: FastifyReply,
): void {
  const verdict = rateCost === 0 ? undefined : needs.rateLimits.count(rate, key, rateCost);
  if (verdict) tell(reply, verdict, "The limit of requests per minute");
}

/** The organisation's limit applies beside the caller's own: nobody multiplies a limit by creating identities. */
function countMember(needs: DoorNeeds, endpoint: Endpoint, actor: MemberActor, reply: FastifyReply): void {
  const { rate, rateCost } = endpoint;
  countRequest(needs, endpoint, actor.id, reply);
  if (rate === "login" || actor.orgId === null) return;
  const bucket = rate === "read" ? "orgRead" : "orgWrite";
  const verdict = needs.rateLimits.count(bucket, actor.orgId, rateCost);
  if (verdict && !verdict.allowed) tell(reply, verdict, "The organisation's limit of requests per minute");
}

function addHooks(app: FastifyInstance, needs: DoorNeeds, gate: RightsGate, large: LargeBodies): void {
  app.addHook("onRequest", async (request, reply) => {
    if (isLeaving(request.raw.socket)) {
      request.raw.socket.destroy();
      throw badRequest("This connection was closed.");
    }
    const ip = clientAddress(
      request.raw.socket.remoteAddress,
      request.headers["x-forwarded-for"],
      needs.trustedProxies,
    );
    const userAgent = (request.headers["user-agent"] ?? "").slice(0, 512);
    const { socket } = request.raw;
    const caller = { requestId: request.id, ip, userAgent, isGone: () => socket.destroyed };
    request.requestContext = {
      caller,
      actor: undefined,
      bodyHasEscapes: false,
      isBodyLong: false,
      isStream: false,
      startedAt: performance.now(),
    };
    reply.headers(SECURITY_HEADERS).header("x-request-id", request.id);
    const { route } = request.routeOptions.config;
    if (!route) return;
    const { endpoint } = route;
    if (endpoint.access === "public") return countRequest(needs, endpoint, networkOf(ip), reply);
    try {
      request.requestContext.actor = await needs.authenticate(request.headers.authorization, caller);
    } catch (error) {
      // Guessing tokens is limited by address, because there is no caller yet, and apart from logins: a fleet whose
      // tokens have all ended must still be able to log in again.
      if (error instanceof Problem && error.status < 500) {
        countRequest(needs, { rate: "login", rateCost: 1 }, `token:${networkOf(ip)}`, reply);
      }
      throw error;
    }
    countMember(needs, endpoint, request.requestContext.actor, reply);
    const judged = gate.atHead(route, request);
    if (judged) await judged;
    large.admit(request, reply.raw);
  });

  app.addHook("onResponse", (request, reply, done) => {
    const route = request.routeOptions.url ?? "unknown";
    const milliseconds = performance.now() - (request.requestContext?.startedAt ?? performance.now());
    if (!request.requestContext?.isStream)
      needs.metrics.observe(route, request.method, reply.statusCode, milliseconds / 1000);
    needs.log.info(
      {
        reqId: request.id,
        method: request.method,
        route,
        status: reply.statusCode,
        ms: Math.round(milliseconds * 10) / 10,
        ip: request.requestContext?.caller.ip,
        actor: request.requestContext?.actor?.id,
      },
      "request",
    );
    done();
  });
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/**
 * Not part of the contract: for the operator's own Prometheus. Only with a token: the address of a request says
 * nothing behind a proxy on the same machine, which may not announce itself.
 */
function mountMetrics(app: FastifyInstance, { metrics, metricsToken }: DoorNeeds): void {
  app.get("/metrics", async (request, reply) => {
    const given = digest(request.headers.authorization ?? "");
    if (!metricsToken || !timingSafeEqual(given, digest(`Bearer ${metricsToken.open()}`)))
      throw notFound("This address");
    reply.type(metrics.registry.contentType);
    return metrics.registry.metrics();
  });
}

const toRouterPath = (path: string): string => path.replace(/\{(\w+)\}/g, ":$1");

const controlOf = (request: FastifyRequest, reply: FastifyReply): ReplyControl => ({
  status: (code) => void reply.code(code),
  header: (name, value) => void reply.header(name, value),
  stream(needs) {
    request.requestContext.isStream = true;
    reply.hijack();
    return new EventStream(request.raw, reply.getHeaders(), needs);
  },
});

/** Validates the input, synchronously unless it is long. */
function inputOf(route: Route, request: FastifyRequest): Input | Promise<Input> {
  const { params, query, body } = request;
  const { bodyHasEscapes, isBodyLong } = request.requestContext;
  const raw = { params, query, body };
  if (!isBodyLong) return parseInput(route, raw, bodyHasEscapes);
  return readLongBody(route.endpoint.body, body, bodyHasEscapes).then((read) =>
    parseInput(route, raw, bodyHasEscapes, read),
  );
}

/** Of the whole process: what it guards is the process's memory. */
const unread = createUnread();

function mount(app: FastifyInstance, route: Route, gate: RightsGate, needs: RightsGateNeeds): void {
  const { endpoint, answer } = route;
  const write = createReplyWriter(endpoint.reply);
  const bodyOf = ({ body }: Raw, requestContext: RequestContext, reply: FastifyReply, confirm: Confirm) =>
    typeof body === "string" || Buffer.isBuffer(body) || !requestContext.actor
      ? body
      : longAnswer(body, reply.raw, { confirm });
  const handler = async (request: FastifyRequest, reply: FastifyReply) => {
    const { requestContext } = request;
    const judged = gate.beforeUse(route, request);
    if (judged) await judged;
    let input: Input;
    try {
      const read = inputOf(route, request);
      input = read instanceof Promise ? await read : read;
    } catch (error) {
      throw await gate.refusalOf(route, request, error);
    }
    const confirm: Confirm = async () => {
      if (requestContext.actor)
        await needs.confirm(requestContext.actor, request.headers.authorization ?? "");
    };
    const value = await answer({
      ...input,
      actor: requestContext.actor,
      confirm,
      caller: requestContext.caller,
      headers: request.headers,
      reply: controlOf(request, reply),
    });
    if (requestContext.isStream) return reply;
    try {
      // Whatever it waited for (a turn, a key): a caller who lost access meanwhile gets no answer.
      if (endpoint.method !== "DELETE" && performance.now() - requestContext.startedAt > FRESH_MS)
        await confirm();
      if (value instanceof Raw) return reply.send(bodyOf(value, requestContext, reply, confirm));
    } catch (error) {
      if (value instanceof Raw) letGo(value.body);
      throw error;
    }
    reply.type("application/json");
    const text = write(value);
    if (typeof text === "string") return reply.send(text);
    const whole = await text;
    unread.hold(requestContext.actor?.orgId ?? requestContext.caller.ip, whole.length, reply.raw);
    return reply.send(whole);
  };
  for (const path of [endpoint.path, ...endpoint.aliases]) {
    app.route({
      method: endpoint.method,
      url: toRouterPath(path),
      config: { route },
      ...(endpoint.maxBodyBytes === undefined ? {} : { bodyLimit: endpoint.maxBodyBytes }),
      handler,
    });
  }
}
