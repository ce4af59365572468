/**
 * Two judges of what must not get lost between a change and those who wait for news of it: a reader of an event stream
 * and a receiver of webhooks. A witness changes secrets and issues certificates all the time; every change that was
 * acknowledged must come out at the other end, the event once, the webhook at least once.
 */
import { openReceiver, type Receiver } from "../alert-receiver.ts";
import { aProfile, aRoot } from "../certificates.ts";
import { openStream, type StreamReader } from "../event-streams.ts";
import { clientOf, type Answer, type Client } from "../harness.ts";
import { holds, pause } from "./ground.ts";
import type { Place } from "./load.ts";

const ALERTS = "/api/v1/cert-manager/alerts";

export interface WitnessOptions {
  readonly place: Place;
  /** Where the next change goes; asked anew each time. */
  readonly base: (turn: number) => string;
  /** A stream is opened on each of these. */
  readonly listenAt: readonly string[];
  /** Answers besides 200 and a 503 that says when to come again, which are no fault here. */
  readonly allowed?: readonly number[];
}

export interface Witness {
  readonly faults: string[];
  readonly counts: Record<string, number>;
  /** No more changes; what is on its way may still arrive. */
  stop(): Promise<void>;
  /** Waits for what must arrive and answers what did not. */
  judge(seconds: number): Promise<string[]>;
  close(): Promise<void>;
}

async function openAlert(client: Client, { pkiProjectId }: Place, receiver: Receiver): Promise<string> {
  const root = await aRoot(client, pkiProjectId);
  const profile = await aProfile(client, pkiProjectId, root.id);
  const made = await client.post(ALERTS, {
    name: "observer",
    eventType: "issuance",
    filters: [],
    projectId: pkiProjectId,
    channels: [{ config: { url: `${receiver.url}/in` } }],
  });
  if (made.status !== 200) throw new Error(`no alert: ${made.status} ${JSON.stringify(made.body)}`);
  return profile.id;
}

class Watching implements Witness {
  readonly faults: string[] = [];
  readonly counts: Record<string, number> = {};
  readonly #options: WitnessOptions;
  readonly #receiver: Receiver;
  readonly #streams: readonly StreamReader[];
  readonly #changed: string[] = [];
  readonly #issued: string[] = [];
  #isStopped = false;
  readonly #loops: Promise<void>[];

  constructor(
    options: WitnessOptions,
    receiver: Receiver,
    streams: readonly StreamReader[],
    profileId: string,
  ) {
    this.#options = options;
    this.#receiver = receiver;
    this.#streams = streams;
    const { projectId } = options.place;
    this.#loops = [
      this.#loop(50, async (client, turn) => {
        const key = `SEEN_${turn}`;
        const answer = await client.post(`/api/v4/secrets/${key}`, {
          projectId,
          environment: "staging",
          secretPath: "/",
          secretValue: "value",
        });
        if (this.#isDone(answer, "secret")) this.#changed.push(key);
      }),
      this.#loop(150, async (client, turn) => {
        const attributes = { commonName: `seen-${turn}.example.com`, ttl: "30d" };
        const answer = await client.post("/api/v1/cert-manager/certificates", { profileId, attributes });
        if (this.#isDone(answer, "certificate")) this.#issued.push(answer.body.certificate.certificateId);
      }),
    ];
  }

  #isDone(answer: Answer, what: string): boolean {
    const { status } = answer;
    const word = `${what} ${status}`;
    this.counts[word] = (this.counts[word] ?? 0) + 1;
    if (status === 200) return true;
    const isPromise = status === 503 && answer.headers.get("retry-after") !== null;
    if (!isPromise && !this.#options.allowed?.includes(status) && this.faults.length < 5)
      this.faults.push(`${what}: ${status} ${JSON.stringify(answer.body).slice(0, 300)}`);
    return false;
  }

  async #loop(ms: number, change: (client: Client, turn: number) => Promise<void>): Promise<void> {
    for (let turn = 0; !this.#isStopped; turn += 1) {
      const client = clientOf(this.#options.base(turn), this.#options.place.token);
      // Without an answer nobody knows; such a change may be told of or not.
      await change(client, turn).catch(() => undefined);
      await pause(ms);
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#loops);
  }

  async judge(seconds: number): Promise<string[]> {
    const faults: string[] = [];
    const untold = (): string[] => {
      const bodies = this.#receiver.received.map(({ body }) => body).join("\n");
      return this.#issued.filter((id) => !bodies.includes(id));
    };
    await holds(async () => untold().length === 0, seconds);
    for (const id of untold().slice(0, 3))
      faults.push(`the certificate ${id} was issued and no webhook came`);
    if (untold().length > 0) faults.push(`${untold().length} of ${this.#issued.length} deliveries were lost`);
    for (const [index, stream] of this.#streams.entries()) {
      const heard = (): Map<string, number> => {
        const times = new Map<string, number>();
        for (const line of stream.told)
          for (const key of line.split(" ").at(-1)?.split(",") ?? [])
            times.set(key, (times.get(key) ?? 0) + 1);
        return times;
      };
      const missing = (): string[] => {
        const times = heard();
        return this.#changed.filter((key) => !times.has(key));
      };
      await holds(async () => stream.isEnded || missing().length === 0, seconds);
      if (stream.isEnded) faults.push(`stream ${index} was closed: ${stream.error ?? "without a word"}`);
      if (missing().length > 0)
        faults.push(
          `stream ${index} missed ${missing().length} of ${this.#changed.length} changes: ${missing()[0]}`,
        );
      const twice = [...heard()].filter(([key, times]) => key.startsWith("SEEN_") && times > 1);
      if (twice.length > 0)
        faults.push(`stream ${index} heard ${twice.length} changes twice: ${twice[0]?.[0]}`);
    }
    this.counts["changes told"] = this.#changed.length;
    this.counts["certificates told"] = this.#issued.length;
    if (this.#changed.length === 0 || this.#issued.length === 0) faults.push("the witness did nothing");
    return [...this.faults, ...faults];
  }

  async close(): Promise<void> {
    await this.stop();
    for (const stream of this.#streams) stream.close();
    await this.#receiver.close();
  }
}

/** The servers must allow webhooks to 127.0.0.0/8. */
export async function startWitness(options: WitnessOptions): Promise<Witness> {
  const { place, listenAt } = options;
  const receiver = await openReceiver();
  const profileId = await openAlert(clientOf(options.base(0), place.token), place, receiver);
  const streams: StreamReader[] = [];
  for (const base of listenAt) {
    const stream = await openStream(base, place.token, { projectId: place.projectId });
    if (stream.status !== 200) throw new Error(`no stream: ${stream.status}`);
    streams.push(stream);
  }
  return new Watching(options, receiver, streams, profileId);
}
