/**
 * Readers of event streams for the tests: one that keeps everything it is sent, and the two parsers that clients in
 * the field use, written down anew from the description of what they accept.
 */
import { request, type IncomingMessage } from "node:http";
import { systemActor } from "../src/platform/actor.ts";
import type { Fact } from "../src/platform/outbox/index.ts";
import { importsMutated, secretsChanged } from "../src/secrets/events.ts";
import type { House } from "../src/house.ts";

export interface SentFrame {
  readonly id: number | undefined;
  readonly event: string | undefined;
  readonly data: string | undefined;
}

export const PATH = "/api/v1/events/subscribe/project-events";

export async function until(isTrue: () => boolean, what: string, seconds = 120): Promise<void> {
  const deadline = Date.now() + seconds * 1000;
  while (!isTrue()) {
    if (Date.now() > deadline) throw new Error(`waited in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

export class StreamReader {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly ended: Promise<void>;
  raw = "";
  isEnded = false;
  readonly #answer: IncomingMessage;
  #rest = "";
  readonly frames: SentFrame[] = [];

  constructor(answer: IncomingMessage) {
    this.#answer = answer;
    this.status = answer.statusCode ?? 0;
    this.headers = answer.headers;
    answer.setEncoding("utf8");
    answer.on("data", (text: string) => this.#take(text));
    this.ended = new Promise((resolve) => {
      const end = () => {
        this.isEnded = true;
        resolve();
      };
      answer.on("end", end);
      answer.on("error", end);
      answer.on("close", end);
    });
  }

  /** Without pings. */
  get events(): SentFrame[] {
    return this.frames.filter((frame) => frame.event !== "ping" && frame.event !== "error");
  }

  get error(): string | undefined {
    const data = this.frames.find((frame) => frame.event === "error")?.data;
    return data === undefined ? undefined : (JSON.parse(data) as { message: string }).message;
  }

  /** `type environment path key,key` per event: short enough to compare by eye. */
  get told(): string[] {
    return this.events.map(({ data }) => tell(data ?? ""));
  }

  async hears(count: number): Promise<void> {
    await until(() => this.events.length >= count || this.isEnded, `${count} events`);
  }

  pause(): void {
    this.#answer.pause();
  }

  resume(): void {
    this.#answer.resume();
  }

  close(): void {
    this.#answer.destroy();
  }

  #take(text: string): void {
    if (this.raw.length < 10_000_000) this.raw += text;
    const parts = (this.#rest + text).split("\n\n");
    this.#rest = parts.pop() ?? "";
    for (const part of parts) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(part)?.[1];
      const id = field("id");
      this.frames.push({
        id: id === undefined ? undefined : Number(id),
        event: field("event"),
        data: field("data"),
      });
    }
  }
}

export function tell(data: string): string {
  const { eventType, payload } = (JSON.parse(data) as { data: { eventType: string; payload: unknown } }).data;
  const items = (Array.isArray(payload) ? payload : [payload]) as {
    environment: string;
    secretPath: string;
    secretKey?: string;
  }[];
  const keys = items.map((item) => item.secretKey).filter((key) => key !== undefined);
  return `${eventType} ${items[0]?.environment} ${items[0]?.secretPath} ${keys.join(",")}`.trimEnd();
}

export function openStream(
  base: string,
  token: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<StreamReader> {
  return new Promise((resolve, reject) => {
    const call = request(`${base}${PATH}`, {
      method: "POST",
      agent: false,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
    });
    call.on("response", (answer) => resolve(new StreamReader(answer)));
    call.on("error", reject);
    call.end(JSON.stringify(body));
  });
}

/** A refusal, read to its end. */
export async function refusal(
  base: string,
  token: string,
  body: unknown,
): Promise<{
  status: number;
  retryAfter: string | undefined;
  body: { error: string; message: unknown } & Record<string, unknown>;
}> {
  const reader = await openStream(base, token, body);
  if (reader.status === 200) throw new Error("a stream was opened");
  await reader.ended;
  return {
    status: reader.status,
    retryAfter: reader.headers["retry-after"],
    body: JSON.parse(reader.raw),
  };
}

/** A real commit through the real outbox, without the secrets room. */
export const commit = (house: Pick<House, "database">, ...facts: readonly Fact[]): Promise<void> =>
  house.database.write(async (tx) => {
    for (const fact of facts) tx.emit(fact);
    tx.audit(systemActor("test"), { event: "test", orgId: null });
  });

export interface Place {
  readonly orgId: string;
  readonly projectId: string;
  readonly environment?: string;
  readonly path?: string;
}

export const changed = (
  place: Place,
  change: "create" | "update" | "delete",
  ...keys: readonly string[]
): Fact => secretsChanged({ environment: "dev", path: "/", ...place, change, keys });
export const mutated = (place: Place): Fact => importsMutated({ environment: "dev", path: "/", ...place });

/** Only `data:` lines count, several are joined with nothing between, and a payload must be a list. */
export function proxyParser(
  text: string,
): { eventType: string; environment: string; secretPath: string; secretKey: string }[] {
  const heard: { eventType: string; environment: string; secretPath: string; secretKey: string }[] = [];
  let data = "";
  for (const line of text.split("\n")) {
    if (Buffer.byteLength(line) >= 64 * 1024) throw new Error("a line is too long for this reader");
    if (line.startsWith("data:")) data += line.slice("data:".length).trim();
    else if (line === "" && data !== "") {
      const { projectType, data: said } = JSON.parse(data) as {
        projectType?: string;
        data?: { eventType: string; payload: unknown };
      };
      if (projectType !== undefined && said && Array.isArray(said.payload)) {
        for (const item of said.payload as { environment: string; secretPath: string; secretKey: string }[])
          heard.push({ eventType: said.eventType, ...item });
      }
      data = "";
    }
  }
  return heard;
}

/** A frame is dispatched at its blank line only if it had an `event:` line; data without one runs into the next. */
export function operatorParser(text: string): {
  pings: number;
  dispatched: { event: string; data: string; id: string }[];
} {
  const dispatched: { event: string; data: string; id: string }[] = [];
  let pings = 0;
  let [event, id, data] = ["", "", [] as string[]];
  for (const line of text.split("\n")) {
    if (Buffer.byteLength(line) >= 64 * 1024) throw new Error("a line is too long for this reader");
    if (line === "") {
      if (event === "") continue;
      if (event === "ping") pings += 1;
      else dispatched.push({ event, data: data.join("\n"), id });
      [event, id, data] = ["", "", []];
      continue;
    }
    const colon = line.indexOf(":");
    const [name, rest] = colon < 0 ? [line, ""] : [line.slice(0, colon), line.slice(colon + 1)];
    const value = rest.startsWith(" ") ? rest.slice(1) : rest;
    if (name === "event") event = value;
    else if (name === "data") data.push(value);
    else if (name === "id") id = value;
  }
  return { pings, dispatched };
}
