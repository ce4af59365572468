/** People's sessions through the door. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { until } from "../../../test/builders.ts";
import { clientOf, openTestHouse, OWNER, type Answer, type TestHouse } from "../../../test/harness.ts";
import { look } from "../../../test/people.ts";
import { withClient } from "../../../test/postgres.ts";
import { checkPassword } from "../../platform/crypto/index.ts";
import { regionOf } from "../../platform/http/index.ts";
import { newId } from "../../platform/ids.ts";
import { redact } from "../../platform/redacted.ts";

const LOGIN = "/api/v3/auth/login";
const SELECT = "/api/v3/auth/select-organization";

describe("a person's session", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse();
  });
  after(() => house.close());

  const login = (email: string, password: string): Promise<Answer> =>
    house.anonymous.post(LOGIN, { email, password });
  const session = async (): Promise<string> => (await login(OWNER.email, OWNER.password)).body.accessToken;
  const claimsOf = (token: string): Record<string, unknown> =>
    JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
  const inOrganization = async (): Promise<string> =>
    (await house.as(await session()).post(SELECT, { organizationId: house.owner.orgId })).body.token;
  /** Failures are counted per quarter of an hour; every test starts with a clean count. */
  const forgetFailures = () => house.clock.advance(901_000);

  it("is got with e-mail address and password, as JSON or form, and is a JWT with the claims that clients read (W15)", async () => {
    const { status, body, headers } = await login(OWNER.email, OWNER.password);
    assert.equal(status, 200);
    assert.equal(headers.get("cache-control"), "no-store");
    assert.deepEqual([body.tokenType, body.expiresIn], ["Bearer", 43_200]);
    const claims = claimsOf(body.accessToken);
    assert.deepEqual(
      [claims["authTokenType"], claims["userId"], claims["organizationId"]],
      ["accessToken", house.ownerUser.id, null],
    );
    assert.ok(Number.isInteger(claims["exp"]) && typeof claims["tokenVersionId"] === "string");
    const form = await house.anonymous.call("POST", `${LOGIN}/`, {
      rawBody: new URLSearchParams(OWNER).toString(),
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    assert.equal(form.status, 200);
  });

  it("a password that got no turn to be checked does not count as a wrong one", async () => {
    forgetFailures();
    const region = regionOf("127.0.0.1");
    const hash = (N: number, p: number) =>
      `scrypt$${N}$8$${p}$${Buffer.alloc(16).toString("base64")}$${Buffer.alloc(32).toString("base64")}`;
    const email = "nobody-yet@example.com";
    const crowd = Array.from({ length: 80 }, (_none, n) =>
      // The first two hold the places for seconds.
      checkPassword(redact("x"), n < 2 ? hash(2 ** 15, 8) : hash(2 ** 10, 1), {
        account: `c${n}`,
        network: `10.0.0.${n}`,
        region,
      }).catch(() => false),
    );
    const statuses = [];
    for (let n = 0; n < 7; n += 1) statuses.push((await login(email, "no turn")).status);
    assert.deepEqual(new Set(statuses), new Set([429]));
    await Promise.all(crowd);
    assert.equal((await login(email, "wrong")).status, 401, "not locked");
    forgetFailures();
  });

  it("a place from which somebody was let in is remembered by all nodes for 30 days, sixteen of each person", async () => {
    const rows = () =>
      withClient(house.database.server, house.database.connection.database, async (client) => {
        const { rows: found } = await client.query<{ network: string; at: Date }>(
          "SELECT network, let_in_at AS at FROM known_networks WHERE user_id = $1 ORDER BY let_in_at DESC, network",
          [house.ownerUser.id],
        );
        return found;
      });
    await withClient(house.database.server, house.database.connection.database, (client) =>
      client.query(
        "INSERT INTO known_networks SELECT $1, '10.0.0.' || n, $2::timestamptz - make_interval(days => n) FROM generate_series(1, 40) n",
        [house.ownerUser.id, house.clock.now()],
      ),
    );
    await session();
    const [newest, ...others] = await rows();
    assert.equal(newest?.network, "127.0.0.1");
    assert.equal(others.length, 15);
    house.clock.advance(31 * 86_400_000);
    await house.house.jobs.runDue();
    assert.deepEqual(await rows(), []);
  });

  it("knows the person, and nothing of an organisation until one is selected", async () => {
    const client = house.as(await session());
    const { user } = (await client.get("/api/v1/user")).body;
    assert.deepEqual(
      [user.id, user.email, user.username, user.superAdmin],
      [house.ownerUser.id, OWNER.email, OWNER.email, true],
    );
    assert.doesNotMatch(JSON.stringify(user), /scrypt|hash/i);
    assert.equal((await client.post("/api/v1/auth/checkAuth")).status, 200);
    assert.deepEqual(
      (await client.get("/api/v1/organization")).body.organizations.map((one: { id: string }) => one.id),
      [house.owner.orgId],
    );
    const refused = await client.get("/api/v1/projects");
    assert.deepEqual([refused.status, refused.body.error], [400, "BadRequest"]);
  });

  it("selects one of the person's organisations, and no other", async () => {
    const client = house.as(await session());
    const { status, body } = await client.post(SELECT, { organizationId: house.owner.orgId });
    assert.deepEqual([status, body.isMfaEnabled], [200, false]);
    assert.equal(claimsOf(body.token)["organizationId"], house.owner.orgId);
    assert.equal((await house.as(body.token).get("/api/v1/projects")).status, 200);
    const unknown = newId();
    const answers = [await client.post(SELECT, { organizationId: unknown })];
    assert.deepEqual([answers[0]?.status, answers[0]?.body.error], [404, "NotFound"]);
    assert.equal((await client.post(SELECT, { organizationId: "x" })).status, 422);
    assert.equal(
      (await house.owner.post(SELECT, { organizationId: house.owner.orgId })).status,
      400,
      "for people only",
    );
  });

  it("S-27 cannot select an organisation that the person is no member of, which looks unknown", async () => {
    const other = await house.newTenant();
    await withClient(house.database.server, house.database.connection.database, (client) =>
      client.query("DELETE FROM memberships WHERE org_id = $1 AND user_id IS NOT NULL", [other.orgId]),
    );
    const client = house.as(await session());
    const [foreign, unknown] = [await client.post(SELECT, { organizationId: other.orgId }), newId()];
    const nowhere = await client.post(SELECT, { organizationId: unknown });
    assert.equal(foreign.status, 404);
    assert.equal(
      JSON.stringify({ ...foreign.body, reqId: "" }).replace(other.orgId, "ID"),
      JSON.stringify({ ...nowhere.body, reqId: "" }).replace(unknown, "ID"),
    );
  });

  it("ends after twelve hours", async () => {
    const client = house.as(await session());
    house.clock.advance(43_190_000);
    assert.equal((await client.get("/api/v1/user")).status, 200);
    house.clock.advance(11_000);
    assert.deepEqual(
      [(await client.get("/api/v1/user")).status, (await client.get("/api/v1/user")).body.error],
      [401, "TokenError"],
    );
  });

  it("S-34 ends by logging out, on every node, and leaves the person's others alone", async () => {
    const second = await house.openNode();
    const [one, other] = [await session(), await session()];
    for (const base of [house.base, second.base])
      assert.equal((await clientOf(base, one).get("/api/v1/user")).status, 200);
    assert.equal((await house.as(one).post("/api/v1/auth/logout")).status, 200);
    assert.equal((await house.as(one).get("/api/v1/user")).body.error, "UnauthorizedError");
    await until(async () => (await clientOf(second.base, one).get("/api/v1/user")).status === 401, 1000);
    assert.equal((await house.as(other).get("/api/v1/user")).status, 200);
    assert.equal(
      (await house.owner.post("/api/v1/auth/logout")).status,
      400,
      "a machine identity has no session to end",
    );
  });

  it("S-01 S-14 is refused in the same words for an unknown address and a wrong password, up to the lock and beyond", async () => {
    forgetFailures();
    const answers: Answer[][] = [];
    for (let n = 0; n < 8; n += 1)
      answers.push([await login(OWNER.email, `wrong ${n}`), await login("nobody@example.com", `wrong ${n}`)]);
    for (const [known, unknown] of answers) {
      assert.deepEqual([known?.status, known?.body.error], [401, "UnauthorizedError"]);
      const words = (answer: Answer | undefined) =>
        JSON.stringify({ ...answer?.body, reqId: "" }).replace(/\d+ seconds/, "N seconds");
      assert.equal(words(known), words(unknown));
    }
    assert.match(answers[7]?.[0]?.body.message, /Locked/);
    house.clock.advance(301_000);
    assert.equal((await login(OWNER.email, OWNER.password)).status, 200);
  });

  it("S-03 counts every spelling of an address as the one account that it is", async () => {
    forgetFailures();
    const spellings = [
      "OWNER@example.com",
      " owner@example.com ",
      "Owner@EXAMPLE.com",
      "ｏｗｎｅｒ@example.com",
      "owner＠example.com",
    ];
    for (const email of spellings) assert.equal((await login(email, OWNER.password)).status, 200, email);
    for (const email of spellings) assert.equal((await login(email, "wrong")).status, 401);
    for (const email of ["owner@example.com", ...spellings]) {
      const { status, body } = await login(email, OWNER.password);
      assert.deepEqual(
        [status, /Locked/.test(body.message)],
        [401, true],
        `${email} is as locked as the others`,
      );
    }
    house.clock.advance(301_000);
    assert.equal((await login(OWNER.email, OWNER.password)).status, 200);
  });

  it("S-04 lets no more guesses through at once than one after the other", async () => {
    forgetFailures();
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => login(OWNER.email, `guess ${n}`)));
    const looked = answers.filter(({ body }) => body.message === "Invalid credentials.");
    assert.equal(looked.length, 5);
    assert.ok(answers.every(({ status }) => status === 401));
    house.clock.advance(301_000);
  });

  it("does not count right passwords against each other when many come at once", async () => {
    forgetFailures();
    const answers = await Promise.all(Array.from({ length: 12 }, () => login(OWNER.email, OWNER.password)));
    assert.deepEqual(
      answers.map(({ status }) => status),
      answers.map(() => 200),
    );
  });

  it("has every refusal written down, without the address or the password", async () => {
    forgetFailures();
    const count = () =>
      withClient(house.database.server, house.database.connection.database, async (client) =>
        (
          await client.query<{ text: string }>(
            "SELECT row_to_json(a)::text AS text FROM audit_log a WHERE event = 'login-refused'",
          )
        ).rows.map((row) => row.text),
      );
    const before = (await count()).length;
    for (let n = 0; n < 7; n += 1) await login("canary-address@example.com", "canary-password");
    const rows = await count();
    assert.equal(rows.length - before, 7);
    assert.ok(!rows.some((text) => text.includes("canary")));
  });

  it("is in the trail of every organisation of the person, refusals and changed passwords too", async () => {
    forgetFailures();
    const [one, other] = [await house.newTenant(), await house.newTenant()];
    await login(OWNER.email, "wrong wrong");
    assert.equal((await login(OWNER.email, OWNER.password)).status, 200);
    for (const tenant of [one, other]) {
      const { auditLogs } = (
        await tenant.get("/api/v1/organization/audit-logs?eventType=login,login-refused")
      ).body;
      assert.deepEqual(
        auditLogs.map((log: { eventType: string; ipAddress: string }) => [log.eventType, log.ipAddress]),
        [
          ["login", "127.0.0.1"],
          ["login-refused", "127.0.0.1"],
        ],
      );
      assert.equal(auditLogs[0].actor.metadata.userId, house.ownerUser.id);
    }
  });

  it("that concerns no organisation is for instance admins to read, and for nobody else", async () => {
    forgetFailures();
    await login("nowhere@example.com", "wrong wrong");
    const path = "/api/v1/admin/audit-logs?eventType=login-refused&limit=1";
    const { status, body } = await house.owner.get(path);
    assert.equal(status, 200);
    const [row] = body.auditLogs;
    assert.deepEqual([row.orgId, row.event.metadata.reason], [null, "unknown-account"]);
    assert.equal(typeof body.nextCursor, "string");
    const next = (await house.owner.get(`${path}&cursor=${body.nextCursor}`)).body.auditLogs;
    assert.ok(next.length === 1 && next[0].id !== row.id && next[0].orgId === null);
    assert.equal((await (await house.newTenant()).get(path)).status, 403);
    assert.equal((await house.anonymous.get(path)).status, 401);
  });

  it("S-46 S-31 refuses odd bodies without repeating them", async () => {
    for (const body of [
      {},
      { email: "x", password: "canary" },
      { email: OWNER.email, password: 7 },
      { email: [OWNER.email], password: "canary" },
      { email: { $ne: "" }, password: "canary" },
    ]) {
      const answer = await house.anonymous.post(LOGIN, body);
      assert.equal(answer.status, 422);
      assert.doesNotMatch(JSON.stringify(answer.body), /canary/);
    }
  });

  describe("after a changed password", () => {
    const change = (token: string, currentPassword: string, newPassword: string) =>
      house.as(token).post("/api/v1/auth/password", { currentPassword, newPassword });

    it("is over, as are all others of the person, on every node", async () => {
      forgetFailures();
      const second = await house.openNode();
      const [one, other, selected] = [await session(), await session(), await inOrganization()];
      for (const token of [one, other])
        assert.equal((await clientOf(second.base, token).get("/api/v1/user")).status, 200);
      assert.equal((await change(one, "wrong", "another long password")).status, 401);
      assert.equal((await change(one, OWNER.password, "short")).status, 422);
      assert.equal((await change(one, OWNER.password, "another long password")).status, 200);
      for (const token of [one, other, selected]) {
        assert.equal((await house.as(token).get("/api/v1/user")).status, 401);
        await until(
          async () => (await clientOf(second.base, token).get("/api/v1/user")).status === 401,
          1000,
        );
      }
      assert.equal((await login(OWNER.email, OWNER.password)).status, 401);
      const again = await login(OWNER.email, "another long password");
      assert.equal(again.status, 200);
      assert.equal(
        (await change(again.body.accessToken, "another long password", OWNER.password)).status,
        200,
      );
    });

    it("is over, too, when it was being opened at that very moment", async () => {
      forgetFailures();
      const root = await session();
      const waiting = (count: number) =>
        until(
          async () =>
            (
              await look(
                house,
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
              )
            ).length === count,
          5000,
        );
      const [branch, changed] = await withClient(
        house.database.server,
        house.database.connection.database,
        async (client) => {
          // Holds up the selection at its last step, when its row is written and cannot be seen yet.
          await client.query("BEGIN");
          await client.query("LOCK TABLE audit_log IN SHARE MODE");
          const selecting = house.as(root).post(SELECT, { organizationId: house.owner.orgId });
          await waiting(1);
          const changing = change(root, OWNER.password, "another long password");
          await waiting(2);
          await client.query("COMMIT");
          return Promise.all([selecting, changing]);
        },
      );
      assert.deepEqual([branch.status, changed.status], [200, 200]);
      assert.equal((await house.as(branch.body.token).get("/api/v1/projects")).status, 401);
      const again = (await login(OWNER.email, "another long password")).body.accessToken;
      assert.equal((await change(again, "another long password", OWNER.password)).status, 200);
    });

    it("is for people only", async () => {
      assert.equal((await change(house.owner.token, "x", "another long password")).status, 400);
    });
  });

  it("cannot be prolonged by selecting an organisation: the branch ends with the login it goes back to", async () => {
    forgetFailures();
    const root = await session();
    house.clock.advance(11 * 3_600_000);
    const branch = (await house.as(root).post(SELECT, { organizationId: house.owner.orgId })).body
      .token as string;
    assert.equal((await house.as(branch).get("/api/v1/projects")).status, 200);
    house.clock.advance(3_600_000 + 1000);
    assert.equal((await house.as(branch).get("/api/v1/projects")).status, 401);
    assert.equal((await house.as(branch).post(SELECT, { organizationId: house.owner.orgId })).status, 401);
  });

  it("takes everything that was opened from the same login along when it is ended", async () => {
    forgetFailures();
    const root = await session();
    const first = (await house.as(root).post(SELECT, { organizationId: house.owner.orgId })).body
      .token as string;
    const second = (await house.as(first).post(SELECT, { organizationId: house.owner.orgId })).body
      .token as string;
    const other = await session();
    assert.equal((await house.as(first).post("/api/v1/auth/logout")).status, 200);
    for (const token of [root, first, second])
      assert.equal((await house.as(token).post("/api/v1/auth/checkAuth")).status, 401);
    assert.equal(
      (await house.as(other).post("/api/v1/auth/checkAuth")).status,
      200,
      "another login is not touched",
    );
  });
});
