import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { Writable } from "node:stream";
import { describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { until } from "../../test/event-streams.ts";
import { builtinRules, compileRules, type EffectiveRights } from "../permissions/index.ts";
import type { MemberActor } from "../platform/actor.ts";
import { EventStream } from "../platform/http/index.ts";
import { silentLog } from "../platform/log.ts";
import { END, readRegister, type SecretEvent } from "./model.ts";
import { LiveStreams } from "./service/live-streams.ts";
import { SubscriberRights, Subscription } from "./channels.ts";

/** Takes its time with every write, so that one reader costs as much as hundreds do. */
class SlowSocket extends Writable {
  readonly writes: string[] = [];
  readonly #ms: number;

  constructor(ms: number) {
    super();
    this.#ms = ms;
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    const until = performance.now() + this.#ms;
    while (performance.now() < until);
    this.writes.push(chunk.toString());
    done();
  }

  setKeepAlive(): this {
    return this;
  }

  /** Per write, the keys in it; the headers and pings have none. */
  get told(): string[][] {
    return this.writes
      .map((text) => [...text.matchAll(/"secretKey":"(\w+)"/g)].map(([, key = ""]) => key))
      .filter((keys) => keys.length > 0);
  }
}

/** Longer than any rest: what was committed before a change of rights is sent before that change is applied. */
const LOOK_MS = 40;
const PROJECT = { id: "p", orgId: "o" };
const may = (role: string): EffectiveRights => ({
  ability: compileRules(builtinRules("project", role) ?? []),
  isMember: true,
  validUntil: Number.POSITIVE_INFINITY,
});
const event = (...keys: string[]): SecretEvent => ({
  type: "secret:update",
  projectId: PROJECT.id,
  environment: "dev",
  path: "/",
  keys,
  xid: 10,
});

function openChannel(writeMs: number) {
  const streams = new LiveStreams(1, silentLog);
  const channel = streams.openChannel(PROJECT);
  const socket = new SlowSocket(writeMs);
  const stream = new EventStream(
    { socket, httpVersion: "1.1" } as unknown as IncomingMessage,
    {},
    {
      backlog: streams.backlog,
      elapsed: () => performance.now(),
      onClose: () => streams.leave(subscription),
      onOverflow: () => assert.fail("nothing waits"),
    },
  );
  let given = may("admin");
  const rights = new SubscriberRights(given, async () => {
    await pause(LOOK_MS);
    return given;
  });
  const subscription = new Subscription(
    {
      actor: { kind: "identity", id: "i" } as MemberActor,
      channel,
      rights,
      filters: readRegister([]),
      since: { xmax: 1, running: new Set() },
      tokenEndsAt: Number.POSITIVE_INFINITY,
      pingedWith: new Set(),
    },
    stream,
  );
  channel.subscribers.set("i", rights);
  streams.enter(subscription);
  const hear = (...steps: (SecretEvent | Promise<unknown>)[]) => {
    for (const step of steps) streams.line(channel, step);
    streams.dispatch();
  };
  const change = (role: string): Promise<void> => {
    given = may(role);
    return rights.refresh();
  };
  return { streams, channel, socket, hear, change };
}

describe("a channel that pauses after writing", () => {
  it("sends what arrives meanwhile in one piece, in order, and nothing twice", async () => {
    const { channel, socket, hear } = openChannel(12);
    hear(event("ONE"));
    assert.deepEqual(socket.told, [["ONE"]], "the first is told at once");
    for (const key of ["TWO", "THREE", "FOUR"]) hear(event(key));
    assert.deepEqual(socket.told, [["ONE"]], "it rests");
    await until(() => !channel.isDispatching, "the end of the rest");
    assert.deepEqual(socket.told, [["ONE"], ["TWO", "THREE", "FOUR"]]);
    hear(event("FIVE"));
    await until(() => !channel.isDispatching, "the end of the next rest");
    assert.deepEqual(socket.told.at(-1), ["FIVE"]);
  });

  it("applies a change of rights between two events of one pause, in both directions", async () => {
    const { channel, socket, hear, change } = openChannel(12);
    hear(event("ONE"));
    hear(event("TWO"));
    hear(change("no-access"), event("HIDDEN"));
    await until(() => !channel.isDispatching, "the end of the rest");
    assert.deepEqual(socket.told, [["ONE"], ["TWO"]]);
    hear(change("admin"), event("THREE"));
    await until(() => !channel.isDispatching, "the end of the next rest");
    assert.deepEqual(socket.told, [["ONE"], ["TWO"], ["THREE"]]);
  });
});

describe("a channel that cannot send", () => {
  it("E-06 closes its streams before its queue takes more memory than it may", async () => {
    const { streams, channel, socket, hear } = openChannel(0);
    let open: () => void = () => undefined;
    const forLong = new Promise<void>((resolve) => (open = resolve));
    const keys = Array.from({ length: 1000 }, (_, n) => `${"K".repeat(200)}_${n}`);
    hear(event("ONE"), forLong);
    let lined = 0;
    for (; streams.count > 0 && lined < 1000; lined += 1) {
      hear(event(...keys));
      if (lined % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    assert.ok(lined > 200 && lined < 400, `${lined} events of 230 KiB waited`);
    assert.ok(socket.writes.at(-1)?.includes(END.eventsLost), "they are told why");
    open();
    await until(() => !channel.isDispatching, "the line to be dropped");
    assert.deepEqual(socket.told, [["ONE"]]);
  });
});

describe("a channel in which an event cannot be sent", () => {
  it("closes the streams that would have got it, goes on for others, and does not end the process", async () => {
    const { streams, channel, socket, hear } = openChannel(0);
    // As a node of another version might state it.
    hear({ ...event("ONE"), keys: [7 as unknown as string, Symbol("no words") as unknown as string] });
    await until(() => streams.count === 0 && !channel.isDispatching, "the end of the stream");
    assert.ok(socket.writes.at(-1)?.includes(END.eventsLost), "they are told why");
  });

  it("ends the one stream that cannot be written to", async () => {
    const { streams, channel, hear } = openChannel(0);
    const [subscription] = channel.subscriptions;
    Object.assign(subscription?.stream ?? {}, {
      send: () => {
        throw new Error("a broken stream");
      },
    });
    hear(event("ONE"), Promise.reject(new Error("a step that was promised never to fail")), event("TWO"));
    await until(() => streams.count === 0 && !channel.isDispatching, "the end of the stream");
  });

  it("F10 finds an organisation's channel without walking through all of them", () => {
    const streams = new LiveStreams(1, silentLog);
    for (let n = 0; n < 100; n += 1) streams.openChannel({ id: `p${n}`, orgId: `o${n % 10}` });
    Object.assign(streams, { channels: () => assert.fail("all channel were walked through") });
    assert.equal(streams.channelsOf("o3").length, 10);
    assert.deepEqual(streams.channelsOf("nobody's"), []);
  });
});
