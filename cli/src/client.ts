/** Calls the endpoints of the contract: one definition says how to ask and what comes back. */
import type { Endpoint } from "@keyward/server";
import { Failure } from "./failure.ts";
import { plain } from "./printing.ts";
import type { ServerTarget } from "./session.ts";

type Input<Schema> = Schema extends { readonly _zod: { readonly input: infer Value } } ? Value : never;
type Output<Schema> = Schema extends { readonly _zod: { readonly output: infer Value } } ? Value : never;
/** Moments are text on the wire. */
type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? Wire<Item>[]
    : T extends object
      ? { [Key in keyof T]: Wire<T[Key]> }
      : T;
export type Reply<E extends Endpoint> = Wire<Output<E["reply"]>>;

interface Asked<E extends Endpoint> {
  readonly params?: Input<E["params"]>;
  readonly query?: Record<string, string>;
  readonly body?: Input<E["body"]>;
}

export interface Client {
  readonly target: ServerTarget;
  call<E extends Endpoint>(endpoint: E, asked?: Asked<E>): Promise<Reply<E>>;
  /** What is not JSON and may be long, line by line as it comes. */
  lines<E extends Endpoint>(endpoint: E, asked?: Asked<E>): AsyncGenerator<string>;
}

export const USER_AGENT = "keyward-cli/0.1.0";
const TIMEOUT_MS = 30_000;

interface Envelope {
  readonly reqId?: unknown;
  readonly message?: unknown;
}

/** The server's own words, and the id by which its operator finds the request in the log. */
function refusal(status: number, text: string): Failure {
  let envelope: Envelope = {};
  try {
    envelope = (JSON.parse(text) ?? {}) as Envelope;
  } catch {
    // Not ours: a proxy's page, most likely.
  }
  const said = Array.isArray(envelope.message)
    ? envelope.message.map(issueText)
    : [
        typeof envelope.message === "string"
          ? envelope.message
          : `The server answered with status ${status}.`,
      ];
  if (typeof envelope.reqId === "string") said.push(`(status ${status}, request ${envelope.reqId})`);
  return new Failure(said.map(plain).join("\n"));
}

function issueText({ path, message }: { readonly path?: unknown; readonly message?: unknown }): string {
  const place = Array.isArray(path) && path.length > 0 ? `${path.join(".")}: ` : "";
  return `${place}${String(message)}`;
}

function addressOf(url: string, path: string, asked: Asked<Endpoint>): string {
  const params = (asked.params ?? {}) as Record<string, string>;
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
  const query = new URLSearchParams(asked.query).toString();
  return `${url}${filled}${query === "" ? "" : `?${query}`}`;
}

function tokenFor(endpoint: Endpoint, target: ServerTarget, now: Date): string | undefined {
  if (endpoint.access === "public") return undefined;
  if (target.token === undefined)
    throw new Failure(`You are not logged in to ${target.url}: run keyward login, or set KEYWARD_TOKEN.`);
  if (target.expiresAt !== undefined && new Date(target.expiresAt) <= now)
    throw new Failure("Your session has ended: run keyward login again.");
  return target.token;
}

function unreachable(address: string, error: unknown): Failure {
  const { cause, message } = error as Error;
  const reason = cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : message;
  return new Failure(`${new URL(address).origin} cannot be reached: ${reason ?? "unknown reason"}`);
}

async function send(
  address: string,
  request: RequestInit,
): Promise<{ readonly response: Response; readonly text: string }> {
  try {
    const response = await fetch(address, { ...request, signal: AbortSignal.timeout(TIMEOUT_MS) });
    return { response, text: await response.text() };
  } catch (error) {
    throw unreachable(address, error);
  }
}

/** May take as long as something keeps coming. An answer that breaks off is a failure, never a short answer. */
async function* receive(address: string, request: RequestInit): AsyncGenerator<string> {
  const silence = new AbortController();
  const timer = setTimeout(
    () => silence.abort(new Error(`nothing came for ${TIMEOUT_MS / 1000} seconds`)),
    TIMEOUT_MS,
  );
  try {
    const response = await fetch(address, { ...request, signal: silence.signal });
    if (!response.ok) throw refusal(response.status, await response.text());
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of response.body ?? []) {
      timer.refresh();
      const lines = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
    if (rest !== "") yield rest;
  } catch (error) {
    throw error instanceof Failure ? error : unreachable(address, error);
  } finally {
    clearTimeout(timer);
  }
}

export function createClient(target: ServerTarget, now: () => Date): Client {
  const requestOf = (endpoint: Endpoint, asked: Asked<Endpoint>, accept: string): RequestInit => {
    const token = tokenFor(endpoint, target, now());
    return {
      method: endpoint.method,
      // A redirect would carry the token to wherever it points.
      redirect: "error",
      headers: {
        "user-agent": USER_AGENT,
        accept,
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(asked.body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(asked.body === undefined ? {} : { body: JSON.stringify(asked.body) }),
    };
  };
  return {
    target,
    async call(endpoint, asked = {}) {
      const address = addressOf(target.url, endpoint.path, asked);
      const { response, text } = await send(address, requestOf(endpoint, asked, "application/json"));
      if (!response.ok) throw refusal(response.status, text);
      try {
        return JSON.parse(text) as Reply<typeof endpoint>;
      } catch {
        throw new Failure(`${target.url} answered something that is not JSON: is it a Keyward server?`);
      }
    },
    lines: (endpoint, asked = {}) =>
      receive(addressOf(target.url, endpoint.path, asked), requestOf(endpoint, asked, "*/*")),
  };
}
