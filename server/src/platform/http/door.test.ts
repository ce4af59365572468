import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";
import * as contract from "../../contract.ts";
import { aProject } from "../../../test/builders.ts";

const ENVELOPE = ["error", "message", "reqId", "statusCode"];
const keysOf = (body: object) => Object.keys(body).sort();

/** What the HTTP client of Node would not send. */
const raw = (base: string, text: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(base);
    let answer = "";
    const socket = connect(Number(port), hostname, () => socket.end(text, "latin1"));
    socket.on("data", (chunk) => (answer += chunk.toString()));
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
  });

describe("the door", () => {
  let house: TestHouse;
  let project: { id: string; slug: string };
  before(async () => {
    house = await openTestHouse();
    project = await aProject(house.owner);
  });
  after(() => house.close());

  it("answers an unknown address with the envelope and the request id in the header too", async () => {
    const answer = await house.anonymous.get("/no/such/place");
    assert.equal(answer.status, 404);
    assert.deepEqual(keysOf(answer.body), ENVELOPE);
    assert.match(answer.body.reqId, /^req-[0-9A-Za-z]{14}$/);
    assert.equal(answer.headers.get("x-request-id"), answer.body.reqId);
    assert.deepEqual([answer.body.statusCode, answer.body.error], [404, "NotFound"]);
  });

  it("authenticates before it validates", async () => {
    const answer = await house.anonymous.call("POST", `/api/v1/projects/${project.id}/identities`, {
      rawBody: "{not json",
    });
    assert.deepEqual([answer.status, answer.body.error], [401, "UnauthorizedError"]);
  });

  it("distinguishes a missing token from a bad one", async () => {
    const path = "/api/v1/organization";
    for (const header of [undefined, "", "Basic abc", "Bearer", "Bearer ", house.owner.token]) {
      const answer = await house.anonymous.get(path, {
        headers: header === undefined ? {} : { authorization: header },
      });
      assert.deepEqual([answer.status, answer.body.error], [401, "UnauthorizedError"], String(header));
    }
    const bad = await house.as("not-a-token").get(path);
    assert.deepEqual([bad.status, bad.body.error], [401, "TokenError"]);
  });

  it("takes the scheme word in any case", async () => {
    for (const word of ["bearer", "BEARER", "BeArEr"]) {
      assert.equal(
        (
          await house.anonymous.get("/api/v1/organization", {
            headers: { authorization: `${word} ${house.owner.token}` },
          })
        ).status,
        200,
      );
    }
  });

  it("answers malformed JSON with 400 and never shows a piece of it", async () => {
    const answer = await house.owner.call("POST", "/api/v1/projects", {
      rawBody: '{"projectName": "hunter2',
    });
    assert.deepEqual([answer.status, answer.body.error], [400, "BadRequest"]);
    assert.ok(!JSON.stringify(answer.body).includes("hunter2"));
  });

  it("lists every issue of an invalid body, each with code, path and message", async () => {
    const answer = await house.owner.post(`/api/v1/projects/${project.id}/identities`, {
      name: "",
      hasDeleteProtection: "yes",
      metadata: [{ key: "", value: 1 }],
    });
    assert.deepEqual([answer.status, answer.body.error], [422, "ValidationFailure"]);
    assert.deepEqual(keysOf(answer.body), ENVELOPE);
    const paths = answer.body.message.map((issue: { path: unknown[] }) => issue.path.join("."));
    for (const path of ["name", "hasDeleteProtection", "metadata.0.key", "metadata.0.value"])
      assert.ok(paths.includes(path), path);
    for (const issue of answer.body.message) assert.deepEqual(keysOf(issue), ["code", "message", "path"]);
  });

  it("refuses the NUL character wherever it is, with its place", async () => {
    const answer = await house.owner.post("/api/v1/projects", { projectName: "a\u0000b" });
    assert.equal(answer.status, 422);
    assert.deepEqual(answer.body.message[0].path, ["projectName"]);
    assert.equal((await house.owner.get("/api/v1/projects/a%00b")).status, 422);
    assert.equal((await house.owner.get("/api/v1/identities?search=%00")).status, 422);
  });

  it("refuses half a surrogate pair, in a value and in a key, and takes a whole one", async () => {
    const half = await house.owner.post("/api/v1/projects", { projectName: "a\ud800b" });
    assert.equal(half.status, 422);
    assert.deepEqual(half.body.message[0].path, ["projectName"]);
    const key = await house.owner.post("/api/v1/projects", { projectName: "a", "\udc00": 1 });
    assert.equal(key.status, 422);
    const whole = await house.owner.call("POST", "/api/v1/projects", {
      rawBody: '{"projectName":"a \\ud83d\\ude00"}',
    });
    assert.deepEqual([whole.status, whole.body.project.name], [200, "a 😀"]);
  });

  it("refuses a body that is not UTF-8 instead of reading other characters into it", async () => {
    const body = Buffer.concat([Buffer.from('{"projectName":"caf'), Buffer.of(0xe9), Buffer.from('"}')]);
    const head = `POST /api/v1/projects HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${house.owner.token}\r\ncontent-type: application/json\r\nconnection: close\r\n`;
    const sent = async (framing: string, end = "") =>
      raw(
        house.base,
        Buffer.concat([Buffer.from(`${head}${framing}`), body, Buffer.from(end)]).toString("latin1"),
      );
    const answers = [
      await sent(`content-length: ${body.length}\r\n\r\n`),
      await sent(`transfer-encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n`, "\r\n0\r\n\r\n"),
    ];
    for (const answer of answers) {
      assert.match(answer, /^HTTP\/1\.1 400/);
      assert.match(answer, /not valid UTF-8/);
    }
  });

  it("answers 413 to a body over a mebibyte and 415 to one that is not JSON", async () => {
    const large = await house.owner.post("/api/v1/projects", { projectName: "x".repeat(1_100_000) });
    assert.deepEqual([large.status, large.body.error], [413, "PayloadTooLarge"]);
    for (const type of [
      "text/plain",
      "application/xml",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
    ]) {
      const answer = await house.owner.call("POST", "/api/v1/projects", {
        rawBody: "a=b",
        headers: { "content-type": type },
      });
      assert.deepEqual([answer.status, answer.body.error], [415, "UnsupportedMediaType"], type);
    }
  });

  it("answers 413 where a large body is taken but has too many keys or items; a long text may hold anything", async () => {
    const path = `/api/v1/projects/${project.id}/import`;
    const sent = async (rawBody: string) => (await house.owner.call("POST", path, { rawBody })).status;
    const many = (part: (n: number) => string) =>
      Array.from({ length: 250_000 }, (_, n) => part(n)).join(",");
    assert.equal(await sent(`{${many((n) => `"k${n}" : 0`)}}`), 413);
    assert.equal(await sent(`{"file":[${many(() => "[  ]")}]}`), 413);
    assert.equal(await sent(`{"file":[${many(() => '"\\\\"')}]}`), 413);
    assert.equal(await sent(JSON.stringify({ file: many((n) => `{"\\":[${n},"\""]}`) })), 422);
    assert.equal(await sent(`{"file":"${"x".repeat(1_100_000)}`), 400);
  });

  it("ignores one trailing slash, unknown keys, and empty query values", async () => {
    assert.equal((await house.owner.get("/api/v1/organization/")).status, 200);
    assert.equal(
      (await house.owner.get(`/api/v1/projects/${project.id}/identities?search=&limit=&nonsense=1`)).status,
      200,
    );
    const answer = await house.owner.post(`/api/v1/projects/${project.id}/identities`, {
      name: "x",
      domain: "y",
      id: "z",
      orgId: "w",
    });
    assert.equal(answer.status, 200);
    assert.equal(answer.body.identity.orgId, house.owner.orgId);
  });

  it("S-30 refuses page sizes that are not plain whole numbers in their bounds", async () => {
    for (const bad of [
      "limit=0",
      "limit=-1",
      "limit=1001",
      "limit=1e2",
      "limit=NaN",
      "limit=2.5",
      "limit=1&limit=2",
      "offset=-1",
      "offset=x",
      "limit[]=1&limit=2",
    ]) {
      const answer = await house.owner.get(`/api/v1/projects/${project.id}/identities?${bad}`);
      assert.equal(answer.status, bad.startsWith("limit[]") ? 200 : 422, bad);
    }
  });

  it("S-31 is not moved by prototype keys", async () => {
    const answer = await house.owner.call("POST", `/api/v1/projects/${project.id}/identities`, {
      rawBody: '{"name":"p","__proto__":{"hasDeleteProtection":true},"constructor":{"prototype":{"x":1}}}',
    });
    assert.equal(answer.status, 200);
    assert.equal(answer.body.identity.hasDeleteProtection, false);
    assert.equal(({} as Record<string, unknown>)["x"], undefined);
  });

  it("S-42 bears deep and wide JSON", async () => {
    const deep = `${'{"a":'.repeat(20_000)}1${"}".repeat(20_000)}`;
    const wide = `{${Array.from({ length: 20_000 }, (_, n) => `"k${n}":1`).join(",")}}`;
    for (const body of [deep, wide, '"text"', "[]", "null", "1e999"]) {
      const answer = await house.owner.call("POST", "/api/v1/projects", { rawBody: body });
      assert.equal(answer.status, 422, body.slice(0, 20));
    }
  });

  it("answers what is not HTTP with the envelope too", async () => {
    const answer = await raw(house.base, "GARBAGE\r\n\r\n");
    assert.match(answer, /^HTTP\/1\.1 400/);
    assert.deepEqual(keysOf(JSON.parse(answer.slice(answer.indexOf("{")))), ENVELOPE);
  });

  it("answers a broken escape in the address with 400", async () => {
    const answer = await raw(
      house.base,
      `GET /api/v1/projects/%zz HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${house.owner.token}\r\nconnection: close\r\n\r\n`,
    );
    assert.match(answer, /^HTTP\/1\.1 400/);
  });

  it("S-59 sends the security headers and forbids storing on every answer", async () => {
    for (const answer of [
      await house.owner.get("/api/v1/organization"),
      await house.anonymous.get("/nowhere"),
      await house.anonymous.get("/api/status"),
    ]) {
      assert.equal(answer.headers.get("cache-control"), "no-store");
      assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
      assert.equal(answer.headers.get("referrer-policy"), "no-referrer");
      assert.match(answer.headers.get("content-security-policy") ?? "", /default-src 'none'/);
    }
  });

  it("S-55 M6 has no /metrics unless a token was set: not even from here, which may be a proxy", async () => {
    assert.equal((await house.anonymous.get("/metrics")).status, 404);
    assert.equal((await house.owner.get("/metrics")).status, 404);
    assert.equal((await house.anonymous.get("/metrics", { token: "" })).status, 404);
  });

  it("mounts exactly what the contract exports: nothing undocumented, nothing that only exists on paper", () => {
    const isEndpoint = (value: unknown): value is { id: string } =>
      typeof value === "object" && value !== null && "path" in value && "reply" in value;
    const exported = Object.values(contract)
      .flatMap((room) => Object.values(room))
      .filter(isEndpoint);
    const idsOf = (all: readonly { id: string }[]) => [...new Set(all.map((one) => one.id))].sort();
    assert.deepEqual(idsOf(house.house.routes.map((route) => route.endpoint)), idsOf(exported));
    assert.equal(
      new Set(exported.map((one) => one.id)).size,
      new Set(exported).size,
      "two endpoints share an id",
    );
  });

  it("prints itself as OpenAPI 3.1 with every mounted endpoint", async () => {
    const { status, body } = await house.anonymous.get("/api/docs/json");
    assert.equal(status, 200);
    assert.equal(body.openapi, "3.1.0");
    for (const { endpoint } of house.house.routes)
      assert.ok(body.paths[endpoint.path]?.[endpoint.method.toLowerCase()], endpoint.id);
  });
});

describe("rate limits", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse({
      env: { KEYWARD_RATE_LIMIT_READ: "20", KEYWARD_RATE_LIMIT_LOGIN: "25" },
      start: new Date("2030-01-01T00:00:10Z"),
    });
  });
  after(() => house.close());

  it("count per caller, say how much is left, and answer 429 with retry-after and the words", async () => {
    const first = await house.owner.get("/api/v1/organization");
    assert.equal(first.headers.get("x-ratelimit-limit"), "20");
    let answer = first;
    for (let n = 0; n < 25 && answer.status === 200; n += 1)
      answer = await house.owner.get("/api/v1/organization");
    assert.deepEqual([answer.status, answer.body.error], [429, "RateLimitExceeded"]);
    const seconds = answer.headers.get("retry-after");
    assert.ok(Number(seconds) > 0);
    assert.ok(answer.body.message.includes(`${seconds} seconds`));
    const other = await house.newTenant();
    assert.equal((await other.get("/api/v1/organization")).status, 200, "another caller is not touched");
    house.clock.advance(60_000);
    assert.equal((await house.owner.get("/api/v1/organization")).status, 200, "a new minute is a new count");
  });

  it("S-51 are shared between nodes", async () => {
    const { base } = await house.openNode();
    const [here, there] = [
      house.owner,
      {
        get: (path: string) =>
          fetch(`${base}${path}`, { headers: { authorization: `Bearer ${house.owner.token}` } }),
      },
    ];
    house.clock.advance(60_000);
    for (let n = 0; n < 12; n += 1) await here.get("/api/v1/organization");
    await house.house.rateLimits.share();
    for (let n = 0; n < 6; n += 1) await there.get("/api/v1/organization");
    await house.house.rateLimits.share();
    const seen = new Set<number>();
    // The second node learns of the first one's count when it shares its own.
    for (let n = 0; n < 21; n += 1) seen.add((await here.get("/api/v1/organization")).status);
    assert.ok(seen.has(429));
  });

  it("weigh a password heavier than an ordinary login", async () => {
    house.clock.advance(60_000);
    const attempt = { email: "nobody@example.com", password: "wrong wrong" };
    const statuses = [];
    for (let n = 0; n < 3; n += 1)
      statuses.push((await house.anonymous.post("/api/v3/auth/login", attempt)).status);
    assert.deepEqual(statuses, [401, 429, 429]);
  });

  it("leave room to log in again for a fleet whose tokens have all ended", async () => {
    house.clock.advance(60_000);
    for (let n = 0; n < 30; n += 1) await house.as("not-a-token").get("/api/v1/organization");
    const login = await house.anonymous.post("/api/v1/auth/universal-auth/login", {
      clientId: "x",
      clientSecret: "y",
    });
    assert.equal(login.status, 401);
  });

  it("S-50 are not escaped by forged forwarding headers", async () => {
    house.clock.advance(60_000);
    let last = 0;
    for (let n = 0; n < 30; n += 1) {
      last = (
        await house.anonymous.post(
          "/api/v1/auth/universal-auth/login",
          { clientId: "x", clientSecret: "y" },
          {
            headers: {
              "x-forwarded-for": `10.0.0.${n}`,
              "x-real-ip": `10.1.0.${n}`,
              forwarded: `for=10.2.0.${n}`,
            },
          },
        )
      ).status;
    }
    assert.equal(last, 429);
  });
});
