/** The streams that are open on this node: by project, by actor, and by the tick on which they are pinged. */
import type { MemberActor } from "../../platform/actor.ts";
import { Backlog, Frame } from "../../platform/http/index.ts";
import type { Log } from "../../platform/log.ts";
import { ProjectChannel, type Subscription, type ChannelStep } from "../channels.ts";
import { END } from "../model.ts";

/** An ended stream is closed within a second, whether its reader has read everything or not. */
export const PROMPT_LINGER_MS = 1000;
/** A slow reader may still read why it was disconnected. */
export const SLOW_LINGER_MS = 30_000;

const beforeDelete = (message: string): Frame =>
  new Frame({ event: "error", data: JSON.stringify({ message }) });

export class LiveStreams {
  readonly backlog = new Backlog();
  readonly #log: Pick<Log, "error">;
  readonly #channels = new Map<string, ProjectChannel>();
  readonly #channelsByOrg = new Map<string, Set<ProjectChannel>>();
  readonly #byActor = new Map<string, Set<Subscription>>();
  readonly #moving = new Set<ProjectChannel>();
  #count = 0;
  #frameId: number;

  constructor(firstFrameId: number, log: Pick<Log, "error">) {
    this.#log = log;
    this.#frameId = firstFrameId;
  }

  get count(): number {
    return this.#count;
  }

  channels(): readonly ProjectChannel[] {
    return [...this.#channels.values()];
  }

  /** By index: other organisations' channels cost nothing. */
  channelsOf(orgId: string): readonly ProjectChannel[] {
    return [...(this.#channelsByOrg.get(orgId) ?? [])];
  }

  channelOf(projectId: string): ProjectChannel | undefined {
    return this.#channels.get(projectId);
  }

  openChannel(project: { readonly id: string; readonly orgId: string }): ProjectChannel {
    // One counter for all streams: a message is rendered once, and its id increases in each of them.
    const known = this.#channels.get(project.id);
    if (known) return known;
    const channel: ProjectChannel = new ProjectChannel(project, {
      nextFrameId: () => (this.#frameId += 1),
      onFault: (error, subscription) => this.#fault(channel, error, subscription),
    });
    this.#channels.set(project.id, channel);
    const ofOrg = this.#channelsByOrg.get(project.orgId) ?? new Set();
    this.#channelsByOrg.set(project.orgId, ofOrg.add(channel));
    return channel;
  }

  /** Something could not be sent: streams that may have missed it are closed, so that nobody believes nothing happened. */
  #fault(channel: ProjectChannel, error: unknown, subscription?: Subscription): void {
    this.#log.error(
      { err: error, projectId: channel.projectId },
      "an event could not be told; this is a bug",
    );
    this.endEach(subscription ? [subscription] : channel.subscriptions, END.eventsLost);
  }

  #closeChannel(channel: ProjectChannel): void {
    this.#channels.delete(channel.projectId);
    const ofOrg = this.#channelsByOrg.get(channel.orgId);
    ofOrg?.delete(channel);
    if (ofOrg?.size === 0) this.#channelsByOrg.delete(channel.orgId);
  }

  of(actor: Pick<MemberActor, "id">): Iterable<Subscription> {
    return this.#byActor.get(actor.id) ?? [];
  }

  actorIds(): readonly string[] {
    return [...this.#byActor.keys()];
  }

  enter(subscription: Subscription): void {
    subscription.channel.enter(subscription);
    subscription.pingedWith.add(subscription);
    const own = this.#byActor.get(subscription.actor.id) ?? new Set();
    this.#byActor.set(subscription.actor.id, own.add(subscription));
    this.#count += 1;
  }

  leave(subscription: Subscription): void {
    const { channel, actor, pingedWith } = subscription;
    channel.leave(subscription);
    if (channel.subscriptions.size === 0) this.#closeChannel(channel);
    const own = this.#byActor.get(actor.id);
    own?.delete(subscription);
    if (own?.size === 0) this.#byActor.delete(actor.id);
    pingedWith.delete(subscription);
    this.#count -= 1;
  }

  /** The database may be another one: its transaction ids say nothing about when streams were opened. */
  hearEverything(): void {
    for (const channel of this.channels()) channel.hearEverything();
  }

  /** At the end of the channel's queue; queues are worked off once all facts of one batch are in them. */
  line(channel: ProjectChannel | undefined, step: ChannelStep): void {
    if (!channel) return;
    try {
      channel.line(step);
    } catch (error) {
      return this.#fault(channel, error);
    }
    this.#moving.add(channel);
    if (!channel.isOverfull) return;
    // Whatever blocks it, memory is bounded: its clients are disconnected and start over.
    this.endEach(channel.subscriptions, END.eventsLost);
    channel.dropLine();
  }

  dispatch(): void {
    for (const channel of this.#moving) channel.dispatch();
    this.#moving.clear();
  }

  isDispatching(): boolean {
    return this.channels().some((channel) => channel.isDispatching);
  }

  end(subscription: Pick<Subscription, "stream">, message: string, lingerMs = PROMPT_LINGER_MS): void {
    subscription.stream.end(beforeDelete(message), lingerMs);
  }

  endEach(subscriptions: Iterable<Subscription>, message: string): void {
    for (const subscription of [...subscriptions]) this.end(subscription, message);
  }

  endAll(message: string): void {
    for (const channel of this.channels()) this.endEach(channel.subscriptions, message);
  }
}
