// A process of its own: it waits for tens of seconds, and others need not wait with it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, beforeEach, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { createClient } from "../client.ts";
import { parseArguments } from "../command.ts";
import { main } from "../main.ts";
import type { World } from "../world.ts";
import { pauseBefore, readFrames, tailWithin, type ServerSentEvent, type Limits } from "./events.ts";

const frame = (event: string, data: unknown) => `id: 1\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
const message = (eventType: string, payload: unknown) => ({
  projectType: "secret-manager",
  data: { eventType, payload },
});
const created = (...keys: string[]) =>
  frame(
    "secret:create",
    message(
      "secret:create",
      keys.map((secretKey) => ({ environment: "dev", secretPath: "/app", secretKey })),
    ),
  );

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

async function framesOf(chunks: readonly Uint8Array[]): Promise<ServerSentEvent[]> {
  const frames: ServerSentEvent[] = [];
  const source = (async function* () {
    yield* chunks;
  })();
  for await (const one of readFrames(source)) frames.push(one);
  return frames;
}

describe("reading a stream", () => {
  it("gives the same frames however the bytes are cut, with any line end", async () => {
    const sent = [
      { event: "ping", data: "" },
      { event: "secret:create", data: '{"a":"é\u2028"}' },
      { event: "x", data: "two\nlines" },
    ];
    const bytes = (end: string) =>
      Buffer.from(
        sent
          .map(({ event, data }) =>
            [
              `: a remark`,
              `event: ${event}`,
              ...(data === "" ? [] : data.split("\n").map((line) => `data: ${line}`)),
              "",
              "",
            ].join(end),
          )
          .join(""),
      );
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("\n", "\r\n"),
        fc.array(fc.nat(400), { maxLength: 12 }),
        async (end, cuts) => {
          const all = bytes(end);
          const at = [0, ...cuts.map((cut) => cut % all.length).sort((a, b) => a - b), all.length];
          const chunks = at.slice(1).map((stop, index) => all.subarray(at[index], stop));
          assert.deepEqual(await framesOf(chunks), sent);
        },
      ),
    );
  });

  it("waits longer each time, up to half a minute, and never for nothing", () => {
    assert.deepEqual(
      [0, 1, 2, 3, 9].map((attempt) => pauseBefore(attempt, 1)),
      [1000, 2000, 4000, 8000, 30_000],
    );
    assert.equal(pauseBefore(2, 0), 2000);
  });
});

describe("keyward events tail", () => {
  let server: Server;
  let url: string;
  let bodies: unknown[] = [];
  let answer: (response: ServerResponse, visit: number) => void;

  before(async () => {
    server = createServer((request, response) => {
      void text(request).then((body) => {
        bodies.push(JSON.parse(body));
        answer(response, bodies.length);
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  beforeEach(() => {
    bodies = [];
  });

  const terminal = () => {
    const [out, errors]: [string[], string[]] = [[], []];
    const world: World = {
      env: { KEYWARD_URL: url, KEYWARD_TOKEN: "token" },
      home: tmpdir(),
      now: () => new Date("2030-01-01T10:20:30.000Z"),
      readInput: async () => "",
      print: (line) => void out.push(line),
      complain: (line) => void errors.push(line),
    };
    return { world, out, errors };
  };
  const keyward = async (...argv: string[]) => {
    const { world, out, errors } = terminal();
    const code = await main(["events", "tail", ...argv], world);
    return { code, out, errors };
  };
  /** With less patience than a real one has. */
  const tail = async (limits: Limits, ...argv: string[]) => {
    const { world, out, errors } = terminal();
    const command = tailWithin(limits);
    const client = createClient({ url, token: "token", expiresAt: undefined }, world.now);
    const given = parseArguments(command, argv);
    await command.run({ world, client, arguments: given, answer: () => undefined });
    return { out, errors };
  };
  const stream = (response: ServerResponse) =>
    response.writeHead(200, { "content-type": "text/event-stream" });

  it("asks for what was named, and shows a line for each event and nothing for a ping", async () => {
    answer = (response) =>
      stream(response).write(
        `event: ping\n\n${created("A", "B\u001b[2J")}${frame("secret:import-mutation", message("secret:import-mutation", { environment: "dev", secretPath: "/" }))}`,
      );
    const { code, out } = await keyward(
      "--project",
      "p",
      "--event",
      "create",
      "--event",
      "secret:import-mutation",
      "--environment",
      "dev",
      "--path",
      "/**",
      "--count",
      "2",
    );
    assert.equal(code, 0);
    const conditions = { environmentSlug: "dev", secretPath: "/**" };
    assert.deepEqual(bodies, [
      {
        projectId: "p",
        register: [
          { event: "secret:create", conditions },
          { event: "secret:import-mutation", conditions },
        ],
      },
    ]);
    assert.deepEqual(out, [
      "10:20:30  secret:create           dev /app  A, B?[2J",
      "10:20:30  secret:import-mutation  dev /",
    ]);
  });

  it("prints one JSON message per line with --json", async () => {
    answer = (response) => stream(response).write(created("A"));
    const { out } = await keyward("--project", "p", "--json", "--count", "1");
    assert.deepEqual(
      out.map((line) => JSON.parse(line)),
      [message("secret:create", [{ environment: "dev", secretPath: "/app", secretKey: "A" }])],
    );
  });

  it("comes back after an end, an error event and a refusal that will pass", async () => {
    answer = (response, visit) => {
      if (visit === 1) stream(response).end(created("ONE"));
      else if (visit === 2) stream(response).end(frame("error", { message: "This server is stopping." }));
      else stream(response).write(created("TWO"));
    };
    const { code, out, errors } = await keyward("--project", "p", "--count", "2");
    assert.equal(code, 0);
    assert.equal(bodies.length, 3);
    assert.deepEqual(
      out.map((line) => line.split("  ").at(-1)),
      ["ONE", "TWO"],
    );
    assert.match(errors.join("\n"), /the stream ended; again in [\d.]+ s\nThis server is stopping\.; again/);
  });

  it("gives up at once on a refusal that will not pass", async () => {
    answer = (response) => response.writeHead(403).end(JSON.stringify({ message: "You are not allowed." }));
    const { code, errors } = await keyward("--project", "p");
    assert.equal(code, 1);
    assert.equal(bodies.length, 1);
    assert.match(errors.join("\n"), /You are not allowed/);
  });

  it("runs a command per event, in order, with names that it cannot be tricked by", async () => {
    const folder = await mkdtemp(join(tmpdir(), "keyward-events-"));
    const nasty = "$(touch hacked); `id`";
    answer = (response) => stream(response).write(created(nasty) + created("SECOND"));
    const command = `cd ${folder} && cat >> input && printf '%s|%s|%s|%s;' "$KEYWARD_EVENT" "$KEYWARD_EVENT_ENVIRONMENT" "$KEYWARD_EVENT_PATH" "$KEYWARD_EVENT_KEYS" >> names`;
    const { code } = await keyward("--project", "p", "--count", "2", "--exec", command);
    assert.equal(code, 0);
    assert.equal(
      await readFile(join(folder, "names"), "utf8"),
      `secret:create|dev|/app|${nasty};secret:create|dev|/app|SECOND;`,
    );
    assert.equal((await readFile(join(folder, "input"), "utf8")).trim().split("\n").length, 2);
    await assert.rejects(readFile(join(folder, "hacked")));
    await rm(folder, { recursive: true });
  });

  it("tells of a command that fails, and goes on", async () => {
    answer = (response) => stream(response).write(created("ONE") + created("TWO"));
    const { code, out, errors } = await keyward("--project", "p", "--count", "2", "--exec", "exit 3");
    assert.deepEqual([code, out.length], [0, 2]);
    assert.equal(errors.filter((line) => line === "exit 3 ended with 3").length, 2, errors.join());
  });

  it("notices each time that the server fell silent, drops that connection and comes back", async () => {
    let dropped = 0;
    const collecting = setInterval(collectGarbage, 50);
    answer = (response, visit) => {
      response.on("close", () => (dropped += 1));
      stream(response).write(created(`EVENT_${visit}`));
    };
    const { out, errors } = await tail({ silenceMs: 2000, waiting: 10 }, "--project", "p", "--count", "3");
    clearInterval(collecting);
    assert.deepEqual(
      out.map((line) => line.split("  ").at(-1)),
      ["EVENT_1", "EVENT_2", "EVENT_3"],
    );
    assert.equal(errors.length, 2);
    for (const line of errors) assert.match(line, /^the server fell silent; again in/);
    for (let waited = 0; dropped < 3 && waited < 60_000; waited += 10) await pause(10);
    assert.equal(dropped, 3);
  });

  it("notices a server that takes the request and never answers", async () => {
    answer = (response, visit) => {
      if (visit > 1) stream(response).write(created("LATE"));
    };
    const { out, errors } = await tail({ silenceMs: 200, waiting: 10 }, "--project", "p", "--count", "1");
    assert.equal(out.length, 1);
    assert.match(errors.join("\n"), /^the server fell silent; again in/);
  });

  it("keeps listening while a command runs for longer than a silence may last: all events, in order, on one connection", async () => {
    const folder = await mkdtemp(join(tmpdir(), "keyward-events-"));
    let pinging: NodeJS.Timeout | undefined;
    answer = (response) => {
      let sent = 0;
      const write = () => response.write(sent < 4 ? created(`EVENT_${(sent += 1)}`) : "event: ping\n\n");
      stream(response);
      pinging = setInterval(write, 60);
    };
    for (const waiting of [2, 100]) {
      bodies = [];
      const command = `sleep 0.5; echo "$KEYWARD_EVENT_KEYS" >> ${join(folder, String(waiting))}`;
      const { errors } = await tail(
        { silenceMs: 300, waiting },
        "--project",
        "p",
        "--count",
        "4",
        "--exec",
        command,
      );
      clearInterval(pinging);
      assert.deepEqual(errors, []);
      assert.equal(bodies.length, 1, "it never had to come back");
      assert.deepEqual(
        (await readFile(join(folder, String(waiting)), "utf8")).trim().split("\n"),
        [1, 2, 3, 4].map((n) => `EVENT_${n}`),
      );
    }
    await rm(folder, { recursive: true });
  });

  it("runs what it has heard to the end when it is refused for good", async () => {
    const folder = await mkdtemp(join(tmpdir(), "keyward-events-"));
    answer = (response, visit) =>
      visit === 1
        ? stream(response).end(created("ONE") + created("TWO"))
        : response.writeHead(401).end(JSON.stringify({ message: "The token has ended." }));
    const command = `sleep 1; echo "$KEYWARD_EVENT_KEYS" >> ${join(folder, "names")}`;
    const { code } = await keyward("--project", "p", "--exec", command);
    assert.equal(code, 1);
    assert.equal(await readFile(join(folder, "names"), "utf8"), "ONE\nTWO\n");
    await rm(folder, { recursive: true });
  });

  it("waits as ever when it is told to come back at a date or at nonsense", async () => {
    const given = ["Wed, 21 Oct 2015 07:28:00 GMT", "soon"];
    answer = (response, visit) => {
      const retryAfter = given[visit - 1];
      if (retryAfter === undefined) stream(response).write(created("AT_LAST"));
      else response.writeHead(503, { "retry-after": retryAfter }).end("{}");
    };
    const { errors } = await keyward("--project", "p", "--count", "1");
    assert.equal(errors.length, 2);
    for (const line of errors) assert.match(line, /again in (?!0\.[0-4])\d+\.\d s$/);
  });

  it("ends quietly when nobody reads what it prints any more", async () => {
    answer = (response) => {
      stream(response).write(created("ONE"));
      const more = setInterval(() => response.write(created("MORE")), 20);
      response.on("close", () => clearInterval(more));
    };
    const keywardFile = fileURLToPath(new URL("../../bin/keyward.mjs", import.meta.url));
    const child = spawn(process.execPath, [keywardFile, "events", "tail", "--project", "p"], {
      env: { PATH: process.env["PATH"], HOME: tmpdir(), KEYWARD_URL: url, KEYWARD_TOKEN: "token" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const errors = text(child.stderr);
    const ended = once(child, "exit");
    await once(child.stdout, "data");
    child.stdout.destroy();
    assert.deepEqual([(await ended)[0], await errors], [0, ""]);
  });

  it("refuses an event that does not exist, and a missing project", async () => {
    assert.equal((await keyward("--project", "p", "--event", "rename")).code, 2);
    assert.equal((await keyward()).code, 2);
  });
});
