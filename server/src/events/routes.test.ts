import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, anIdentity, aRole } from "../../test/builders.ts";
import {
  changed,
  commit,
  mutated,
  openStream,
  operatorParser,
  proxyParser,
  refusal,
  until,
  type StreamReader,
} from "../../test/event-streams.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";

const ALL_EVENTS = { subject: "secret-events", action: ["read", "create", "update", "delete"] };

describe("subscribing to project events", () => {
  let test: TestHouse;
  let owner: Tenant;
  let project: { id: string; slug: string };
  let place: { orgId: string; projectId: string };
  const readers: StreamReader[] = [];
  const open = async (token: string, body: unknown, base = test.base): Promise<StreamReader> => {
    const reader = await openStream(base, token, body);
    readers.push(reader);
    assert.equal(reader.status, 200);
    return reader;
  };

  before(async () => {
    test = await openTestHouse({ env: { KEYWARD_STREAMS_PER_IDENTITY: "20" } });
    owner = test.owner;
    project = await aProject(owner);
    place = { orgId: owner.orgId, projectId: project.id };
  });
  after(async () => {
    for (const reader of readers) reader.close();
    await test.close();
  });

  it("answers 200 at once, with headers that no proxy buffers or compresses", async () => {
    const reader = await open(owner.token, { projectId: project.id });
    assert.equal(reader.headers["content-type"], "text/event-stream");
    assert.equal(reader.headers["cache-control"], "no-cache, no-transform");
    assert.equal(reader.headers["x-accel-buffering"], "no");
    assert.equal(reader.headers["content-encoding"], undefined);
    assert.match(String(reader.headers["x-request-id"]), /^req-[0-9A-Za-z]{14}$/);
    assert.equal(reader.raw, "");
    reader.close();
  });

  it("leaves a row in the audit log that says who listens to what, and none for a refusal", async () => {
    const role = await aRole(owner, project.id, [{ subject: "secret-events", action: "update" }]);
    const { id, token } = await anIdentity(owner, test.base, project.id, { roles: [{ role }] });
    const register = [{ event: "secret:update" }, { event: "secret:update" }];
    const reader = await open(token, { projectId: project.slug, register });
    await refusal(test.base, token, { projectId: project.id });
    const rows = await withClient(
      test.database.server,
      test.database.connection.database,
      async (db) =>
        (
          await db.query(
            "SELECT * FROM audit_log WHERE event = 'subscribe-to-project-events' AND actor_id = $1",
            [id],
          )
        ).rows,
    );
    assert.deepEqual(
      rows.map((row) => [row.org_id, row.project_id, row.metadata, row.request_id]),
      [[owner.orgId, project.id, { events: ["secret:update"] }, reader.headers["x-request-id"]]],
    );
    reader.close();
  });

  it("sends each kind of change exactly as in the contract", async () => {
    const reader = await open(owner.token, { projectId: project.slug, register: [] });
    await commit(test.house, changed(place, "create", "A", "B"));
    await commit(test.house, changed({ ...place, environment: "prod", path: "/app/api" }, "update", "A"));
    await commit(test.house, changed(place, "delete", "B"), mutated({ ...place, path: "/app" }));
    await reader.hears(4);
    const text = reader.raw.replace(/^id: \d+$/gm, "id: N");
    assert.equal(
      text,
      [
        'id: N\nevent: secret:create\ndata: {"projectType":"secret-manager","data":{"eventType":"secret:create","payload":[{"environment":"dev","secretPath":"/","secretKey":"A"},{"environment":"dev","secretPath":"/","secretKey":"B"}]}}\n\n',
        'id: N\nevent: secret:update\ndata: {"projectType":"secret-manager","data":{"eventType":"secret:update","payload":[{"environment":"prod","secretPath":"/app/api","secretKey":"A"}]}}\n\n',
        'id: N\nevent: secret:delete\ndata: {"projectType":"secret-manager","data":{"eventType":"secret:delete","payload":[{"environment":"dev","secretPath":"/","secretKey":"B"}]}}\n\n',
        'id: N\nevent: secret:import-mutation\ndata: {"projectType":"secret-manager","data":{"eventType":"secret:import-mutation","payload":{"environment":"dev","secretPath":"/app"}}}\n\n',
      ].join(""),
    );
    const ids = reader.events.map((event) => event.id ?? 0);
    assert.ok(
      ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? 0)),
      "ids rise strictly",
    );
    reader.close();
  });

  it("sends only what was registered, an event that matches several filters once", async () => {
    const reader = await open(owner.token, {
      projectId: project.id,
      register: [
        { event: "secret:update", conditions: { environmentSlug: "prod", secretPath: "/app/**" } },
        { event: "secret:update", conditions: { secretPath: "/app/api" } },
        { event: "secret:create", conditions: { environmentSlug: "dev" } },
        { event: "secret:delete", conditions: {} },
      ],
    });
    const at = (environment: string, path: string) => ({ ...place, environment, path });
    await commit(
      test.house,
      changed(at("prod", "/app"), "update", "one"),
      changed(at("prod", "/application"), "update", "no"),
      changed(at("prod", "/app/api"), "update", "both"),
      changed(at("dev", "/app/api"), "update", "two"),
      changed(at("dev", "/app"), "update", "no"),
      changed(at("prod", "/"), "create", "no"),
      changed(at("dev", "/x"), "create", "three"),
      mutated(at("dev", "/x")),
      changed(at("staging", "/y"), "delete", "four"),
    );
    await reader.hears(5);
    assert.deepEqual(reader.told, [
      "secret:update prod /app one",
      "secret:update prod /app/api both",
      "secret:update dev /app/api two",
      "secret:create dev /x three",
      "secret:delete staging /y four",
    ]);
    reader.close();
  });

  it("E-03 no name can forge a field, a frame or a line", async () => {
    const reader = await open(owner.token, { projectId: project.id });
    const nasty = "A\n\ndata: forged\r\nevent: error\u2028x\u0085y: ";
    await commit(
      test.house,
      changed({ ...place, environment: "d\nid: 1", path: "/a\r\nb" }, "create", nasty),
      changed(place, "create", "after"),
    );
    await reader.hears(2);
    assert.equal(reader.events.length, 2);
    assert.equal(reader.error, undefined);
    assert.equal(reader.raw.split("\n").filter((line) => line !== "").length, 6);
    assert.doesNotMatch(reader.raw, /[\r\u0085\u2028\u2029]/);
    assert.deepEqual(JSON.parse(reader.events[0]?.data ?? "").data.payload, [
      { environment: "d\nid: 1", secretPath: "/a\r\nb", secretKey: nasty },
    ]);
    reader.close();
  });

  it("E-14 both parsers of the field understand a change of 2,000 keys, in lines of at most 32 KiB", async () => {
    const reader = await open(owner.token, { projectId: project.id });
    const keys = Array.from({ length: 2000 }, (_, n) => `A_RATHER_LONG_NAME_OF_A_SECRET_${n}`);
    await commit(test.house, changed({ ...place, path: "/some/folder" }, "update", ...keys), mutated(place));
    await until(
      () => reader.told.some((line) => line.startsWith("secret:import-mutation")),
      "the last event",
    );
    assert.ok(reader.events.length > 2, "it was split");
    for (const line of reader.raw.split("\n")) assert.ok(Buffer.byteLength(line) <= 32 * 1024);
    assert.deepEqual(
      proxyParser(reader.raw).map((item) => item.secretKey),
      keys,
    );
    const { dispatched } = operatorParser(reader.raw);
    assert.equal(dispatched.length, reader.events.length);
    assert.equal(new Set(dispatched.map((frame) => frame.id)).size, dispatched.length);
    reader.close();
  });

  it("a rolled-back change is never announced", async () => {
    const reader = await open(owner.token, { projectId: project.id });
    const doomed = test.house.database.write(async (tx) => {
      tx.emit(changed(place, "create", "never"));
      throw new Error("changed my mind");
    });
    await assert.rejects(doomed);
    await commit(test.house, changed(place, "create", "after"));
    await reader.hears(1);
    assert.deepEqual(reader.told, ["secret:create dev / after"]);
    reader.close();
  });

  it("E-07 one of several equal subscribers leaves; the others keep receiving", async () => {
    const body = {
      projectId: project.id,
      register: [{ event: "secret:create", conditions: { secretPath: "/a*/**" } }],
    };
    const [first, second, third] = await Promise.all([
      open(owner.token, body),
      open(owner.token, body),
      open(owner.token, body),
    ]);
    await commit(test.house, changed({ ...place, path: "/ab" }, "create", "one"));
    await Promise.all([first.hears(1), second.hears(1), third.hears(1)]);
    second.close();
    await commit(test.house, changed({ ...place, path: "/ab/c" }, "create", "two"));
    await Promise.all([first.hears(2), third.hears(2)]);
    assert.deepEqual(first.told, ["secret:create dev /ab one", "secret:create dev /ab/c two"]);
    assert.deepEqual(third.told, first.told);
    first.close();
    third.close();
  });

  it("a later stream gets what earlier ones get, from the next event on", async () => {
    const readers: StreamReader[] = [];
    for (let n = 0; n < 4; n += 1) {
      readers.push(await open(owner.token, { projectId: project.id }));
      await commit(test.house, changed({ ...place, path: "/same" }, "update", `EVENT_${n}`));
      await Promise.all(readers.map((reader, index) => reader.hears(n + 1 - index)));
    }
    for (const [index, reader] of readers.entries()) {
      assert.deepEqual(
        reader.told,
        [0, 1, 2, 3].slice(index).map((n) => `secret:update dev /same EVENT_${n}`),
      );
      reader.close();
    }
  });

  it("E-09 a new stream gets nothing that was committed before it, even if its node had not read that yet", async () => {
    const node = await test.openNode();
    for (let round = 0; round < 10; round += 1) {
      await commit(test.house, changed(place, "create", `old-${round}`));
      const reader = await open(owner.token, { projectId: project.id }, node.base);
      await commit(test.house, changed(place, "create", `new-${round}`));
      await reader.hears(1);
      assert.deepEqual(reader.told, [`secret:create dev / new-${round}`]);
      reader.close();
    }
  });

  it("E-09 gets a transaction that was open when it subscribed", async () => {
    let proceed: () => void = () => undefined;
    let begin: () => void = () => undefined;
    const waiting = new Promise<void>((resolve) => (proceed = resolve));
    const begun = new Promise<void>((resolve) => (begin = resolve));
    const slow = test.house.database.write(
      async (tx) => {
        await tx.rows({
          name: undefined,
          text: "INSERT INTO outbox (name, data) VALUES ('other', '{}')",
          isSlow: false,
        });
        tx.emit(changed(place, "create", "late"));
        begin();
        await waiting;
      },
      { audited: false },
    );
    await begun;
    // Of a higher number and committed already: the open one is not simply the newest.
    await commit(test.house, changed(place, "create", "before"));
    const reader = await open(owner.token, { projectId: project.id });
    proceed();
    await slow;
    await reader.hears(1);
    assert.deepEqual(reader.told, ["secret:create dev / late"]);
    reader.close();
  });

  describe("is refused", () => {
    it("401 without a token", async () => {
      const answer = await test.anonymous.post("/api/v1/events/subscribe/project-events", {
        projectId: project.id,
      });
      assert.equal(answer.status, 401);
    });

    it("422 for what the contract does not know, all issues at once", async () => {
      for (const [body, count] of [
        [{}, 1],
        [{ projectId: "" }, 1],
        [{ projectId: project.id, register: [{ event: "secret:read" }] }, 1],
        [
          {
            projectId: project.id,
            register: Array.from({ length: 101 }, () => ({ event: "secret:create" })),
          },
          1,
        ],
        [
          {
            projectId: project.id,
            register: ["app", "/a//b", "/a\\b", "/!(a)", "/+(a|aa)", "/{a", "/[a", `/${"a".repeat(512)}`].map(
              (secretPath) => ({ event: "secret:create", conditions: { secretPath } }),
            ),
          },
          1,
        ],
      ] as const) {
        const { status, body: refused } = await refusal(test.base, owner.token, body);
        assert.equal(status, 422, JSON.stringify(body).slice(0, 80));
        assert.ok((refused.message as unknown[]).length >= count);
      }
      const globs = ["app", "/!(a)", "/{a"].map((secretPath) => ({
        event: "secret:create",
        conditions: { secretPath },
      }));
      const { body } = await refusal(test.base, owner.token, { projectId: project.id, register: globs });
      assert.deepEqual(
        (body.message as { path: unknown }[]).map((issue) => issue.path),
        [0, 1, 2].map((n) => ["register", n, "conditions", "secretPath"]),
      );
      const { body: all } = await refusal(test.base, owner.token, {
        register: [{ event: "secret:read", conditions: { secretPath: "app" } }, null, ...globs.slice(1)],
      });
      assert.deepEqual(
        (all.message as { path: unknown[] }[]).map((issue) => issue.path.join(".")),
        [
          "projectId",
          "register.0.event",
          "register.1",
          "register.0.conditions.secretPath",
          "register.2.conditions.secretPath",
          "register.3.conditions.secretPath",
        ],
      );
    });

    it("E-05 422 for a glob that could blow up, too long a glob, too many filters, and too many wildcards in all", async () => {
      const glob = (secretPath: string) => ({ event: "secret:create", conditions: { secretPath } });
      const bombs = ["/+(a|aa)", "/*(+(a))", "/@(a|b)", "/{1..9999}", `/${"*a".repeat(32 * 1024)}`];
      for (const register of [
        ...bombs.map((pattern) => [glob(pattern)]),
        Array.from({ length: 10_000 }, () => ({ event: "secret:create" })),
        Array.from({ length: 100 }, (_, n) => glob(`/*a*b*c*d*e*${n}`)),
      ]) {
        const { status } = await refusal(test.base, owner.token, { projectId: project.id, register });
        assert.equal(status, 422, JSON.stringify(register).slice(0, 80));
      }
      (await open(owner.token, { projectId: project.id, register: [glob(`/${"*a".repeat(255)}`)] })).close();
    });

    it("E-05 429 when one actor's streams together would make every event expensive; equal globs count once", async () => {
      const { token } = await anIdentity(owner, test.base, project.id, { roles: [{ role: "viewer" }] });
      const body = (n: number) => ({
        projectId: project.id,
        register: [{ event: "secret:create", conditions: { secretPath: `/x${n}/${"*a".repeat(250)}` } }],
      });
      const opened: StreamReader[] = [];
      for (let n = 0; n < 8; n += 1) opened.push(await open(token, body(n)));
      opened.push(await open(token, body(0)));
      const { status, body: refused } = await refusal(test.base, token, body(8));
      assert.equal(status, 429);
      assert.match(String(refused.message), /wildcards/);
      opened[3]?.close();
      await until(() => opened[3]?.isEnded === true, "the end of one");
      let again = await openStream(test.base, token, body(8));
      for (let n = 0; again.status === 429 && n < 1000; n += 1)
        again = await openStream(test.base, token, body(8));
      assert.equal(again.status, 200);
      for (const reader of [...opened, again]) reader.close();
    });

    it("E-12 429 as often as somebody likes, without taking up a place", async () => {
      const { token } = await anIdentity(owner, test.base, project.id, { roles: [{ role: "viewer" }] });
      const body = (n: number) => ({
        projectId: project.id,
        register: [{ event: "secret:create", conditions: { secretPath: `/y${n}/${"*a".repeat(250)}` } }],
      });
      const opened: StreamReader[] = [];
      for (let n = 0; n < 8; n += 1) opened.push(await open(token, body(n)));
      for (let n = 0; n < 20; n += 1) {
        const { status, body: refused } = await refusal(test.base, token, body(8));
        assert.equal(status, 429);
        assert.match(String(refused.message), /wildcards/, `refusal ${n}`);
      }
      opened.push(await open(token, { projectId: project.id }));
      for (const reader of opened) reader.close();
    });

    it("S-27 404 for another organisation's project, exactly as for an unknown one", async () => {
      const tenant = await test.newTenant();
      const foreign = await refusal(test.base, tenant.token, { projectId: project.id });
      const unknown = await refusal(test.base, tenant.token, {
        projectId: "0194d1a0-0000-7000-8000-0000000000ff",
      });
      assert.equal(foreign.status, 404);
      assert.equal(foreign.body.error, unknown.body.error);
    });

    it("403 for an event whose action the caller has nowhere", async () => {
      const role = await aRole(owner, project.id, [
        { subject: "secret-event-subscriptions", action: "subscribe-to-update-events" },
      ]);
      const { token } = await anIdentity(owner, test.base, project.id, { roles: [{ role }] });
      const { status, body } = await refusal(test.base, token, {
        projectId: project.id,
        register: [{ event: "secret:update" }, { event: "secret:import-mutation" }],
      });
      assert.equal(status, 403);
      assert.equal(body.error, "PermissionDenied");
      assert.ok(Array.isArray(body["details"]));
      (await open(token, { projectId: project.id, register: [{ event: "secret:update" }] })).close();
    });

    it("400 without the licence, in the words that clients look for", async () => {
      const tenant = await test.newTenant();
      const own = await aProject(tenant);
      await tenant.delete("/api/v1/organization/licence");
      const { status, body } = await refusal(test.base, tenant.token, { projectId: own.id });
      assert.equal(status, 400);
      assert.equal(body.error, "LicenseRequired");
      assert.match(String(body.message), /not available on your current plan/);
    });

    it("E-12 429 above the limit, over all nodes, and free again when a stream ends", async () => {
      const { token } = await anIdentity(owner, test.base, project.id, { roles: [{ role: "viewer" }] });
      const node = await test.openNode();
      const opened = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          open(token, { projectId: project.id }, n % 2 === 0 ? test.base : node.base),
        ),
      );
      for (const base of [test.base, node.base]) {
        const { status, retryAfter, body } = await refusal(base, token, { projectId: project.id });
        assert.equal(status, 429);
        assert.ok(Number(retryAfter) > 0, "it says when to come back");
        assert.match(String(body.message), /\d+ seconds/);
      }
      opened[1]?.close();
      let again: StreamReader | undefined;
      await until(
        () =>
          again?.status === 200
            ? true
            : (void openStream(test.base, token, { projectId: project.id }).then(
                (reader) => (again ??= reader.status === 200 ? reader : undefined),
              ),
              false),
        "a free place",
      );
      again?.close();
      for (const reader of opened) reader.close();
    });
  });

  it("E-01 gets only what its role allows, and a deny counts", async () => {
    const role = await aRole(owner, project.id, [
      {
        ...ALL_EVENTS,
        conditions: { environment: { $in: ["dev", "prod"] }, secretPath: { $glob: "/app/**" } },
      },
      { subject: "secret-events", action: "delete", inverted: true, conditions: { environment: "prod" } },
    ]);
    const { token } = await anIdentity(owner, test.base, project.id, { roles: [{ role }] });
    const reader = await open(token, { projectId: project.id });
    const at = (environment: string, path: string) => ({ ...place, environment, path });
    await commit(
      test.house,
      changed(at("dev", "/app"), "create", "a"),
      changed(at("dev", "/"), "create", "no"),
      changed(at("staging", "/app"), "create", "no"),
      changed(at("prod", "/app/x"), "delete", "no"),
      changed(at("dev", "/app/x"), "delete", "b"),
      mutated(at("prod", "/app")),
    );
    await reader.hears(3);
    assert.deepEqual(reader.told, [
      "secret:create dev /app a",
      "secret:delete dev /app/x b",
      "secret:import-mutation prod /app",
    ]);
    reader.close();
  });
});
