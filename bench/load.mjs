// A closed-loop HTTP load: each connection sends its next request when the previous answer is complete. Raw sockets
// and keep-alive, so that the client stays cheap next to the server it measures.
import net from "node:net";
import tls from "node:tls";

function render(target, { method, path, body, headers = {} }) {
  const text = body === undefined ? "" : JSON.stringify(body);
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `host: ${target.host}`,
    ...Object.entries(headers).map(([k, v]) => `${k}: ${v}`),
  ];
  if (body !== undefined)
    lines.push("content-type: application/json", `content-length: ${Buffer.byteLength(text)}`);
  return `${lines.join("\r\n")}\r\n\r\n${text}`;
}

class Connection {
  #socket;
  #buffer;
  #done;
  #isOver = true;

  constructor(url) {
    this.target = { host: url.host };
    this.url = url;
  }

  open() {
    return new Promise((resolve, reject) => {
      const isSecure = this.url.protocol === "https:";
      const port = Number(this.url.port) || (isSecure ? 443 : 80);
      const target = { host: this.url.hostname, port, noDelay: true };
      const socket = isSecure
        ? tls.connect({ ...target, servername: target.host }, resolve)
        : net.connect(target, resolve);
      this.#socket = socket;
      this.#isOver = false;
      socket.on("error", reject);
      socket.on("data", (chunk) => this.#take(chunk));
      socket.on("close", () => {
        if (this.#socket !== socket) return;
        this.#isOver = true;
        this.#answer({ status: 0, body: "the connection ended without an answer" });
      });
    });
  }

  async request(request) {
    // Proxies end a connection after some thousand requests, and say so.
    if (this.#isOver) await this.open();
    return new Promise((resolve) => {
      this.#done = resolve;
      this.#buffer = undefined;
      this.#socket.write(render(this.target, request));
    });
  }

  #take(chunk) {
    this.#buffer = this.#buffer ? Buffer.concat([this.#buffer, chunk]) : chunk;
    const end = this.#buffer.indexOf("\r\n\r\n");
    if (end < 0) return;
    const head = this.#buffer.latin1Slice(0, end);
    const length = /\r\ncontent-length: *(\d+)/i.exec(head);
    // Other servers may answer in chunks; the last one is empty.
    const isChunked = !length && /\r\ntransfer-encoding: *chunked/i.test(head);
    if (isChunked && this.#buffer.latin1Slice(-5) !== "0\r\n\r\n") return;
    const whole = end + 4 + (length ? Number(length[1]) : 0);
    if (this.#buffer.length < whole) return;
    if (/\r\nconnection: *close/i.test(head)) {
      this.#isOver = true;
      this.#socket.destroy();
    }
    this.#answer({ status: Number(head.slice(9, 12)), body: this.#buffer.utf8Slice(end + 4, whole) });
  }

  #answer(answer) {
    const done = this.#done;
    this.#done = undefined;
    done?.(answer);
  }

  close() {
    this.#socket.destroy();
  }
}

/** One connection, for requests whose order matters. */
export async function dial(base) {
  const connection = new Connection(new URL(base));
  await connection.open();
  return connection;
}

export const quantile = (sorted, p) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? 0;

/** Runs `next(n)`'s requests for `seconds` after `warmup`; answers rate and latencies in milliseconds. */
export async function load(base, next, { connections, seconds, warmup = 1 }) {
  const url = new URL(base);
  const all = Array.from({ length: connections }, () => new Connection(url));
  await Promise.all(all.map((connection) => connection.open()));
  const latencies = [];
  const statuses = {};
  let measuring = false;
  let stopped = false;
  let counter = 0;
  const loops = all.map(async (connection) => {
    while (!stopped) {
      const request = next((counter += 1));
      const startedAt = performance.now();
      const { status, body } = await connection.request(request);
      if (!measuring || stopped) continue;
      latencies.push(performance.now() - startedAt);
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status !== 200 && statuses.example === undefined) statuses.example = body.slice(0, 200);
    }
  });
  const running = Promise.all(loops);
  // Heard of below, when the time is over.
  running.catch(() => undefined);
  await new Promise((resolve) => setTimeout(resolve, warmup * 1000));
  measuring = true;
  const from = performance.now();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  measuring = false;
  stopped = true;
  const elapsed = (performance.now() - from) / 1000;
  await running;
  for (const connection of all) connection.close();
  latencies.sort((a, b) => a - b);
  return {
    rate: latencies.length / elapsed,
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    statuses,
  };
}

/** The body is read as well: a server that stops waits for clients that have not read their answer. */
export async function etagOf(url, headers) {
  const answer = await fetch(url, { headers });
  await answer.arrayBuffer();
  return answer.headers.get("etag");
}
