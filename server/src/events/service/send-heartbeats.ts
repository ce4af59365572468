/**
 * One tick for all streams instead of a timer for each: pings, spread over fifteen seconds; the ends of tokens,
 * temporary roles and licences; stalled readers. It ticks only while a stream is open.
 */
import type { Licences } from "../../licences/index.ts";
import type { Clock } from "../../platform/clock.ts";
import { Frame } from "../../platform/http/index.ts";
import type { Log } from "../../platform/log.ts";
import type { Tail } from "../../platform/outbox/index.ts";
import { groupBy } from "../../platform/group-by.ts";
import type { Subscription } from "../channels.ts";
import { END, FEATURE } from "../model.ts";
import { BEAT_SECONDS, type StreamQuota } from "../stream-quota.ts";
import type { EventRouter } from "./route-facts.ts";
import { SLOW_LINGER_MS, type LiveStreams } from "./live-streams.ts";

interface HeartbeatNeeds {
  readonly tail: Tail;
  readonly clock: Clock;
  readonly log: Log;
  readonly licences: Licences;
  readonly quota: StreamQuota;
  readonly streams: LiveStreams;
  readonly router: EventRouter;
}

const TICK_MS = 250;
const TICKS_PER_SECOND = 1000 / TICK_MS;
const PING_SECONDS = 15;
/** A node that cannot read the outbox for this long closes its streams, so that clients try another node. */
const MAX_BEHIND_MS = 60_000;
const PING = new Frame({ event: "ping" });

export class Heartbeat {
  readonly #needs: HeartbeatNeeds;
  readonly #pinged = Array.from({ length: PING_SECONDS * TICKS_PER_SECOND }, () => new Set<Subscription>());
  #ticks = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(needs: HeartbeatNeeds) {
    this.#needs = needs;
  }

  /** Those that are pinged on one tick. Chosen at random: streams that were opened together are not pinged together. */
  drawTick(): Set<Subscription> {
    return this.#pinged[Math.floor(Math.random() * this.#pinged.length)] ?? new Set();
  }

  isBehind(): boolean {
    return this.#needs.tail.lagMs() >= MAX_BEHIND_MS;
  }

  start(): void {
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #tick(): void {
    const { streams, quota, log } = this.#needs;
    this.#ticks += 1;
    // Also to those with a backlog: some clients accept nothing but a ping as a sign of life.
    for (const { stream } of this.#pinged[this.#ticks % this.#pinged.length] ?? []) stream.sendIfRoom(PING);
    if (this.#ticks % (TICKS_PER_SECOND / 2) === 0) this.#endThoseWhoseTimeIsUp();
    if (this.#ticks % TICKS_PER_SECOND === 0) this.#endUnlicensed();
    if (this.#ticks % (BEAT_SECONDS * TICKS_PER_SECOND) === 0) {
      quota
        .beat()
        .catch((error: unknown) =>
          log.debug({ reason: (error as Error).message }, "this node could not show itself"),
        );
    }
    if (streams.count === 0) this.stop();
  }

  #endThoseWhoseTimeIsUp(): void {
    const { streams, router, clock } = this.#needs;
    const now = clock.millis();
    if (this.isBehind()) streams.endAll(END.eventsLost);
    for (const channel of streams.channels()) {
      for (const subscription of channel.subscriptions)
        if (now >= subscription.tokenEndsAt) streams.end(subscription, END.tokenExpired);
      for (const rights of channel.subscribers.values()) {
        if (rights.isOutdated(now)) streams.line(channel, router.refresh(rights));
      }
    }
    for (const stream of streams.backlog.behind) {
      if (stream.isStill()) streams.end({ stream }, END.tooSlow, SLOW_LINGER_MS);
    }
    streams.dispatch();
  }

  /** A licence expires with time, without a fact. */
  #endUnlicensed(): void {
    const { streams, licences } = this.#needs;
    for (const [orgId, channels] of groupBy(streams.channels(), (channel) => channel.orgId)) {
      licences.has(orgId, FEATURE).then(
        (isLicensed) => {
          if (!isLicensed)
            for (const channel of channels) streams.endEach(channel.subscriptions, END.licenceGone);
        },
        () => undefined, // asked again in a second
      );
    }
  }
}
