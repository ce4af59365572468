/**
 * One open event stream (SSE) on one socket. The headers are written here too: a response object that has sent its own keeps
 * two kilobytes of them while the stream lives. A message is rendered once, with its HTTP chunk framing, and the same
 * bytes are written to every socket that wants it: the response object's own write path would frame and copy them
 * again for each. HTTP/1.0 peers (nginx speaks that to its upstreams by default) get the message without the framing.
 *
 * A slow reader must cost neither memory nor others' time. What the socket does not take waits in
 * a queue of references; when too much waits, the queue is dropped and the stream ends with an error event right
 * after the last whole message, so that the reader learns why.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";

const STREAM_HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
} as const;

/** How much may wait for one reader, and for how long without any of it being taken. */
export const MAX_WAITING_BYTES = 1024 * 1024;
export const MAX_STILL_MS = 30_000;
/** Distinct bytes that may wait for all readers together; beyond it each reader may have only the second figure. */
export const MAX_HELD_BYTES = 256 * 1024 * 1024;
export const SCARCE_WAITING_BYTES = 64 * 1024;

/** Most streams never have a queue. */
const EMPTY: readonly Frame[] = [];
const LAST_CHUNK = Buffer.from("0\r\n\r\n");

interface FrameText {
  readonly event: string;
  readonly id?: number;
  /** One line: JSON, which has no line ends of its own. */
  readonly data?: string;
}

export class Frame {
  readonly chunk: Buffer;
  readonly bare: Buffer;
  /** In how many streams' queues it waits. */
  waiting = 0;

  constructor(text: FrameText | readonly Frame[]) {
    const lines =
      "event" in text ? Buffer.from(linesOf(text)) : Buffer.concat(text.map((frame) => frame.bare));
    const head = `${lines.length.toString(16)}\r\n`;
    this.chunk = Buffer.concat([Buffer.from(head), lines, Buffer.from("\r\n")]);
    this.bare = this.chunk.subarray(head.length, head.length + lines.length);
  }
}

const linesOf = ({ event, id, data }: FrameText): string =>
  `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\n${data === undefined ? "" : `data: ${data}\n`}\n`;

/** The backlog of slow readers, over all streams of this node. A message that waits for many is counted once. */
export class Backlog {
  readonly behind = new Set<EventStream>();
  heldBytes = 0;

  hold(frame: Frame): void {
    if (frame.waiting === 0) this.heldBytes += frame.chunk.length;
    frame.waiting += 1;
  }

  release(frame: Frame): void {
    frame.waiting -= 1;
    if (frame.waiting === 0) this.heldBytes -= frame.chunk.length;
  }

  get allowance(): number {
    return this.heldBytes > MAX_HELD_BYTES ? SCARCE_WAITING_BYTES : MAX_WAITING_BYTES;
  }
}

type StreamHeaders = Readonly<Record<string, string | number | readonly string[] | undefined>>;

function headOf(headers: StreamHeaders, isChunked: boolean): string {
  const all = {
    ...headers,
    ...STREAM_HEADERS,
    date: new Date().toUTCString(),
    ...(isChunked ? { "transfer-encoding": "chunked", connection: "keep-alive" } : { connection: "close" }),
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${String(value)}\r\n`);
  return `HTTP/1.1 200 OK\r\n${lines.join("")}\r\n`;
}

export interface EventStreamNeeds {
  readonly backlog: Backlog;
  readonly elapsed: () => number;
  readonly onClose: () => void;
  /** The backlog is too large; the stream will be ended. */
  readonly onOverflow: () => void;
}

export class EventStream {
  readonly #socket: Socket;
  readonly #isChunked: boolean;
  readonly #needs: EventStreamNeeds;
  #queue: readonly Frame[] = EMPTY;
  #queuedBytes = 0;
  #progressAt = 0;
  #isBehind = false;
  #isEnding = false;
  #isClosed = false;

  constructor(request: IncomingMessage, headers: StreamHeaders, needs: EventStreamNeeds) {
    const { socket } = request;
    this.#socket = socket;
    this.#needs = needs;
    this.#isChunked = request.httpVersion === "1.1";
    socket.write(headOf(headers, this.#isChunked));
    // A peer that vanished silently is noticed by the kernel (TCP keep-alive), not by a timer of ours.
    socket.setKeepAlive(true, 30_000);
    socket.on("drain", () => this.#drain());
    socket.once("close", () => this.#closed());
    // Its close may have been announced before we listened.
    if (socket.destroyed) process.nextTick(() => this.#closed());
  }

  get waitingBytes(): number {
    return this.#queuedBytes + this.#socket.writableLength;
  }

  get isOpen(): boolean {
    return !this.#isEnding && !this.#socket.destroyed;
  }

  /**
   * Answers how many bytes wait for this reader now. Nearly always none did and none do: that way is one write and
   * one check, because this runs for every event of every stream.
   */
  send(frame: Frame): number {
    if (this.#isEnding) return 0;
    if (this.#isBehind) return this.#sendBehind(frame);
    this.#write(frame);
    const left = this.#socket.writableLength;
    if (left > 0) this.#fallBehind();
    return left;
  }

  /** For what is not worth ending a stream for. */
  sendIfRoom(frame: Frame): void {
    if (this.waitingBytes + frame.chunk.length <= this.#needs.backlog.allowance) this.send(frame);
  }

  #sendBehind(frame: Frame): number {
    if (!this.isOpen) return 0;
    if (this.#queue.length === 0 && !this.#socket.writableNeedDrain) {
      this.#write(frame);
      // A socket says nothing when it has taken what was less than it may hold.
      if (this.#socket.writableLength === 0) this.#catchUp();
      return this.#socket.writableLength;
    }
    if (this.#queue === EMPTY) this.#queue = [frame];
    else (this.#queue as Frame[]).push(frame);
    this.#queuedBytes += frame.chunk.length;
    this.#needs.backlog.hold(frame);
    const waiting = this.waitingBytes;
    if (waiting > this.#needs.backlog.allowance) this.#needs.onOverflow();
    return waiting;
  }

  /** Asked of those that are behind: has the reader taken nothing for too long? */
  isStill(): boolean {
    if (this.waitingBytes === 0) {
      this.#catchUp();
      return false;
    }
    return this.#needs.elapsed() - this.#progressAt >= MAX_STILL_MS;
  }

  /** Sends the error event after the last whole message; a reader that does not read it within `lingerMs` is cut off. */
  end(frame: Frame, lingerMs: number): void {
    if (!this.isOpen) return;
    this.#isEnding = true;
    this.#dropQueue();
    this.#socket.end(this.#isChunked ? Buffer.concat([frame.chunk, LAST_CHUNK]) : frame.bare);
    setTimeout(() => this.#socket.destroy(), lingerMs).unref();
  }

  #write(frame: Frame): boolean {
    return this.#socket.write(this.#isChunked ? frame.chunk : frame.bare);
  }

  #fallBehind(): void {
    this.#isBehind = true;
    this.#needs.backlog.behind.add(this);
    this.#progressAt = this.#needs.elapsed();
  }

  #catchUp(): void {
    this.#isBehind = false;
    this.#needs.backlog.behind.delete(this);
  }

  /** The socket has taken all it was given. */
  #drain(): void {
    this.#progressAt = this.#needs.elapsed();
    let sent = 0;
    this.#socket.cork();
    for (const frame of this.#queue) {
      if (this.#socket.writableNeedDrain) break;
      this.#write(frame);
      this.#queuedBytes -= frame.chunk.length;
      this.#needs.backlog.release(frame);
      sent += 1;
    }
    this.#socket.uncork();
    this.#queue = sent === this.#queue.length ? EMPTY : this.#queue.slice(sent);
    if (this.waitingBytes === 0) this.#catchUp();
  }

  #dropQueue(): void {
    for (const frame of this.#queue) this.#needs.backlog.release(frame);
    this.#queue = EMPTY;
    this.#queuedBytes = 0;
    this.#catchUp();
  }

  #closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#isEnding = true;
    this.#dropQueue();
    this.#needs.onClose();
  }
}
