import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { after, afterEach, before, describe, it } from "node:test";
import {
  Backlog,
  EventStream,
  Frame,
  MAX_HELD_BYTES,
  MAX_STILL_MS,
  MAX_WAITING_BYTES,
  SCARCE_WAITING_BYTES,
} from "./sse.ts";

const GOODBYE = new Frame({ event: "error", data: '{"message":"bye"}' });

async function until(isTrue: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (!isTrue()) {
    if (Date.now() > deadline) throw new Error(`waited in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

describe("an event stream on a socket", () => {
  let server: Server;
  let backlog = new Backlog();
  let now = 0;
  let opened: EventStream[] = [];
  let closed = 0;
  let overflows = 0;
  const sockets: Socket[] = [];

  before(async () => {
    server = createServer((request) => {
      const stream: EventStream = new EventStream(
        request,
        {},
        {
          backlog,
          elapsed: () => now,
          onClose: () => (closed += 1),
          onOverflow: () => {
            overflows += 1;
            stream.end(GOODBYE, 60_000);
          },
        },
      );
      opened.push(stream);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  });
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
    [backlog, opened, closed, overflows, now] = [new Backlog(), [], 0, 0, 0];
  });
  after(() => server.close());

  const dial = async (
    version = "1.1",
  ): Promise<{ socket: Socket; stream: EventStream; text: () => string }> => {
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    sockets.push(socket);
    let text = "";
    socket.on("data", (bytes) => (text += bytes.toString("latin1")));
    socket.on("error", () => undefined);
    const before = opened.length;
    socket.write(`GET / HTTP/${version}\r\nhost: x\r\n\r\n`);
    await until(() => text.includes("\r\n\r\n"), "the head, sent before any event");
    return { socket, stream: opened[before] as EventStream, text: () => text };
  };

  it("writes a frame as one HTTP chunk, and ends with the last chunk", async () => {
    const { stream, text, socket } = await dial();
    stream.send(new Frame({ event: "ping" }));
    stream.send(new Frame({ event: "é", id: 7, data: "{}" }));
    stream.end(GOODBYE, 1000);
    await new Promise((resolve) => socket.once("end", resolve));
    const [head = "", ...rest] = text().split("\r\n\r\n");
    assert.match(head, /transfer-encoding: chunked/i);
    const body = rest.join("\r\n\r\n");
    const frames = [
      "event: ping\n\n",
      "id: 7\nevent: Ã©\ndata: {}\n\n",
      'event: error\ndata: {"message":"bye"}\n\n',
    ];
    assert.equal(
      body,
      `${frames.map((frame) => `${frame.length.toString(16)}\r\n${frame}\r\n`).join("")}0\r\n\r\n`,
    );
  });

  it("speaks without chunks to a peer of HTTP/1.0, as nginx is by default", async () => {
    const { stream, text, socket } = await dial("1.0");
    stream.send(new Frame({ event: "ping" }));
    stream.end(GOODBYE, 1000);
    await new Promise((resolve) => socket.once("end", resolve));
    assert.doesNotMatch(text(), /transfer-encoding/i);
    assert.ok(text().endsWith('\r\n\r\nevent: ping\n\nevent: error\ndata: {"message":"bye"}\n\n'));
  });

  it("E-06 keeps at most 1 MiB for a reader that stalls, and ends after a whole message with an error it can still read", async () => {
    const { stream, text, socket } = await dial();
    socket.pause();
    const frame = () => new Frame({ event: "secret:create", id: 1, data: "x".repeat(30_000) });
    let most = 0;
    for (let n = 0; overflows === 0 && n < 2000; n += 1) {
      stream.send(frame());
      most = Math.max(most, stream.waitingBytes);
      if (n % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal(overflows, 1);
    assert.ok(most <= MAX_WAITING_BYTES + 31_000, `${most} bytes waited`);
    assert.equal(backlog.heldBytes, 0, "what waited was dropped with the stream");
    assert.ok(!stream.isOpen);
    socket.resume();
    await new Promise((resolve) => socket.once("end", resolve));
    assert.ok(text().endsWith(`\r\nevent: error\ndata: {"message":"bye"}\n\n\r\n0\r\n\r\n`));
    const whole = text().match(/data: x{30000}\n\n\r\n/g)?.length ?? 0;
    assert.equal(text().match(/event: secret:create/g)?.length, whole, "no frame was cut");
  });

  it("counts a message that waits for many once, and releases it when the last has it", async () => {
    const readers = [await dial(), await dial(), await dial()];
    for (const { socket } of readers) socket.pause();
    const frame = new Frame({ event: "secret:create", data: "y".repeat(30_000) });
    for (const { stream } of readers) while (stream.waitingBytes < 200_000) stream.send(frame);
    assert.equal(backlog.heldBytes, frame.chunk.length);
    assert.equal(backlog.behind.size, 3);
    for (const { socket } of readers) socket.resume();
    await until(() => readers.every(({ stream }) => stream.waitingBytes === 0), "everything to be taken");
    assert.equal(backlog.heldBytes, 0);
    for (const { stream } of readers) assert.equal(stream.isStill(), false);
    assert.equal(backlog.behind.size, 0);
    assert.equal(overflows, 0);
  });

  it("allows less for each when much waits for all together", () => {
    assert.equal(backlog.allowance, MAX_WAITING_BYTES);
    backlog.heldBytes = MAX_HELD_BYTES + 1;
    assert.equal(backlog.allowance, SCARCE_WAITING_BYTES);
  });

  it("knows a reader that has taken nothing for 30 seconds from one that has nothing to take", async () => {
    const { stream, socket } = await dial();
    now = MAX_STILL_MS * 2;
    assert.equal(stream.isStill(), false);
    socket.pause();
    while (stream.waitingBytes === 0) stream.send(new Frame({ event: "x", data: "z".repeat(60_000) }));
    assert.equal(stream.isStill(), false);
    now += MAX_STILL_MS - 1;
    assert.equal(stream.isStill(), false);
    now += 1;
    assert.equal(stream.isStill(), true);
    socket.resume();
    await until(() => !stream.isStill(), "progress");
  });

  it("pings a reader that has something waiting, too, and only one that is too far behind not at all", async () => {
    const { stream, socket, text } = await dial();
    const ping = new Frame({ event: "ping" });
    socket.pause();
    const filling = new Frame({ event: "x", data: "z".repeat(30_000) });
    while (stream.waitingBytes < 200_000) stream.send(filling);
    stream.sendIfRoom(ping);
    while (stream.waitingBytes <= MAX_WAITING_BYTES - filling.chunk.length) stream.send(filling);
    const padding = MAX_WAITING_BYTES - stream.waitingBytes;
    stream.send(new Frame({ event: "x", data: "z".repeat(Math.max(0, padding - 40)) }));
    for (let n = 0; n < 10; n += 1) stream.sendIfRoom(ping);
    assert.equal(overflows, 0, "no stream is ended for a ping");
    socket.resume();
    await until(() => stream.waitingBytes === 0, "everything to be taken");
    await until(() => text().includes("event: ping"), "the ping");
    const pings = text().match(/event: ping/g)?.length ?? 0;
    assert.ok(pings >= 1 && pings < 4, `${pings} pings`);
  });

  it("says once that it closed, whichever side closed it, and swallows what is sent after", async () => {
    const { stream, socket } = await dial();
    socket.destroy();
    await until(() => closed === 1, "the close");
    stream.send(GOODBYE);
    stream.end(GOODBYE, 10);
    const other = await dial();
    other.stream.end(GOODBYE, 10);
    other.stream.end(GOODBYE, 10);
    await until(() => closed === 2, "the other close");
  });
});
