/**
 * A channel sends one project's events, one after the other, to the streams that are open on this node.
 * What was committed first is sent first; changes of rights are in the same queue, so an event that was
 * committed after a revocation waits until the revocation has been applied.
 *
 * Nothing here may block the event loop: after a slice of writes other work gets a turn. A burst is written at
 * the pace of the readers; one that reads nothing delays the others once for a moment, then it is on
 * its own, with the backlog that a stream may have (see platform/http/sse.ts).
 */
import { setImmediate as turn, setTimeout as pause } from "node:timers/promises";
import type { MemberActor } from "../platform/actor.ts";
import { Frame, MAX_WAITING_BYTES, type EventStream } from "../platform/http/sse.ts";
import type { Ability, EffectiveRights } from "../permissions/index.ts";
import {
  ACTION_OF,
  choicesOf,
  EVER,
  isAfter,
  MAX_CHOICES_OF_ACTOR,
  SUBJECT,
  type EventGlobFilter,
  type SecretEvent,
  type Since,
  weightOf,
} from "./model.ts";
import { messagesOf, RecipientCache } from "./channels.model.ts";
import { batchesOf, wholeOf, type OutboundMessage } from "./batch-messages.ts";

/** Writes between two yields to the event loop. */
const SLICE = 500;
/** Events rendered between two yields; one whose recipients are not cached yet counts for ten. */
const WORDS = 100;
const SEARCH_IN_WORDS = 10;
/** What is written at once is no larger than this: small enough that a slow reader's backlog holds many. */
const BATCH_BYTES = 64 * 1024;
const BRIMMING_BYTES = MAX_WAITING_BYTES / 2;
const CALM_BYTES = MAX_WAITING_BYTES / 16;
const CATCH_UP_MS = 5;
/**
 * After writing to many streams a channel pauses for half as long as that took. What comes meanwhile is sent together, so
 * the faster events come the cheaper each gets, long before the process has no time left for anything else; a channel
 * with few streams is done too soon to pause at all.
 */
const REST_PER_WRITING = 0.5;
const SHORTEST_REST_MS = 1;
const LONGEST_REST_MS = 10;
/** How long a channel waits for one reader's burst to drain before it goes on without that reader. */
const PATIENCE_MS = 250;
/** Bound of a channel's queue: some hundred thousand keys. Events outrun the sending only in an emergency. */
const MAX_LINE_BYTES = 64 * 1024 * 1024;

interface SubscriptionInput {
  readonly actor: MemberActor;
  readonly channel: ProjectChannel;
  readonly rights: SubscriberRights;
  readonly filters: readonly EventGlobFilter[];
  readonly since: Since;
  readonly tokenEndsAt: number;
  readonly pingedWith: Set<Subscription>;
}

/**
 * One open stream, with its filters and rights. A class, because an event walks through thousands of these:
 * objects that were put together from others would each have a hidden class of their own, which costs the walk
 * much time and memory.
 */
export class Subscription {
  readonly actor: MemberActor;
  readonly channel: ProjectChannel;
  readonly rights: SubscriberRights;
  readonly filters: readonly EventGlobFilter[];
  since: Since;
  readonly tokenEndsAt: number;
  readonly pingedWith: Set<Subscription>;
  readonly stream: EventStream;
  /** The last event that was considered for it: several of its filters may match one event. */
  considered: SecretEvent | undefined = undefined;
  /** For how long a channel has waited for it since it last kept up. */
  heldUpMs = 0;

  constructor(input: SubscriptionInput, stream: EventStream) {
    this.actor = input.actor;
    this.channel = input.channel;
    this.rights = input.rights;
    this.filters = input.filters;
    this.since = input.since;
    this.tokenEndsAt = input.tokenEndsAt;
    this.pingedWith = input.pingedWith;
    this.stream = stream;
  }
}

/** The filters whose globs have to be matched, by what makes two of them the same entry of the index. */
const costly = (filters: readonly EventGlobFilter[]) =>
  filters.flatMap((one) => {
    const choices = choicesOf(one);
    if (choices === 0) return [];
    return [{ filter: `${one.event} ${one.environment ?? ""} ${one.glob?.pattern}`, choices }];
  });

/** All streams of one actor in one project have the same rights. */
export class SubscriberRights {
  readonly subscriptions = new Set<Subscription>();
  readonly #load: () => Promise<EffectiveRights>;
  /** By pattern: how many filters have it. Equal globs are matched once. */
  readonly #globs = new Map<string, { readonly choices: number; uses: number }>();
  #choices = 0;
  #ability: Ability;
  #validUntil: number;
  #judged: SecretEvent | undefined;
  #verdict = false;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(effective: EffectiveRights, load: () => Promise<EffectiveRights>) {
    this.#ability = effective.ability;
    this.#validUntil = effective.validUntil;
    this.#load = load;
  }

  /** Has a temporary role started or ended since the rights were looked up? */
  isOutdated(now: number): boolean {
    return now >= this.#validUntil && this.#running === undefined;
  }

  enter(subscription: Subscription): void {
    this.subscriptions.add(subscription);
    for (const { filter, choices } of costly(subscription.filters)) {
      const known = this.#globs.get(filter);
      if (known) known.uses += 1;
      else {
        this.#globs.set(filter, { choices, uses: 1 });
        this.#choices += choices;
      }
    }
  }

  leave(subscription: Subscription): void {
    this.subscriptions.delete(subscription);
    for (const { filter } of costly(subscription.filters)) {
      const known = this.#globs.get(filter);
      if (!known) continue;
      known.uses -= 1;
      if (known.uses > 0) continue;
      this.#globs.delete(filter);
      this.#choices -= known.choices;
    }
  }

  /** May every event cost this much more? */
  hasRoomFor(filters: readonly EventGlobFilter[]): boolean {
    const more = costly(filters).filter(({ filter }) => !this.#globs.has(filter));
    return more.reduce((sum, { choices }) => sum + choices, this.#choices) <= MAX_CHOICES_OF_ACTOR;
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

  /** Is there any event left that such a subscription could get? */
  carries(filters: readonly EventGlobFilter[]): boolean {
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
    const [anyone] = this.subscriptions; // they are all in one channel
    anyone?.channel.rightsChanged();
  }
}

export type ChannelStep = SecretEvent | Promise<unknown>;

interface ProjectChannelNeeds {
  readonly nextFrameId: () => number;
  /** Something could not be sent: to one stream, or to all. */
  readonly onFault: (error: unknown, subscription?: Subscription) => void;
}

export class ProjectChannel {
  readonly projectId: string;
  readonly orgId: string;
  readonly subscribers = new Map<string, SubscriberRights>();
  readonly subscriptions = new Set<Subscription>();
  readonly #recipients = new RecipientCache<Subscription>();
  readonly #needs: ProjectChannelNeeds;
  readonly #brimming = new Set<Subscription>();
  #steps: ChannelStep[] = [];
  /** Taken from the queue and not sent yet. */
  #next: ChannelStep[] = [];
  #lineBytes = 0;
  #isReading = false;
  #restUntil = 0;
  #messages: OutboundMessage<Subscription>[] = [];
  #saidBytes = 0;
  /** An event of this transaction or a later one is after what any subscription here has seen committed. */
  #newToAll = 0;
  #written = 0;
  #words = 0;

  constructor(project: { readonly id: string; readonly orgId: string }, needs: ProjectChannelNeeds) {
    this.projectId = project.id;
    this.orgId = project.orgId;
    this.#needs = needs;
  }

  enter(subscription: Subscription): void {
    this.subscriptions.add(subscription);
    subscription.rights.enter(subscription);
    this.#recipients.enter(subscription);
    this.#newToAll = Math.max(this.#newToAll, subscription.since.xmax);
  }

  leave(subscription: Subscription): void {
    this.subscriptions.delete(subscription);
    subscription.rights.leave(subscription);
    if (subscription.rights.subscriptions.size === 0) this.subscribers.delete(subscription.actor.id);
    this.#recipients.leave(subscription);
    this.#brimming.delete(subscription);
  }

  hearEverything(): void {
    for (const subscription of this.subscriptions) subscription.since = EVER;
    this.#newToAll = 0;
  }

  rightsChanged(): void {
    this.#recipients.forget();
  }

  /** At the end of the queue: an event, or a promise that never rejects and that later events must wait for. */
  line(step: ChannelStep): void {
    this.#steps.push(step);
    if (!(step instanceof Promise)) this.#lineBytes += weightOf(step);
  }

  get isOverfull(): boolean {
    return this.#lineBytes > MAX_LINE_BYTES;
  }

  dropLine(): void {
    this.#steps.length = 0;
    this.#next.length = 0;
    this.#lineBytes = 0;
  }

  get isDispatching(): boolean {
    return this.#isReading;
  }

  /** Works off the queue. */
  dispatch(): void {
    if (!this.#isReading) void this.#read();
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    while (this.#steps.length > 0) {
      const rest = this.#restUntil - performance.now();
      if (rest >= SHORTEST_REST_MS) await pause(rest);
      for (const step of this.#takeSteps()) {
        if (!(step instanceof Promise)) this.#say(step);
        if (step instanceof Promise || this.#saidBytes >= BATCH_BYTES) await this.#handOver();
        if (step instanceof Promise) await step.catch(this.#needs.onFault);
        if (this.#words < WORDS) continue;
        this.#words = 0;
        await turn();
      }
      await this.#handOver();
      this.#next = [];
    }
    this.#isReading = false;
  }

  /** One event that cannot be sent must not block the next, nor end more than its recipients' streams. */
  #say(event: SecretEvent): void {
    this.#lineBytes -= weightOf(event);
    try {
      this.#putIntoWords(event);
    } catch (error) {
      this.#needs.onFault(error);
    }
  }

  /** Renders an event and finds all subscriptions that match and may get it. */
  #putIntoWords(event: SecretEvent): void {
    const searches = this.#recipients.searches;
    const everyone = this.#recipients.of(event);
    this.#words += this.#recipients.searches > searches ? SEARCH_IN_WORDS : 1;
    const recipients =
      event.xid >= this.#newToAll ? everyone : everyone.filter(({ since }) => isAfter(event, since));
    if (recipients.length === 0) return;
    const frames = messagesOf(event).map(
      (data) => new Frame({ event: event.type, id: this.#needs.nextFrameId(), data }),
    );
    for (const frame of frames) this.#saidBytes += frame.chunk.length;
    this.#messages.push({ frames, recipients });
  }

  async #handOver(): Promise<void> {
    const messages = this.#messages;
    this.#messages = [];
    this.#saidBytes = 0;
    const began = performance.now();
    const [first] = messages;
    if (first && messages.every(({ recipients }) => recipients === first.recipients)) {
      // Nearly always: one event, or several of one folder.
      const whole = wholeOf(messages.flatMap(({ frames }) => frames));
      for (const subscription of first.recipients) if (this.#tell(subscription, whole)) await turn();
    } else {
      for (const [subscription, batch] of batchesOf(messages))
        if (this.#tell(subscription, batch.whole)) await turn();
    }
    const ended = performance.now();
    this.#restUntil = ended + Math.min(LONGEST_REST_MS, (ended - began) * REST_PER_WRITING);
    if (this.#brimming.size > 0) await this.#letReadersCatchUp();
  }

  /** True when it is time to yield to the event loop. */
  #tell(subscription: Subscription, frame: Frame): boolean {
    let waiting = 0;
    try {
      waiting = subscription.stream.send(frame);
    } catch (error) {
      this.#needs.onFault(error, subscription);
    }
    if (waiting > BRIMMING_BYTES && subscription.heldUpMs < PATIENCE_MS) this.#brimming.add(subscription);
    this.#written += 1;
    return this.#written % SLICE === 0;
  }

  #takeSteps(): ChannelStep[] {
    this.#next = this.#steps;
    this.#steps = [];
    return this.#next;
  }

  async #letReadersCatchUp(): Promise<void> {
    while (this.#brimming.size > 0) {
      await pause(CATCH_UP_MS);
      for (const subscription of this.#brimming) {
        const { waitingBytes } = subscription.stream;
        if (waitingBytes <= CALM_BYTES) subscription.heldUpMs = 0;
        else subscription.heldUpMs += CATCH_UP_MS;
        if (waitingBytes <= CALM_BYTES || subscription.heldUpMs >= PATIENCE_MS)
          this.#brimming.delete(subscription);
      }
    }
  }
}
