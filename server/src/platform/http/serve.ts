import type { z } from "zod";
import type { Caller, Confirm, MemberActor } from "../actor.ts";
import type { Issue } from "../problem.ts";
import type { Endpoint } from "./endpoint.ts";
import type { Right } from "./rights.ts";
import type { EventStream, EventStreamNeeds } from "./sse.ts";

/** What an answer may say besides its body. */
export interface ReplyControl {
  status(code: number): void;
  header(name: string, value: string): void;
  /** Sends the headers of an event stream (SSE) at once and hands over its socket; the answer is then the stream itself. */
  stream(needs: EventStreamNeeds): EventStream;
}

interface Call<P, Q, B> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly caller: Caller;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly reply: ReplyControl;
}

/** Of a call with a token: who it is, and whether the token is still valid. */
interface Member {
  readonly actor: MemberActor;
  /** Throws if the caller would be refused now; called between the parts of long work. */
  readonly confirm: Confirm;
}

/** An answer that is not JSON of the contract: a file, a page, a 304. */
export class Raw {
  readonly body: Buffer | string | NodeJS.ReadableStream;

  constructor(body: Buffer | string | NodeJS.ReadableStream) {
    this.body = body;
  }
}

/** What a contract cannot say of a body. Asked of bodies as they came, so that one answer names all that is wrong. */
type FaultFinder = (body: unknown) => readonly Issue[];

export interface Route {
  readonly endpoint: Endpoint;
  /** The coarse right; every route that changes something declares it. */
  readonly right?: Right | undefined;
  readonly faultsOf?: FaultFinder | undefined;
  readonly answer: (
    call: Call<unknown, unknown, unknown> & {
      readonly actor: MemberActor | undefined;
      readonly confirm: Confirm;
    },
  ) => Promise<unknown>;
}

function requireToken(endpoint: Endpoint, right: Right | undefined): void {
  if (endpoint.access !== "token") throw new Error(`${endpoint.id} is public: use servePublic`);
  // A GET has no body to read first: its use case asks at once.
  if (endpoint.method !== "GET" && !right) throw new Error(`${endpoint.id} does not say who may use it`);
}

/** Pairs an endpoint with its answer; the types of both come from the contract. */
export function serve<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, R extends z.ZodType>(
  endpoint: Endpoint<P, Q, B, R>,
  answer: (call: Call<z.output<P>, z.output<Q>, z.output<B>> & Member) => Promise<z.input<R> | Raw>,
  right?: Right,
  faultsOf?: FaultFinder,
): Route {
  requireToken(endpoint as unknown as Endpoint, right);
  return { endpoint, answer: answer as Route["answer"], right, faultsOf };
}

export function servePublic<
  P extends z.ZodType,
  Q extends z.ZodType,
  B extends z.ZodType,
  R extends z.ZodType,
>(
  endpoint: Endpoint<P, Q, B, R>,
  answer: (call: Call<z.output<P>, z.output<Q>, z.output<B>>) => Promise<z.input<R> | Raw>,
): Route {
  if (endpoint.access !== "public") throw new Error(`${endpoint.id} needs a token: use serve`);
  return { endpoint, answer: answer as Route["answer"] };
}

/** For an endpoint whose answer is what it opens with `reply.stream`. */
export function serveStream<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType>(
  endpoint: Endpoint<P, Q, B>,
  answer: (call: Call<z.output<P>, z.output<Q>, z.output<B>> & Member) => Promise<void>,
  right?: Right,
  faultsOf?: FaultFinder,
): Route {
  requireToken(endpoint as unknown as Endpoint, right);
  return { endpoint, answer: answer as Route["answer"], right, faultsOf };
}
