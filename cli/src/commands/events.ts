/**
 * `keyward events tail`: reconnects. An SSE stream ends for many good reasons (a deploy, a proxy, a laptop lid), so
 * it is opened again, later each time and never at the same moment as everyone else. What happened in between is
 * gone: the server keeps no events, and clients that need the state read the secrets.
 */
import { spawn } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";
import { events as contract } from "@keyward/server";
import { USER_AGENT } from "../client.ts";
import type { Arguments, Call, Command } from "../command.ts";
import { Failure, UsageError } from "../failure.ts";
import { plain } from "../printing.ts";

interface Message {
  readonly data: {
    readonly eventType: string;
    readonly payload: Place | readonly (Place & { readonly secretKey: string })[];
  };
}
interface Place {
  readonly environment: string;
  readonly secretPath: string;
}
export interface ServerSentEvent {
  readonly event: string;
  readonly data: string;
}

export interface Limits {
  /** For how long nothing may come before the connection is taken for dead. */
  readonly silenceMs: number;
  /** How many events may wait for their turn before no more is read. */
  readonly waiting: number;
}
/** Pings come every 15 seconds; three missed ones mean that nobody is there. */
const LIMITS: Limits = { silenceMs: 45_000, waiting: 1000 };
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
const GOOD_LIFE_MS = 30_000;

/** As the standard reads a stream: lines end with LF, CR or both, and a blank one ends the frame. */
export async function* readFrames(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  const decoder = new TextDecoder();
  let [rest, event, data] = ["", "", [] as string[]];
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "event") event = value;
      else if (name === "data") data.push(value);
      else if (line === "" && (event !== "" || data.length > 0)) {
        yield { event: event || "message", data: data.join("\n") };
        [event, data] = ["", []];
      }
    }
  }
}

/** From half to the whole of a time that doubles: those who were cut off together do not come back together. */
export const pauseBefore = (attempt: number, chance: number): number =>
  Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempt, 10)) * (0.5 + chance / 2);

const placesOf = ({ data }: Message): readonly (Place & { readonly secretKey?: string })[] =>
  Array.isArray(data.payload) ? data.payload : [data.payload as Place];

function describe(message: Message, at: Date): string {
  const places = placesOf(message);
  const keys = places.flatMap(({ secretKey }) => (secretKey === undefined ? [] : [plain(secretKey)]));
  const [place] = places;
  const where = `${plain(place?.environment)} ${plain(place?.secretPath)}`;
  return [at.toISOString().slice(11, 19), message.data.eventType.padEnd(22), where, keys.join(", ")]
    .join("  ")
    .trimEnd();
}

/** Names reach the command as environment variables and input, never as part of its text. */
function execute(command: string, message: Message): Promise<number | string> {
  const places = placesOf(message);
  const env = {
    ...process.env,
    KEYWARD_EVENT: message.data.eventType,
    KEYWARD_EVENT_ENVIRONMENT: places[0]?.environment ?? "",
    KEYWARD_EVENT_PATH: places[0]?.secretPath ?? "",
    KEYWARD_EVENT_KEYS: places.flatMap(({ secretKey }) => secretKey ?? []).join("\n"),
  };
  return new Promise<number | string>((resolve, reject) => {
    const child = spawn(command, { shell: true, env, stdio: ["pipe", "inherit", "inherit"] });
    child.on("error", reject);
    child.on("exit", (code) => resolve(code ?? "a signal"));
    child.stdin.on("error", () => undefined); // it need not read
    child.stdin.end(`${JSON.stringify(message)}\n`);
  }).catch((error: Error) => error.message);
}

function bodyOf(given: Arguments): unknown {
  const [environmentSlug, secretPath] = [given.text("environment"), given.text("path")];
  const conditions = {
    ...(environmentSlug === undefined ? {} : { environmentSlug }),
    ...(secretPath === undefined ? {} : { secretPath }),
  };
  const wanted = given.texts("event").map((name) => (name.includes(":") ? name : `secret:${name}`));
  const known: readonly string[] = contract.EVENT_TYPES;
  for (const name of wanted) {
    if (!known.includes(name)) throw new UsageError(`--event must be one of ${known.join(", ")}.`);
  }
  const register = (wanted.length > 0 ? wanted : known).map((event) => ({ event, conditions }));
  return { projectId: given.required("project"), register };
}

class TryAgain extends Error {
  readonly afterMs: number;
  constructor(message: string, afterMs = 0) {
    super(message);
    this.afterMs = afterMs;
  }
}

/** In seconds; a date, which it may be too, is as good as nothing said: our own pauses are long enough. */
function pauseAskedFor(response: Response): number {
  const seconds = Number(response.headers.get("retry-after") ?? 0);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 0;
}

/** Gives up on what takes longer than that. */
async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TryAgain("the server fell silent")), ms);
  });
  try {
    return await Promise.race([work, silence]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * The silence is measured here and only while we listen. A signal that was given to fetch is not enough: once the
 * request has been collected as garbage it no longer reaches the body, and the read would wait for ever.
 */
async function* chunksOf(
  body: ReadableStream<Uint8Array>,
  silenceMs: number,
): AsyncGenerator<Uint8Array, void> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await within(silenceMs, reader.read());
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => undefined); // drops the connection, which may be long gone
  }
}

/** Does one thing after the other, while more comes. They outlive a connection, as commands may take their time. */
class Errands {
  readonly #most: number;
  readonly #promised: Promise<void>[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  /** Resolves when there is room for another one. */
  async add(errand: () => Promise<void>): Promise<void> {
    const before = this.#promised.at(-1) ?? Promise.resolve();
    this.#promised.push(before.then(errand).then(() => void this.#promised.shift()));
    if (this.#promised.length >= this.#most) await this.#promised[0];
  }

  async done(): Promise<void> {
    await this.#promised.at(-1);
  }
}

async function openStream(
  { client }: Call,
  body: unknown,
  signal: AbortSignal,
): Promise<ReadableStream<Uint8Array>> {
  const { url, token } = client.target;
  if (token === undefined)
    throw new Failure(`You are not logged in to ${url}: run keyward login, or set KEYWARD_TOKEN.`);
  const { method, path } = contract.subscribeToProjectEvents;
  const response = await fetch(`${url}${path}`, {
    method,
    redirect: "error",
    signal,
    headers: {
      "user-agent": USER_AGENT,
      accept: "text/event-stream",
      "content-type": "application/json",
      authorization: `Bearer ${token}`,
    },
    body: JSON.stringify(body),
  }).catch((error: Error) => {
    const { cause } = error;
    throw new TryAgain(cause instanceof Error ? cause.message : error.message);
  });
  if (response.ok && response.body) return response.body;
  const said = await response.text();
  const { message = `status ${response.status}` } = parseOr<{ message?: unknown }>(said, {});
  const text = plain(typeof message === "string" ? message : JSON.stringify(message));
  const isPassing = response.status === 429 || response.status >= 500;
  if (isPassing) throw new TryAgain(text, pauseAskedFor(response));
  throw new Failure(text);
}

function parseOr<T>(text: string, fallback: T): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    return fallback;
  }
}

/** One line that is written over and over, at a terminal only. */
function createLiveLine(isShown: boolean) {
  const write = (text: string) => void (isShown && process.stderr.write(`\r\u001b[K${text}`));
  return { show: (text: string) => write(text), clear: () => write("") };
}

class Tail {
  readonly #call: Call;
  readonly #body: unknown;
  readonly #line: ReturnType<typeof createLiveLine>;
  readonly #silenceMs: number;
  readonly #errands: Errands;
  readonly #most: number;
  #heard = 0;

  constructor(call: Call, limits: Limits) {
    this.#call = call;
    this.#body = bodyOf(call.arguments);
    this.#silenceMs = limits.silenceMs;
    this.#errands = new Errands(limits.waiting);
    this.#most = call.arguments.wholeNumber("count") ?? Number.POSITIVE_INFINITY;
    this.#line = createLiveLine(process.stderr.isTTY && !call.arguments.has("json"));
  }

  /** Whatever ends it, what was heard is still dealt with. */
  async run(): Promise<void> {
    try {
      await this.#followForEver();
    } finally {
      await this.#errands.done();
    }
  }

  async #followForEver(): Promise<void> {
    for (let attempt = 0; this.#heard < this.#most; attempt += 1) {
      const startedAt = performance.now();
      let reason = new TryAgain("the stream ended");
      try {
        await this.#follow();
      } catch (error) {
        if (!(error instanceof TryAgain)) throw error;
        reason = error;
      }
      if (this.#heard >= this.#most) return;
      if (performance.now() - startedAt > GOOD_LIFE_MS) attempt = 0;
      const waitMs = Math.max(reason.afterMs, pauseBefore(attempt, Math.random()));
      this.#line.clear();
      this.#call.world.complain(`${reason.message}; again in ${(waitMs / 1000).toFixed(1)} s`);
      await pause(waitMs);
    }
  }

  async #follow(): Promise<void> {
    const connection = new AbortController();
    try {
      const opening = openStream(this.#call, this.#body, connection.signal);
      const body = await within(this.#silenceMs, opening);
      this.#line.show(`listening; ${this.#heard} events`);
      for await (const frame of readFrames(chunksOf(body, this.#silenceMs))) {
        await this.#take(frame);
        if (this.#heard >= this.#most) return;
        this.#line.show(
          `listening; ${this.#heard} events, last sign ${new Date().toISOString().slice(11, 19)}`,
        );
      }
    } catch (error) {
      if (error instanceof TypeError) throw new TryAgain("the connection broke");
      throw error;
    } finally {
      connection.abort();
    }
  }

  async #take({ event, data }: ServerSentEvent): Promise<void> {
    if (event === "ping") return;
    const message = parseOr<Partial<Message> & { message?: string }>(data, {});
    if (event === "error") throw new TryAgain(plain(message.message ?? "the server ended the stream"));
    if (message.data === undefined) return;
    this.#heard += 1;
    await this.#errands.add(() => this.#tell(message as Message));
  }

  async #tell(message: Message): Promise<void> {
    const { world, arguments: given } = this.#call;
    this.#line.clear();
    world.print(given.has("json") ? JSON.stringify(message) : describe(message, world.now()));
    const command = given.text("exec");
    if (command === undefined) return;
    const ended = await execute(command, message);
    if (ended !== 0) world.complain(`${plain(command)} ended with ${plain(String(ended))}`);
  }
}

export const tailWithin = (limits: Limits): Command => ({
  words: ["events", "tail"],
  about: "Follow the changes of a project's secrets as they happen",
  options: {
    project: { type: "string", value: "<id or slug>", about: "The project" },
    event: {
      type: "string",
      value: "<type>",
      multiple: true,
      about: "create, update, delete or import-mutation; all if absent",
    },
    environment: { type: "string", value: "<slug>", about: "Only this environment" },
    path: { type: "string", value: "<glob>", about: "Only these folders, such as /app/**" },
    exec: { type: "string", value: "<command>", about: "Run this for each event, one after the other" },
    count: { type: "string", value: "<n>", about: "Stop after so many events" },
  },
  notes:
    "With --exec the command finds KEYWARD_EVENT, KEYWARD_EVENT_ENVIRONMENT, KEYWARD_EVENT_PATH and KEYWARD_EVENT_KEYS\n" +
    "(one per line) in its environment and the whole message as JSON on its input.\n" +
    "Events are not kept: what happens while the connection is down is not told later.",
  run: (call) => new Tail(call, limits).run(),
});

export const eventCommands: readonly Command[] = [tailWithin(LIMITS)];
