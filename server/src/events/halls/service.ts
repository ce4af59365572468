/**
 * A hall is where one project's events are read out, one after the other, to the streams that are open on this node.
 * What was committed first is heard first; a change of rights stands in the same line, so an event that was
 * committed after a revocation waits until the revocation has been understood.
 *
 * Nothing here may hold up the process: after a slice of writes everyone else gets a turn. A burst is handed over at
 * the pace of the readers that take it; one that takes nothing holds the others up for a moment once, then it is on
 * its own, with what a stream may keep waiting (see platform/http/sse.ts).
 */
import { setImmediate as turn, setTimeout as pause } from "node:timers/promises";
import type { MemberActor } from "../../platform/actor.ts";
import { Frame, MAX_WAITING_BYTES, type EventStream } from "../../platform/http/sse.ts";
import type { Ability, Standing } from "../../permissions/index.ts";
import { Audience } from "../audience/model.ts";
import { messagesOf } from "../messages/model.ts";
import { ACTION_OF, isAfter, SUBJECT, type Filter, type SecretEvent, type Since } from "../model.ts";

/** Writes between two turns of everyone else. */
const SLICE = 500;
/** A parcel grows no larger than this: small enough that a slow reader's allowance holds many. */
const PARCEL_BYTES = 64 * 1024;
const BRIMMING_BYTES = MAX_WAITING_BYTES / 2;
const CALM_BYTES = MAX_WAITING_BYTES / 16;
const CATCH_UP_MS = 5;
/** How long a hall waits for one reader's burst to drain before it leaves that reader to itself. */
const PATIENCE_MS = 250;

/** One open stream, and what it may and wants to hear. */
export interface Listener {
  readonly actor: MemberActor;
  readonly hall: Hall;
  readonly holder: Holder;
  readonly filters: readonly Filter[];
  readonly since: Since;
  readonly tokenEndsAt: number;
  readonly stream: EventStream;
  readonly pingedWith: Set<Listener>;
  /** The last event that was considered for it: several of its filters may meet one event. */
  considered: SecretEvent | undefined;
  /** For how long a hall has waited for it since it was last calm. */
  heldUpMs: number;
}

/** Everything one actor has open in one project stands on the same rights. */
export class Holder {
  readonly listeners = new Set<Listener>();
  readonly #load: () => Promise<Standing>;
  #ability: Ability;
  #validUntil: number;
  #judged: SecretEvent | undefined;
  #verdict = false;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(standing: Standing, load: () => Promise<Standing>) {
    this.#ability = standing.ability;
    this.#validUntil = standing.validUntil;
    this.#load = load;
  }

  /** Has a temporary role started or ended since the rights were looked up? */
  isOutdated(now: number): boolean {
    return now >= this.#validUntil && this.#running === undefined;
  }

  allows(event: SecretEvent): boolean {
    if (this.#judged === event) return this.#verdict;
    this.#judged = event;
    this.#verdict = this.#ability.can(ACTION_OF[event.type], SUBJECT, {
      environment: event.environment,
      secretPath: event.path,
    });
    return this.#verdict;
  }

  /** Is there any event left that such a subscription could hear of? */
  carries(filters: readonly Filter[]): boolean {
    return filters.some((filter) => this.#ability.can(ACTION_OF[filter.event], SUBJECT));
  }

  /** Resolves when the rights are those of after this call. */
  refresh(): Promise<void> {
    if (!this.#running) {
      this.#running = this.#reload().finally(() => {
        this.#running = undefined;
      });
      return this.#running;
    }
    this.#next ??= this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        return this.refresh();
      });
    return this.#next;
  }

  async #reload(): Promise<void> {
    const { ability, validUntil } = await this.#load();
    this.#ability = ability;
    this.#validUntil = validUntil;
    this.#judged = undefined;
  }
}

/**
 * What a stream gets in one write. While there is one event at a time, that is its frames; when events come faster
 * than they can be written to everyone, it is several events in one piece, so that falling behind makes each event
 * cheaper instead of the line longer. Streams that hear the same events share the same bytes.
 */
class Parcel {
  readonly #frames: readonly Frame[];
  readonly #longer = new Map<readonly Frame[], Parcel>();
  #whole: Frame | undefined;

  constructor(frames: readonly Frame[]) {
    this.#frames = frames;
  }

  with(frames: readonly Frame[]): Parcel {
    let longer = this.#longer.get(frames);
    if (!longer) this.#longer.set(frames, (longer = new Parcel([...this.#frames, ...frames])));
    return longer;
  }

  get whole(): Frame {
    const [only, ...more] = this.#frames;
    this.#whole ??= only && more.length === 0 ? only : new Frame(this.#frames);
    return this.#whole;
  }
}

export type Step = SecretEvent | Promise<unknown>;

export class Hall {
  readonly projectId: string;
  readonly orgId: string;
  readonly holders = new Map<string, Holder>();
  readonly listeners = new Set<Listener>();
  readonly #audience = new Audience<Listener>();
  readonly #nextFrameId: () => number;
  readonly #brimming = new Set<Listener>();
  #steps: Step[] = [];
  #isReading = false;
  #parcels = new Map<Listener, Parcel>();
  #nothingYet = new Parcel([]);
  #packedBytes = 0;

  constructor(project: { readonly id: string; readonly orgId: string }, nextFrameId: () => number) {
    this.projectId = project.id;
    this.orgId = project.orgId;
    this.#nextFrameId = nextFrameId;
  }

  enter(listener: Listener): void {
    this.listeners.add(listener);
    listener.holder.listeners.add(listener);
    for (const filter of listener.filters) this.#audience.add(listener, filter);
  }

  leave(listener: Listener): void {
    this.listeners.delete(listener);
    listener.holder.listeners.delete(listener);
    if (listener.holder.listeners.size === 0) this.holders.delete(listener.actor.id);
    for (const filter of listener.filters) this.#audience.remove(listener, filter);
    this.#brimming.delete(listener);
  }

  /** At the end of the line: an event, or something that what comes later must wait for and that never rejects. */
  line(step: Step): void {
    this.#steps.push(step);
  }

  /** Moves the line. */
  readOut(): void {
    if (!this.#isReading) void this.#read();
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    for (let steps = this.#takeSteps(); steps.length > 0; steps = this.#takeSteps()) {
      for (const step of steps) {
        if (!(step instanceof Promise)) this.#pack(step);
        if (step instanceof Promise || this.#packedBytes >= PARCEL_BYTES) await this.#handOver();
        if (step instanceof Promise) await step;
      }
      await this.#handOver();
    }
    this.#isReading = false;
  }

  /** Puts an event into the parcel of everyone who may and wants to hear of it. */
  #pack(event: SecretEvent): void {
    let frames: Frame[] | undefined;
    for (const listener of this.#listenersOf(event)) {
      if (!listener.stream.isOpen || !listener.holder.allows(event)) continue;
      if (!frames) {
        frames = messagesOf(event).map(
          (data) => new Frame({ event: event.type, id: this.#nextFrameId(), data }),
        );
        for (const frame of frames) this.#packedBytes += frame.chunk.length;
      }
      this.#parcels.set(listener, (this.#parcels.get(listener) ?? this.#nothingYet).with(frames));
    }
  }

  async #handOver(): Promise<void> {
    const parcels = this.#parcels;
    this.#parcels = new Map();
    this.#nothingYet = new Parcel([]);
    this.#packedBytes = 0;
    let written = 0;
    for (const [listener, parcel] of parcels) {
      listener.stream.send(parcel.whole);
      if (listener.stream.waitingBytes > BRIMMING_BYTES && listener.heldUpMs < PATIENCE_MS)
        this.#brimming.add(listener);
      written += 1;
      if (written % SLICE === 0) await turn();
    }
    if (this.#brimming.size > 0) await this.#letReadersCatchUp();
  }

  #takeSteps(): Step[] {
    const steps = this.#steps;
    this.#steps = [];
    return steps;
  }

  #listenersOf(event: SecretEvent): Listener[] {
    const found: Listener[] = [];
    for (const members of this.#audience.matching(event)) {
      for (const listener of members) {
        if (listener.considered === event) continue;
        listener.considered = event;
        if (isAfter(event, listener.since)) found.push(listener);
      }
    }
    return found;
  }

  async #letReadersCatchUp(): Promise<void> {
    while (this.#brimming.size > 0) {
      await pause(CATCH_UP_MS);
      for (const listener of this.#brimming) {
        const { waitingBytes } = listener.stream;
        if (waitingBytes <= CALM_BYTES) listener.heldUpMs = 0;
        else listener.heldUpMs += CATCH_UP_MS;
        if (waitingBytes <= CALM_BYTES || listener.heldUpMs >= PATIENCE_MS) this.#brimming.delete(listener);
      }
    }
  }
}
