/**
 * Subscriptions to a project's events. Every node tails the outbox; what it hears is either an event, which goes to
 * the project's hall, or news about someone's rights, after which the streams that stand on them are looked at anew
 * before any later event is read out. One clock tick for all streams keeps them alive and ends those whose time is up.
 */
import { sessionsChanged, tokensChanged, type Authentication } from "../auth/index.ts";
import { identityChanged, identityDeleted } from "../identities/index.ts";
import { licenceChanged, type Licences } from "../licences/index.ts";
import { accessChanged, deny, type Permissions, type Standing } from "../permissions/index.ts";
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { ReplyControl } from "../platform/http/index.ts";
import { Backlog, Frame } from "../platform/http/index.ts";
import type { Log } from "../platform/log.ts";
import type { NumberedFact, Tail } from "../platform/outbox/index.ts";
import { unauthorized } from "../platform/problem.ts";
import { projectDeleted, type ProjectRow, type Projects } from "../projects/index.ts";
import { importsMutated, secretsChanged } from "../secrets/events.ts";
import type { Subscribe } from "./contract.ts";
import { Hall, Holder, type Listener } from "./halls/service.ts";
import { ACTION_OF, END, nodeStopping, readRegister, SUBJECT, type Filter, type SecretEvent, type Since } from "./model.ts";
import { BEAT_SECONDS, type Slots } from "./slots/service.ts";

export interface EventNeeds {
  readonly tail: Tail;
  readonly clock: Clock;
  readonly log: Log;
  readonly projects: Projects;
  readonly permissions: Permissions;
  readonly licences: Licences;
  readonly authentication: Authentication;
  readonly slots: Slots;
}

export interface Events {
  /** Opens the stream through `door.open` once everything is in order; throws the refusal before. */
  subscribe(actor: MemberActor, input: Subscribe, door: StreamDoor): Promise<void>;
  /** How many streams are open on this node. */
  openStreams(): number;
  /** Ends every stream with an error event and lets no more in. */
  stop(): Promise<void>;
}

export interface StreamDoor {
  readonly header: string | undefined;
  readonly open: ReplyControl["stream"];
}

const FEATURE = "eventSubscriptions";
const TICK_MS = 250;
const PING_SLOTS = 60; // 60 ticks of 250 ms: one ping every 15 s
const TICKS_PER_SECOND = 1000 / TICK_MS;
const PROMPT_LINGER_MS = 1000;
const SLOW_LINGER_MS = 30_000;
const REFRESH_ATTEMPTS = 20;
const REFRESH_PAUSE_MS = 250;
const PING = new Frame({ event: "ping" });

export const createEvents = (needs: EventNeeds): Events => new EventService(needs);

class EventService implements Events {
  readonly #needs: EventNeeds;
  readonly #backlog = new Backlog();
  readonly #halls = new Map<string, Hall>();
  readonly #byActor = new Map<string, Set<Listener>>();
  readonly #pingSlots = Array.from({ length: PING_SLOTS }, () => new Set<Listener>());
  #openCount = 0;
  #frameId: number;
  /** Counts news about rights: a subscription that was checked before the latest of it is checked again. */
  #news = 0;
  #ticks = 0;
  #ticking: NodeJS.Timeout | undefined;
  #isStopping = false;

  constructor(needs: EventNeeds) {
    this.#needs = needs;
    this.#frameId = needs.clock.millis();
    needs.tail.onFacts((facts) => {
      for (const fact of facts) this.#hear(fact);
    });
    needs.tail.onGap(() => this.#endAll(END.eventsLost, PROMPT_LINGER_MS));
  }

  openStreams(): number {
    return this.#openCount;
  }

  async subscribe(actor: MemberActor, input: Subscribe, door: StreamDoor): Promise<void> {
    const filters = readRegister(input.register);
    if (this.#isStopping) throw nodeStopping();
    const { project } = await this.#admit(actor, input.projectId, filters);
    const since = await this.#needs.slots.take(project.id, actor.id);
    try {
      // What was checked must still be true at the moment the stream is entered; from there on, facts keep it true.
      for (;;) {
        const newsBefore = this.#news;
        const { standing } = await this.#admit(actor, input.projectId, filters);
        if (this.#isStopping) throw nodeStopping();
        if (newsBefore !== this.#news) continue;
        this.#open({ actor, project, filters, since, standing }, door);
        return;
      }
    } catch (error) {
      this.#needs.slots.release(project.id, actor.id);
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#endAll(END.stopping, PROMPT_LINGER_MS);
    for (let waited = 0; this.#openCount > 0 && waited < PROMPT_LINGER_MS * 2; waited += 10) await new Promise((resolve) => setTimeout(resolve, 10));
    clearInterval(this.#ticking);
    await this.#needs.slots.leave();
  }

  // --- Coming in ---

  async #admit(actor: MemberActor, ref: string, filters: readonly Filter[]): Promise<{ project: ProjectRow; standing: Standing }> {
    const { authentication, projects, permissions, licences } = this.#needs;
    if (!(await authentication.isLive(actor))) throw unauthorized(END.tokenRevoked);
    const project = await projects.resolve(actor, ref);
    const standing = await permissions.standingInProject(actor, project.id);
    for (const { event } of filters) {
      const wanted = { action: ACTION_OF[event], subject: SUBJECT };
      if (!standing.ability.can(wanted.action, wanted.subject)) deny(standing.ability, wanted);
    }
    await licences.require(project.orgId, FEATURE);
    return { project, standing };
  }

  #open(order: { actor: MemberActor; project: ProjectRow; filters: readonly Filter[]; since: Since; standing: Standing }, door: StreamDoor): void {
    const { actor, project, filters, since, standing } = order;
    const hall = this.#halls.get(project.id) ?? new Hall(project, () => (this.#frameId += 1));
    this.#halls.set(project.id, hall);
    const load = () => this.#needs.permissions.standingInProject(actor, project.id);
    const holder = hall.holders.get(actor.id) ?? new Holder(standing, load);
    hall.holders.set(actor.id, holder);
    const stream = door.open({
      backlog: this.#backlog,
      elapsed: this.#needs.clock.elapsed,
      onClose: () => this.#left(listener),
      onOverflow: () => this.#end(listener, END.tooSlow, SLOW_LINGER_MS),
    });
    const tokenEndsAt = this.#needs.authentication.endOf(door.header);
    const listener: Listener = { actor, hall, holder, filters, since, tokenEndsAt, stream, considered: undefined, heldUpMs: 0 };
    hall.enter(listener);
    const own = this.#byActor.get(actor.id) ?? new Set();
    this.#byActor.set(actor.id, own.add(listener));
    this.#openCount += 1;
    // Any slot will do, so that ten thousand streams that came together are not pinged together.
    this.#pingSlots[Math.floor(Math.random() * PING_SLOTS)]?.add(listener);
    this.#ticking ??= setInterval(() => this.#tick(), TICK_MS).unref();
  }

  #left(listener: Listener): void {
    const { actor, hall } = listener;
    hall.leave(listener);
    if (hall.listeners.size === 0) this.#halls.delete(hall.projectId);
    const own = this.#byActor.get(actor.id);
    own?.delete(listener);
    if (own?.size === 0) this.#byActor.delete(actor.id);
    for (const slot of this.#pingSlots) if (slot.delete(listener)) break;
    this.#openCount -= 1;
    this.#needs.slots.release(hall.projectId, actor.id);
  }

  // --- Hearing ---

  #hear(fact: NumberedFact): void {
    const event = eventOf(fact);
    if (event) return this.#halls.get(event.projectId)?.announce(event);
    if (accessChanged.is(fact)) this.#accessChanged(fact.data);
    else if (tokensChanged.is(fact)) this.#tokensChanged(fact.data.identityId, fact.data.tokenId);
    else if (sessionsChanged.is(fact)) this.#tokensChanged(fact.data.userId, fact.data.sessionId);
    else if (identityDeleted.is(fact) || identityChanged.is(fact)) this.#tokensChanged(fact.data.identityId, null);
    else if (licenceChanged.is(fact)) this.#licenceChanged(fact.data.orgId);
    else if (projectDeleted.is(fact)) this.#projectDeleted(fact.data.projectId);
  }

  #accessChanged({ orgId, projectId, actorId }: { orgId: string; projectId: string | null; actorId: string | null }): void {
    this.#news += 1;
    const halls = projectId === null ? this.#hallsOf(orgId) : [this.#halls.get(projectId)];
    for (const hall of halls) {
      if (!hall) continue;
      const holders = actorId === null ? [...hall.holders.values()] : [hall.holders.get(actorId)].filter((holder) => holder !== undefined);
      if (holders.length > 0) hall.waitFor(Promise.all(holders.map((holder) => this.#refresh(holder))));
    }
    // A user's session lives as long as the membership in its organisation.
    if (projectId === null && actorId !== null) this.#tokensChanged(actorId, null);
  }

  #tokensChanged(actorId: string, tokenId: string | null): void {
    this.#news += 1;
    const byToken = Map.groupBy(this.#byActor.get(actorId) ?? [], (listener) => listener.actor.tokenId);
    for (const [id, listeners] of byToken) {
      const [first] = listeners;
      if (!first || (tokenId !== null && tokenId !== id)) continue;
      const checked = this.#persistently(() => this.#needs.authentication.isLive(first.actor)).then((isLive) => {
        if (isLive !== true) this.#endEach(listeners, isLive === false ? END.tokenRevoked : END.rightsUnknown);
      });
      for (const hall of new Set(listeners.map((listener) => listener.hall))) hall.waitFor(checked);
    }
  }

  #licenceChanged(orgId: string | null): void {
    this.#news += 1;
    const halls = orgId === null ? [...this.#halls.values()] : this.#hallsOf(orgId);
    for (const [id, ofOrg] of Map.groupBy(halls, (hall) => hall.orgId)) {
      const checked = this.#checkLicence(id, ofOrg);
      for (const hall of ofOrg) hall.waitFor(checked);
    }
  }

  #projectDeleted(projectId: string): void {
    this.#news += 1;
    this.#endEach(this.#halls.get(projectId)?.listeners ?? [], END.projectGone);
  }

  #hallsOf(orgId: string): Hall[] {
    return [...this.#halls.values()].filter((hall) => hall.orgId === orgId);
  }

  // --- Looking anew ---

  /** Never rejects: whoever's rights cannot be known is sent away. */
  async #refresh(holder: Holder): Promise<void> {
    const isKnown = await this.#persistently(async () => {
      await holder.refresh();
      return true;
    });
    if (!isKnown) return this.#endEach(holder.listeners, END.rightsUnknown);
    for (const listener of holder.listeners) if (!holder.carries(listener.filters)) this.#end(listener, END.rightsGone, PROMPT_LINGER_MS);
  }

  async #checkLicence(orgId: string, halls: readonly Hall[]): Promise<void> {
    const isLicensed = await this.#persistently(() => this.#needs.licences.has(orgId, FEATURE));
    if (isLicensed === true) return;
    for (const hall of halls) this.#endEach(hall.listeners, isLicensed === false ? END.licenceGone : END.rightsUnknown);
  }

  /** The database may be away for a moment; undefined if it stays away. */
  async #persistently<T>(look: () => Promise<T>): Promise<T | undefined> {
    for (let attempt = 1; attempt <= REFRESH_ATTEMPTS; attempt += 1) {
      try {
        return await look();
      } catch (error) {
        this.#needs.log.debug({ reason: (error as Error).message }, "rights could not be looked up; trying again");
        await new Promise((resolve) => setTimeout(resolve, REFRESH_PAUSE_MS));
      }
    }
    return undefined;
  }

  // --- Ending ---

  #end(listener: Listener, message: string, lingerMs: number): void {
    listener.stream.end(new Frame({ event: "error", data: JSON.stringify({ message }) }), lingerMs);
  }

  #endEach(listeners: Iterable<Listener>, message: string): void {
    for (const listener of [...listeners]) this.#end(listener, message, PROMPT_LINGER_MS);
  }

  #endAll(message: string, lingerMs: number): void {
    for (const hall of this.#halls.values()) for (const listener of [...hall.listeners]) this.#end(listener, message, lingerMs);
  }

  // --- The one clock tick ---

  #tick(): void {
    this.#ticks += 1;
    for (const { stream } of this.#pingSlots[this.#ticks % PING_SLOTS] ?? []) if (stream.waitingBytes === 0) stream.send(PING);
    if (this.#ticks % (TICKS_PER_SECOND / 2) === 0) this.#endThoseWhoseTimeIsUp();
    if (this.#ticks % TICKS_PER_SECOND === 0) for (const [orgId, halls] of Map.groupBy(this.#halls.values(), (hall) => hall.orgId)) void this.#checkLicence(orgId, halls);
    if (this.#ticks % (BEAT_SECONDS * TICKS_PER_SECOND) === 0) {
      this.#needs.slots.beat().catch((error: unknown) => this.#needs.log.debug({ reason: (error as Error).message }, "this node could not show itself"));
    }
    if (this.#openCount > 0) return;
    clearInterval(this.#ticking);
    this.#ticking = undefined;
  }

  #endThoseWhoseTimeIsUp(): void {
    const now = this.#needs.clock.millis();
    for (const hall of this.#halls.values()) {
      for (const listener of hall.listeners) if (now >= listener.tokenEndsAt) this.#end(listener, END.tokenExpired, PROMPT_LINGER_MS);
      for (const holder of hall.holders.values()) if (now >= holder.validUntil) hall.waitFor(this.#refresh(holder));
    }
    for (const stream of this.#backlog.behind) if (stream.isStill()) stream.end(SLOW, SLOW_LINGER_MS);
  }
}

const SLOW = new Frame({ event: "error", data: JSON.stringify({ message: END.tooSlow }) });

function eventOf(fact: NumberedFact): SecretEvent | undefined {
  if (secretsChanged.is(fact)) {
    const { projectId, environment, path, change, keys } = fact.data;
    return { type: `secret:${change}`, projectId, environment, path, keys, xid: fact.xid };
  }
  if (!importsMutated.is(fact)) return undefined;
  const { projectId, environment, path } = fact.data;
  return { type: "secret:import-mutation", projectId, environment, path, keys: null, xid: fact.xid };
}
