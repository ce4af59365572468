/** The streams that are open on this node: by project, by actor, and by the tick on which they are pinged. */
import type { MemberActor } from "../../platform/actor.ts";
import { Backlog, Frame } from "../../platform/http/index.ts";
import type { Log } from "../../platform/log.ts";
import { Hall, type Listener, type Step } from "../halls/service.ts";
import { END } from "../model.ts";

/** What is over is over within a second, read or not. */
export const PROMPT_LINGER_MS = 1000;
/** A slow reader may come back to learn why it was left. */
export const SLOW_LINGER_MS = 30_000;

const beforeDelete = (message: string): Frame =>
  new Frame({ event: "error", data: JSON.stringify({ message }) });

export class LiveStreams {
  readonly backlog = new Backlog();
  readonly #log: Pick<Log, "error">;
  readonly #halls = new Map<string, Hall>();
  readonly #hallsByOrg = new Map<string, Set<Hall>>();
  readonly #byActor = new Map<string, Set<Listener>>();
  readonly #moving = new Set<Hall>();
  #count = 0;
  #frameId: number;

  constructor(firstFrameId: number, log: Pick<Log, "error">) {
    this.#log = log;
    this.#frameId = firstFrameId;
  }

  get count(): number {
    return this.#count;
  }

  halls(): readonly Hall[] {
    return [...this.#halls.values()];
  }

  /** By index: other organisations' halls cost nothing. */
  hallsOf(orgId: string): readonly Hall[] {
    return [...(this.#hallsByOrg.get(orgId) ?? [])];
  }

  hallOf(projectId: string): Hall | undefined {
    return this.#halls.get(projectId);
  }

  openHall(project: { readonly id: string; readonly orgId: string }): Hall {
    // One counter for all streams: a frame is rendered once, and its id rises in each of them.
    const known = this.#halls.get(project.id);
    if (known) return known;
    const hall: Hall = new Hall(project, {
      nextFrameId: () => (this.#frameId += 1),
      onFault: (error, listener) => this.#fault(hall, error, listener),
    });
    this.#halls.set(project.id, hall);
    const ofOrg = this.#hallsByOrg.get(project.orgId) ?? new Set();
    this.#hallsByOrg.set(project.orgId, ofOrg.add(hall));
    return hall;
  }

  /** Something could not be told: whoever may have missed it is not left to believe that nothing happened. */
  #fault(hall: Hall, error: unknown, listener?: Listener): void {
    this.#log.error({ err: error, projectId: hall.projectId }, "an event could not be told; this is a bug");
    this.endEach(listener ? [listener] : hall.listeners, END.eventsLost);
  }

  #closeHall(hall: Hall): void {
    this.#halls.delete(hall.projectId);
    const ofOrg = this.#hallsByOrg.get(hall.orgId);
    ofOrg?.delete(hall);
    if (ofOrg?.size === 0) this.#hallsByOrg.delete(hall.orgId);
  }

  of(actor: Pick<MemberActor, "id">): Iterable<Listener> {
    return this.#byActor.get(actor.id) ?? [];
  }

  actorIds(): readonly string[] {
    return [...this.#byActor.keys()];
  }

  enter(listener: Listener): void {
    listener.hall.enter(listener);
    listener.pingedWith.add(listener);
    const own = this.#byActor.get(listener.actor.id) ?? new Set();
    this.#byActor.set(listener.actor.id, own.add(listener));
    this.#count += 1;
  }

  leave(listener: Listener): void {
    const { hall, actor, pingedWith } = listener;
    hall.leave(listener);
    if (hall.listeners.size === 0) this.#closeHall(hall);
    const own = this.#byActor.get(actor.id);
    own?.delete(listener);
    if (own?.size === 0) this.#byActor.delete(actor.id);
    pingedWith.delete(listener);
    this.#count -= 1;
  }

  /** The database may be another one: what its transactions are called says nothing about when streams were opened. */
  hearEverything(): void {
    for (const hall of this.halls()) hall.hearEverything();
  }

  /** At the end of the hall's line; the lines move once everything that was heard together stands in them. */
  line(hall: Hall | undefined, step: Step): void {
    if (!hall) return;
    try {
      hall.line(step);
    } catch (error) {
      return this.#fault(hall, error);
    }
    this.#moving.add(hall);
    if (!hall.isOverfull) return;
    // Whatever keeps it from being read out, memory has an end: they come back and start over.
    this.endEach(hall.listeners, END.eventsLost);
    hall.dropLine();
  }

  readOut(): void {
    for (const hall of this.#moving) hall.readOut();
    this.#moving.clear();
  }

  isReadingOut(): boolean {
    return this.halls().some((hall) => hall.isReadingOut);
  }

  end(listener: Pick<Listener, "stream">, message: string, lingerMs = PROMPT_LINGER_MS): void {
    listener.stream.end(beforeDelete(message), lingerMs);
  }

  endEach(listeners: Iterable<Listener>, message: string): void {
    for (const listener of [...listeners]) this.end(listener, message);
  }

  endAll(message: string): void {
    for (const hall of this.halls()) this.endEach(hall.listeners, message);
  }
}

export function groupBy<Item>(items: Iterable<Item>, keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}
