// Holds event streams open, as many as asked, and notes when which event arrives. Told what to do over IPC. It shares
// the machine with what it measures, so it does as little as it can: all sockets read into one buffer, and of a frame
// only the number at the end of its key is looked at.
import { connect } from "node:net";
import { now, setClock } from "./clock.mjs";

const KEY = Buffer.from('"secretKey":"K');
const FRAME_END = Buffer.from("\n\n");
const [ZERO, NINE] = [48, 57];
const shared = Buffer.alloc(1024 * 1024);
const sockets = new Set();
/** By the number of the event: when each stream got it. */
let times = [];
let heard = 0;
let awaited;
let closed = [];

function hear(bytes, at) {
  for (let key = bytes.indexOf(KEY); key >= 0; key = bytes.indexOf(KEY, key)) {
    key += KEY.length;
    let number = 0;
    for (; bytes[key] >= ZERO && bytes[key] <= NINE; key += 1) number = number * 10 + bytes[key] - ZERO;
    const own = times[number];
    if (own === undefined || own.count === own.at.length) throw new Error(`event ${number} came too often`);
    own.at[own.count] = at;
    own.count += 1;
    heard += 1;
  }
  if (awaited && heard >= awaited.count) {
    awaited.resolve(true);
    awaited = undefined;
  }
}

function open({ port, token, projectId }) {
  const body = JSON.stringify({ projectId });
  const head = `POST /api/v1/events/subscribe/project-events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return new Promise((resolve, reject) => {
    let isOpen = false;
    let rest;
    const take = (length) => {
      const at = now();
      let bytes = shared.subarray(0, length);
      if (!isOpen) {
        isOpen = true;
        if (bytes.latin1Slice(0, 15) !== "HTTP/1.1 200 OK") reject(new Error(bytes.toString()));
        else resolve();
      }
      if (rest) bytes = Buffer.concat([rest, bytes]);
      const end = bytes.lastIndexOf(FRAME_END) + FRAME_END.length;
      // A burst may be cut anywhere; what follows the last whole frame is usually the two bytes that end a chunk.
      rest = bytes.length - end > 2 ? Buffer.from(bytes.subarray(end)) : undefined;
      hear(bytes.subarray(0, end), at);
      if (bytes.includes("event: error")) closed.push({ token, at });
      return true;
    };
    const socket = connect({ port, host: "127.0.0.1", onread: { buffer: shared, callback: take } });
    socket.on("error", reject);
    socket.on("close", () => sockets.delete(socket));
    sockets.add(socket);
    socket.write(head + body);
  });
}

const commands = {
  async open({ count, port, token, tokens, projectId }) {
    const list = tokens ?? Array.from({ length: count }, () => token);
    let next = 0;
    const startedAt = now();
    const lane = async () => {
      while (next < list.length) await open({ port, token: list[next++], projectId });
    };
    await Promise.all(Array.from({ length: 32 }, lane));
    return { open: sockets.size, milliseconds: now() - startedAt };
  },
  /** From here on: so many events, numbered from zero, to so many streams. */
  async expect({ events, streams }) {
    setClock();
    heard = 0;
    closed = [];
    times = Array.from({ length: events }, () => ({ at: new Float64Array(streams), count: 0 }));
  },
  /** Resolves when so many deliveries have come in, or with false after so many seconds. */
  async heard({ count, seconds }) {
    if (heard >= count) return true;
    return await new Promise((resolve) => {
      awaited = { count, resolve };
      setTimeout(() => resolve(false), seconds * 1000).unref();
    });
  },
  async times() {
    return times.map(({ at, count }) => [...at.subarray(0, count)]);
  },
  async closed() {
    return closed;
  },
  async close() {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  },
};

process.on("message", async ({ id, name, input }) => {
  try {
    process.send({ id, value: await commands[name](input) });
  } catch (error) {
    process.send({ id, failure: error.message });
  }
});
