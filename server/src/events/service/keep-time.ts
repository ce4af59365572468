/**
 * One tick for all streams instead of a timer for each: pings, spread over fifteen seconds; the ends of tokens,
 * temporary roles and licences; readers that stand still. It ticks only while a stream is open.
 */
import type { Licences } from "../../licences/index.ts";
import type { Clock } from "../../platform/clock.ts";
import { Frame } from "../../platform/http/index.ts";
import type { Log } from "../../platform/log.ts";
import type { Tail } from "../../platform/outbox/index.ts";
import type { Listener } from "../halls/service.ts";
import { END, FEATURE } from "../model.ts";
import { BEAT_SECONDS, type Slots } from "../slots/service.ts";
import type { Hearing } from "./hear-facts.ts";
import { groupBy, SLOW_LINGER_MS, type LiveStreams } from "./live-streams.ts";

export interface TimekeeperNeeds {
  readonly tail: Tail;
  readonly clock: Clock;
  readonly log: Log;
  readonly licences: Licences;
  readonly slots: Slots;
  readonly streams: LiveStreams;
  readonly hearing: Hearing;
}

const TICK_MS = 250;
const TICKS_PER_SECOND = 1000 / TICK_MS;
const PING_SECONDS = 15;
/** A node that cannot read the outbox for so long sends its readers to others, which may be able to. */
const MAX_DEAF_MS = 60_000;
const PING = new Frame({ event: "ping" });

export class Timekeeper {
  readonly #needs: TimekeeperNeeds;
  readonly #pinged = Array.from({ length: PING_SECONDS * TICKS_PER_SECOND }, () => new Set<Listener>());
  #ticks = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(needs: TimekeeperNeeds) {
    this.#needs = needs;
  }

  /** Those that are pinged on one tick. Drawn by lot: streams that came together are not pinged together. */
  drawTick(): Set<Listener> {
    return this.#pinged[Math.floor(Math.random() * this.#pinged.length)] ?? new Set();
  }

  isDeaf(): boolean {
    return this.#needs.tail.lagMs() >= MAX_DEAF_MS;
  }

  start(): void {
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #tick(): void {
    const { streams, slots, log } = this.#needs;
    this.#ticks += 1;
    // Also to those with something waiting: some readers take nothing but a ping for a sign of life.
    for (const { stream } of this.#pinged[this.#ticks % this.#pinged.length] ?? []) stream.sendIfRoom(PING);
    if (this.#ticks % (TICKS_PER_SECOND / 2) === 0) this.#endThoseWhoseTimeIsUp();
    if (this.#ticks % TICKS_PER_SECOND === 0) this.#endUnlicensed();
    if (this.#ticks % (BEAT_SECONDS * TICKS_PER_SECOND) === 0) {
      slots
        .beat()
        .catch((error: unknown) =>
          log.debug({ reason: (error as Error).message }, "this node could not show itself"),
        );
    }
    if (streams.count === 0) this.stop();
  }

  #endThoseWhoseTimeIsUp(): void {
    const { streams, hearing, clock } = this.#needs;
    const now = clock.millis();
    if (this.isDeaf()) streams.endAll(END.eventsLost);
    for (const hall of streams.halls()) {
      for (const listener of hall.listeners)
        if (now >= listener.tokenEndsAt) streams.end(listener, END.tokenExpired);
      for (const holder of hall.holders.values()) {
        if (holder.isOutdated(now)) streams.line(hall, hearing.refresh(holder));
      }
    }
    for (const stream of streams.backlog.behind) {
      if (stream.isStill()) streams.end({ stream }, END.tooSlow, SLOW_LINGER_MS);
    }
    streams.readOut();
  }

  /** A licence ends by the clock, without a fact. */
  #endUnlicensed(): void {
    const { streams, licences } = this.#needs;
    for (const [orgId, halls] of groupBy(streams.halls(), (hall) => hall.orgId)) {
      licences.has(orgId, FEATURE).then(
        (isLicensed) => {
          if (!isLicensed) for (const hall of halls) streams.endEach(hall.listeners, END.licenceGone);
        },
        () => undefined, // asked again in a second
      );
    }
  }
}
