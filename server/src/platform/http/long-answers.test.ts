import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import { test } from "node:test";
import { unauthorized } from "../problem.ts";
import { longAnswer } from "./long-answers.ts";

async function serving(
  source: () => Readable,
  guard: Parameters<typeof longAnswer>[2],
): Promise<{ url: string; port: number; ended: Promise<unknown>; close: () => void }> {
  let end: (value: unknown) => void = () => undefined;
  const ended = new Promise((resolve) => (end = resolve));
  const server = createServer((_request, response) => {
    response.once("close", end);
    const answer = longAnswer(source(), response, guard);
    answer.on("error", () => response.destroy());
    answer.pipe(response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}/`, port, ended, close };
}

test("M2 an answer ends when its token does", async () => {
  let isGood = true;
  const source = () =>
    Readable.from(
      (async function* () {
        for (let page = 0; ; page += 1) {
          yield `page ${page}\n`;
          await wait(100);
        }
      })(),
    );
  const confirm = async () => {
    if (!isGood) throw unauthorized("revoked");
  };
  const { url, close } = await serving(source, { confirm });
  const answer = await fetch(url);
  isGood = false;
  await assert.rejects(answer.text());
  close();
});

test("M2 a reader that reads nothing is disconnected", async () => {
  const source = () => Readable.from(Array.from({ length: 4000 }, () => Buffer.alloc(64 * 1024)));
  const { port, ended, close } = await serving(source, { confirm: async () => undefined, stalledMs: 300 });
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  socket.pause();
  await ended;
  socket.destroy();
  close();
});

test("a reader that reads next to nothing and keeps the connection alive is disconnected", async () => {
  const source = () => Readable.from(Array.from({ length: 4000 }, () => Buffer.alloc(64 * 1024)));
  const { port, ended, close } = await serving(source, { confirm: async () => undefined, stalledMs: 300 });
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nx: ");
  socket.pause();
  const awake = setInterval(() => socket.write("y"), 50);
  assert.equal(
    await Promise.race([ended.then(() => "let go"), wait(30_000, "held", { ref: false })]),
    "let go",
  );
  clearInterval(awake);
  socket.destroy();
  close();
});

test("an answer whose caller went away before it began lets go of its source", async () => {
  for (const when of ["before", "after"]) {
    const source = Readable.from(["a", "b", "c"]);
    const gone = Promise.race([
      once(source, "close").then(() => "let go"),
      wait(5000, "kept", { ref: false }),
    ]);
    const server = createServer((_request, response) => {
      if (when === "before") response.destroy();
      const answer = longAnswer(source, response, { confirm: async () => undefined });
      answer.on("error", () => undefined);
      if (when === "after") answer.destroy();
      response.destroy();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await assert.rejects(fetch(`http://127.0.0.1:${port}/`));
    assert.equal(await gone, "let go", when);
    server.close();
  }
});

test("an answer that is read comes whole", async () => {
  const source = () => Readable.from(["a", "b", "c"]);
  const { url, close } = await serving(source, { confirm: async () => undefined });
  assert.equal(await (await fetch(url)).text(), "abc");
  close();
});
