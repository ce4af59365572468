/**
 * A request that was answered before its body was read. A short rest is read and dropped, so that the connection can
 * go on; of a long one nothing more is read. The connection is then closed gently: closing at once, with bytes still
 * unread, would make the kernel reset it, and the client would lose the answer.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** What is cheaper to read than a new connection. */
const SHORT_REST = 256 * 1024;
const LINGER_MS = 2000;

const lengthOf = (request: IncomingMessage): number => {
  const length = request.headers["content-length"];
  if (length !== undefined) return Number(length);
  return request.headers["transfer-encoding"] === undefined ? 0 : Number.POSITIVE_INFINITY;
};

const leaving = new WeakSet<Socket>();
/** Anything else on such a connection is ignored: its caller has been told that it closes. */
export const isLeaving = (socket: Socket): boolean => leaving.has(socket);

/** Before the answer is sent. */
export function leaveUnread(request: IncomingMessage, response: ServerResponse): void {
  if (request.complete || response.headersSent || lengthOf(request) <= SHORT_REST) return;
  const { socket } = request;
  response.setHeader("connection", "close");
  leaving.add(socket);
  let seen = 0;
  request.on("data", (bytes: Buffer) => {
    seen += bytes.length;
    if (seen > SHORT_REST) request.pause();
  });
  request.on("error", () => undefined);
  // What the server calls once the answer is on its way.
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
    socket.once("close", () => clearTimeout(timer));
  };
}
