/**
 * Two checks that nothing gets lost between a change and its subscribers: a reader of an event stream
 * and a receiver of webhooks. A witness changes secrets and issues certificates all the time; every change that is
 * there afterwards, answered or not, must have come out at the other end, the event once and in the order in which
 * changes were acknowledged, the webhook at least once; and no event tells of a change that is not there.
 */
import { openReceiver, type Receiver } from "../alert-receiver.ts";
import { aProfile, aRoot, ok } from "../certificates.ts";
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
  /** A stream may be closed by its node, which then says why; whoever listened opens another. */
  readonly mayEnd?: boolean;
}

export interface Witness {
  readonly faults: string[];
  readonly counts: Record<string, number>;
  /** No more changes; what is on its way may still arrive. */
  stop(): Promise<void>;
  /** Waits for what must arrive, by what a server that is well says is there, and answers what did not. */
  judge(base: string, seconds: number): Promise<string[]>;
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
  readonly #profileId: string;
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
    this.#profileId = profileId;
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

  /** Everything that the witness changed, answered or not, as it is there now. */
  async #present(base: string): Promise<{ keys: Set<string>; certificates: Set<string> }> {
    const { token, projectId } = this.#options.place;
    const client = clientOf(base, token);
    const look = async (path: string): Promise<Answer["body"]> => ok(await client.get(path), path);
    const { secrets } = await look(`/api/v4/secrets?projectId=${projectId}&environment=staging`);
    const certificates = new Set<string>();
    const path = `/api/v1/cert-manager/certificate-profiles/${this.#profileId}/certificates`;
    for (let offset = 0; certificates.size === offset; offset += 100)
      for (const { id } of (await look(`${path}?limit=100&offset=${offset}`)).certificates)
        certificates.add(id);
    const named = secrets.map(({ secretKey }: { secretKey: string }) => secretKey) as string[];
    return { keys: new Set(named.filter((key) => key.startsWith("SEEN_"))), certificates };
  }

  async #judgeDeliveries(certificates: ReadonlySet<string>, seconds: number): Promise<string[]> {
    const untold = (): string[] => {
      const bodies = this.#receiver.received.map(({ body }) => body).join("\n");
      return [...certificates].filter((id) => !bodies.includes(id));
    };
    await holds(async () => untold().length === 0, seconds);
    const lost = untold();
    const gone = this.#issued.filter((id) => !certificates.has(id));
    return [
      ...gone.slice(0, 3).map((id) => `the certificate ${id} was acknowledged and is not there`),
      ...lost.slice(0, 3).map((id) => `the certificate ${id} was issued and no webhook came`),
      ...(lost.length > 0 ? [`${lost.length} of ${certificates.size} deliveries were lost`] : []),
    ];
  }

  async #judgeStream(stream: StreamReader, keys: ReadonlySet<string>, seconds: number): Promise<string[]> {
    const heard = (): string[] =>
      stream.told
        .flatMap((line) => line.split(" ").at(-1)?.split(",") ?? [])
        .filter((key) => key.startsWith("SEEN_"));
    const missing = (): string[] => {
      const known = new Set(heard());
      return [...keys].filter((key) => !known.has(key));
    };
    await holds(async () => stream.isEnded || missing().length === 0, seconds);
    const faults: string[] = [];
    const mayEnd = this.#options.mayEnd === true && stream.error !== undefined;
    if (stream.isEnded && !mayEnd) faults.push(`was closed: ${stream.error ?? "without a word"}`);
    const lost = stream.isEnded && mayEnd ? [] : missing();
    if (lost.length > 0) faults.push(`missed ${lost.length} of ${keys.size} changes: ${lost[0]}`);
    const told = heard();
    const twice = told.filter((key, at) => told.indexOf(key) !== at);
    if (twice.length > 0) faults.push(`heard ${twice.length} changes twice: ${twice[0]}`);
    const invented = told.filter((key) => !keys.has(key));
    if (invented.length > 0)
      faults.push(`heard of ${invented.length} changes that are not there: ${invented[0]}`);
    const acknowledged = new Set(this.#changed);
    const numbers = told.filter((key) => acknowledged.has(key)).map((key) => Number(key.slice(5)));
    const turned = numbers.find((number, at) => number < (numbers[at - 1] ?? 0));
    if (turned !== undefined) faults.push(`heard SEEN_${turned} after a later change`);
    return faults;
  }

  async judge(base: string, seconds: number): Promise<string[]> {
    const { keys, certificates } = await this.#present(base);
    const faults = this.#changed
      .filter((key) => !keys.has(key))
      .map((key) => `${key} was acknowledged and is not there`)
      .slice(0, 3);
    faults.push(...(await this.#judgeDeliveries(certificates, seconds)));
    for (const [index, stream] of this.#streams.entries())
      for (const fault of await this.#judgeStream(stream, keys, seconds))
        faults.push(`stream ${index} ${fault}`);
    this.counts["changes there"] = keys.size;
    this.counts["certificates there"] = certificates.size;
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
