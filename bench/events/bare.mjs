// The limit: a bare socket server that answers any request with the head of a stream and writes ready bytes to all.
import { createServer } from "node:net";
import { now, setClock } from "./clock.mjs";

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const sockets = new Set();
const server = createServer((socket) => {
  socket.setNoDelay(true);
  socket.once("data", () => socket.write(HEAD));
  socket.on("error", () => undefined);
  socket.on("close", () => sockets.delete(socket));
  sockets.add(socket);
});

const commands = {
  port: () => server.address().port,
  setClock,
  write({ chunk }) {
    const bytes = Buffer.from(chunk);
    const at = now();
    for (const socket of sockets) socket.write(bytes);
    return at;
  },
};

process.on("message", ({ id, name, input }) => process.send({ id, value: commands[name](input) }));
server.listen(0, "127.0.0.1", 65535, () => process.send({ ready: true }));
