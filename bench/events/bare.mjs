// The limit: a bare socket server that answers any request with the head of a stream and writes ready bytes to all.
import { createServer } from "node:net";

const now = () => performance.timeOrigin + performance.now();
const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const sockets = new Set();
const server = createServer((socket) => {
  socket.setNoDelay(true);
  socket.once("data", () => socket.write(HEAD));
  socket.on("error", () => undefined);
  socket.on("close", () => sockets.delete(socket));
  sockets.add(socket);
});

process.on("message", ({ id, name, input }) => {
  if (name === "port") return process.send({ id, value: server.address().port });
  const chunk = Buffer.from(input.chunk);
  const at = now();
  for (const socket of sockets) socket.write(chunk);
  process.send({ id, value: at });
});
server.listen(0, "127.0.0.1", 65535, () => process.send({ ready: true }));
