// Holds event streams open, as many as asked, and notes when which event arrives. Told what to do over IPC.
import { connect } from "node:net";

const now = () => performance.timeOrigin + performance.now();
const sockets = new Set();
const KEY = Buffer.from('"secretKey":"');
let received = new Map();
let closed = [];

function open({ port, token, projectId }) {
  const body = JSON.stringify({ projectId });
  const head = `POST /api/v1/events/subscribe/project-events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let isOpen = false;
    socket.on("data", (bytes) => {
      if (!isOpen) {
        isOpen = true;
        if (bytes.subarray(0, 15).toString("latin1") !== "HTTP/1.1 200 OK")
          return reject(new Error(bytes.toString()));
        resolve();
      }
      for (let at = bytes.indexOf(KEY); at >= 0; at = bytes.indexOf(KEY, at + 1)) {
        const start = at + KEY.length;
        const key = bytes.latin1Slice(start, bytes.indexOf(34, start));
        const times = received.get(key);
        if (times) times.push(now());
        else received.set(key, [now()]);
      }
      if (bytes.includes("event: error")) closed.push({ token, at: now() });
    });
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
  async counts() {
    return Object.fromEntries([...received].map(([key, times]) => [key, times.length]));
  },
  async times() {
    return [...received];
  },
  async closed() {
    return closed;
  },
  async forget() {
    received = new Map();
    closed = [];
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
