import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type pg from "pg";
import { aProject, anIdentity, aRole, credentials, login, unique } from "../../test/builders.ts";
import { changed, commit, openStream, refusal, until, type StreamReader } from "../../test/event-streams.ts";
import { clientOf, openTestHouse, type Client, type Tenant, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { tokensChanged } from "../auth/index.ts";
import { licenceChanged } from "../licences/index.ts";
import { accessChanged } from "../permissions/index.ts";

const rule = (action: string | string[], conditions?: unknown) => ({
  subject: "secret-events",
  action,
  ...(conditions ? { conditions } : {}),
});
const EVERY = ["read", "create", "update", "delete"];
const HOUR_MS = 3_600_000;

/** Streams are open on one node; whatever ends or narrows them happens on another. */
describe("an open stream and the rights it depends on (E-01, S-34)", () => {
  let test: TestHouse;
  let owner: Tenant;
  let project: { id: string; slug: string };
  let place: { orgId: string; projectId: string };
  let far: { base: string; house: TestHouse["house"] };
  let atFar: Client;

  const subscribe = async (token: string, more: Record<string, unknown> = {}): Promise<StreamReader> => {
    const reader = await openStream(test.base, token, { projectId: project.id, ...more });
    assert.equal(reader.status, 200);
    return reader;
  };
  const roleId = async (slug: string): Promise<string> =>
    (await owner.get(`/api/v1/projects/${project.id}/roles/slug/${slug}`)).body.role.id;
  const expectEnd = async (reader: StreamReader, why: RegExp): Promise<void> => {
    await until(() => reader.isEnded, "the end of the stream");
    assert.match(reader.error ?? "no error event", why);
  };
  const ok = (answer: { status: number; body: unknown }): void =>
    assert.equal(answer.status, 200, JSON.stringify(answer.body));

  before(async () => {
    test = await openTestHouse();
    owner = test.owner;
    far = await test.openNode();
    atFar = clientOf(far.base, owner.token);
    project = await aProject(owner);
    place = { orgId: owner.orgId, projectId: project.id };
  });
  after(() => test.close());

  it("ends when its token is revoked, and an event committed right after that is not sent", async () => {
    const { token } = await anIdentity(owner, test.base, project.id, { roles: [{ role: "viewer" }] });
    const [reader, other] = [await subscribe(token), await subscribe(owner.token)];
    ok(await clientOf(far.base).post("/api/v1/auth/token/revoke", { accessToken: token }));
    await commit(far.house, changed(place, "create", "after"));
    await other.hears(1);
    await expectEnd(reader, /revoked/);
    assert.deepEqual(reader.told, []);
    assert.equal(other.isEnded, false);
    other.close();
  });

  it("ends when its identity is deleted", async () => {
    const { id, token } = await anIdentity(owner, test.base, project.id, { roles: [{ role: "viewer" }] });
    const reader = await subscribe(token);
    ok(await atFar.delete(`/api/v1/projects/${project.id}/identities/${id}`));
    await expectEnd(reader, /revoked|no longer allowed/);
  });

  it("ends when its client secret is revoked", async () => {
    const { id, clientId, token } = await anIdentity(owner, test.base, project.id, {
      roles: [{ role: "viewer" }],
    });
    const second = await owner.post(`/api/v1/auth/universal-auth/identities/${id}/client-secrets`, {});
    const kept = await login(test.base, clientId, second.body.clientSecret);
    const [reader, other] = [await subscribe(token), await subscribe(kept)];
    const { clientSecretData } = (
      await owner.get(`/api/v1/auth/universal-auth/identities/${id}/client-secrets`)
    ).body;
    const first = clientSecretData.find((row: { id: string }) => row.id !== second.body.clientSecretData.id);
    ok(
      await atFar.post(`/api/v1/auth/universal-auth/identities/${id}/client-secrets/${first.id}/revoke`, {}),
    );
    await expectEnd(reader, /revoked/);
    assert.equal(other.isEnded, false, "the token of the other secret lives on");
    other.close();
  });

  it("ends when its membership goes", async () => {
    const made = await owner.post("/api/v1/identities", {
      name: unique("identity"),
      organizationId: owner.orgId,
    });
    ok(made);
    const { id } = made.body.identity;
    ok(await owner.post(`/api/v1/projects/${project.id}/memberships/identities/${id}`, { role: "viewer" }));
    const { clientId, clientSecret } = await credentials(owner, id);
    const reader = await subscribe(await login(test.base, clientId, clientSecret));
    ok(await atFar.delete(`/api/v1/projects/${project.id}/memberships/identities/${id}`));
    await expectEnd(reader, /no longer allowed/);
  });

  it("is narrowed when its role is, from the very next commit on, and ends when nothing is left", async () => {
    const slug = await aRole(owner, project.id, [rule(EVERY)]);
    const id = await roleId(slug);
    const { token } = await anIdentity(owner, test.base, project.id, { roles: [{ role: slug }] });
    const reader = await subscribe(token);
    const setRules = (permissions: unknown[]) =>
      atFar.patch(`/api/v1/projects/${project.id}/roles/${id}`, { permissions });
    await commit(far.house, changed(place, "create", "one"));
    ok(await setRules([rule(EVERY, { environment: "prod" })]));
    await commit(far.house, changed(place, "create", "hidden"));
    await commit(far.house, changed({ ...place, environment: "prod" }, "create", "two"));
    ok(await setRules([rule(["update"])]));
    await commit(far.house, changed(place, "create", "hidden"), changed(place, "update", "three"));
    await reader.hears(3);
    assert.deepEqual(reader.told, [
      "secret:create dev / one",
      "secret:create prod / two",
      "secret:update dev / three",
    ]);
    ok(await atFar.delete(`/api/v1/projects/${project.id}/roles/${id}`));
    await expectEnd(reader, /no longer allowed/);
  });

  it("gets more at once when its role allows more", async () => {
    const slug = await aRole(owner, project.id, [rule(EVERY, { environment: "prod" })]);
    const { token } = await anIdentity(owner, test.base, project.id, { roles: [{ role: slug }] });
    const reader = await subscribe(token);
    ok(
      await atFar.patch(`/api/v1/projects/${project.id}/roles/${await roleId(slug)}`, {
        permissions: [rule(EVERY)],
      }),
    );
    await commit(far.house, changed(place, "create", "now"));
    await reader.hears(1);
    assert.deepEqual(reader.told, ["secret:create dev / now"]);
    reader.close();
  });

  it("ends when its temporary role does, and when its token expires, by the clock alone", async () => {
    const temporary = { role: "viewer", isTemporary: true, temporaryRange: "1h" };
    const guest = await anIdentity(owner, test.base, project.id, { roles: [temporary] });
    const { identity } = (
      await owner.post(`/api/v1/projects/${project.id}/identities`, {
        name: "brief",
        roles: [{ role: "viewer" }],
      })
    ).body;
    const { clientId, clientSecret } = await credentials(owner, identity.id, {
      accessTokenTTL: 7200,
      accessTokenMaxTTL: 7200,
    });
    const [guestReader, briefReader, ownReader] = [
      await subscribe(guest.token),
      await subscribe(await login(test.base, clientId, clientSecret)),
      await subscribe(owner.token),
    ];
    test.clock.advance(HOUR_MS);
    await expectEnd(guestReader, /no longer allowed/);
    assert.equal(briefReader.isEnded, false);
    test.clock.advance(HOUR_MS);
    await expectEnd(briefReader, /expired/);
    assert.equal(ownReader.isEnded, false);
    ownReader.close();
  });

  it("E-14 a client that is cut when its token ends is refused with that token, renews it, and receives again", async () => {
    const { identity } = (
      await owner.post(`/api/v1/projects/${project.id}/identities`, {
        name: unique("renewing"),
        roles: [{ role: "viewer" }],
      })
    ).body;
    const { clientId, clientSecret } = await credentials(owner, identity.id, {
      accessTokenTTL: 3600,
      accessTokenMaxTTL: 3600,
    });
    const old = await login(test.base, clientId, clientSecret);
    const first = await subscribe(old);
    await commit(far.house, changed(place, "create", "before"));
    await first.hears(1);
    test.clock.advance(HOUR_MS);
    await expectEnd(first, /expired/);
    assert.equal((await refusal(test.base, old, { projectId: project.id })).status, 401);
    await commit(far.house, changed(place, "create", "meanwhile"));
    const second = await subscribe(await login(test.base, clientId, clientSecret));
    await commit(far.house, changed(place, "create", "after"));
    await second.hears(1);
    assert.deepEqual(second.told, ["secret:create dev / after"], "nothing is kept for those who come back");
    second.close();
  });

  it("gets what a temporary role allows from the role's first moment on", async () => {
    const slug = await aRole(owner, project.id, [rule(EVERY, { environment: "prod" })]);
    const startsAt = new Date(test.clock.millis() + HOUR_MS).toISOString();
    const later = {
      role: "viewer",
      isTemporary: true,
      temporaryRange: "1h",
      temporaryAccessStartTime: startsAt,
    };
    const { token } = await anIdentity(owner, test.base, project.id, { roles: [{ role: slug }, later] });
    const reader = await subscribe(token);
    await commit(far.house, changed(place, "create", "early"));
    await commit(far.house, changed({ ...place, environment: "prod" }, "create", "allowed"));
    await reader.hears(1);
    test.clock.advance(HOUR_MS);
    const heardMore = async () => {
      await commit(far.house, changed(place, "create", "in time"));
      return reader.told.includes("secret:create dev / in time");
    };
    const deadline = Date.now() + 120_000;
    while (!(await heardMore())) assert.ok(Date.now() < deadline, "the role never began");
    assert.ok(!reader.told.includes("secret:create dev / early"));
    reader.close();
  });

  it("ends with the user's session, and with the project", async () => {
    const doomed = await aProject(owner);
    const session = await clientOf(test.base).post("/api/v3/auth/login", {
      email: test.ownerUser.email,
      password: test.ownerUser.password,
    });
    const selected = await clientOf(test.base, session.body.accessToken).post(
      "/api/v3/auth/select-organization",
      { organizationId: owner.orgId },
    );
    const asUser = clientOf(far.base, selected.body.token);
    const own = await aProject(asUser);
    const reader = await openStream(test.base, selected.body.token, { projectId: own.id });
    assert.equal(reader.status, 200);
    ok(await asUser.post("/api/v1/auth/logout", {}));
    await expectEnd(reader, /revoked/);
    const ofProject = await openStream(test.base, owner.token, { projectId: doomed.id });
    ok(await atFar.delete(`/api/v1/projects/${doomed.id}`));
    await expectEnd(ofProject, /deleted/);
  });

  it("ends when the organisation's licence is revoked, and when it expires", async () => {
    const tenant = await test.newTenant();
    const own = await aProject(tenant);
    const grant = (days: number) =>
      owner.post("/api/v1/admin/licences", { organizationId: tenant.orgId, plan: "enterprise", days });
    ok(await grant(1));
    const reader = await openStream(test.base, tenant.token, { projectId: own.id });
    assert.equal(reader.status, 200);
    ok(await clientOf(far.base, tenant.token).delete("/api/v1/organization/licence"));
    await expectEnd(reader, /not available on your current plan/);
    ok(await grant(1));
    const again = await openStream(test.base, tenant.token, { projectId: own.id });
    assert.equal(again.status, 200);
    test.clock.advance(25 * HOUR_MS);
    await expectEnd(again, /not available on your current plan/);
  });

  it("keeps receiving while the rights of others change", async () => {
    const reader = await subscribe(owner.token);
    const stranger = await anIdentity(owner, test.base, project.id, { roles: [{ role: "viewer" }] });
    ok(
      await atFar.patch(`/api/v1/projects/${project.id}/memberships/identities/${stranger.id}`, {
        roles: [{ role: "no-access" }],
      }),
    );
    await commit(far.house, changed(place, "create", "still here"));
    await reader.hears(1);
    assert.equal(reader.isEnded, false);
    reader.close();
  });

  it("shows a sign of life when nothing happens", async () => {
    // Each has its moment within fifteen seconds, drawn by lot: of ten the first is not long in coming.
    const readers = await Promise.all(Array.from({ length: 10 }, () => subscribe(owner.token)));
    const isPinged = ({ frames }: StreamReader) => frames.some(({ event }) => event === "ping");
    await until(() => readers.some(isPinged), "a ping", 60);
    for (const reader of readers) reader.close();
  });

  it("ends with an error event when its server stops, and the server does stop", async () => {
    const node = await test.openNode();
    const reader = await openStream(node.base, owner.token, { projectId: project.id });
    const stalled = await openStream(node.base, owner.token, { projectId: project.id });
    stalled.pause();
    await node.close();
    await expectEnd(reader, /stopping/);
  });

  it("gets what was committed before its server was asked to stop, then the error event", async () => {
    const node = await test.openNode();
    const reader = await openStream(node.base, owner.token, { projectId: project.id });
    // The event is queued behind a change of rights that is not applied yet.
    await commit(
      node.house,
      accessChanged({ orgId: owner.orgId, projectId: project.id, actorId: null }),
      changed(place, "create", "last words"),
    );
    await node.close();
    await expectEnd(reader, /stopping/);
    assert.deepEqual(reader.told, ["secret:create dev / last words"]);
  });

  const withDb = <T>(work: (db: pg.Client) => Promise<T>) =>
    withClient(test.database.server, test.database.connection.database, work);
  const hold = (db: pg.Client, table: string) =>
    db.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
  const untilSomeoneWaitsFor = async (db: pg.Client, table: string) => {
    const waiting = `SELECT 1 FROM pg_locks WHERE NOT granted AND relation = '${table}'::regclass`;
    while ((await db.query(waiting)).rowCount === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  };

  it("is refused if its token is revoked after it was checked, while the rest is being checked", async () => {
    const { id, token } = await anIdentity(owner, test.base, project.id, { roles: [{ role: "viewer" }] });
    let hasHeard = false;
    test.house.tail.onFacts((facts) => {
      hasHeard ||= facts.some(
        (fact) => fact.name === tokensChanged.factName && JSON.stringify(fact.data).includes(id),
      );
    });
    await withDb((places) =>
      withDb(async (licences) => {
        await hold(places, "stream_counts");
        const coming = openStream(test.base, token, { projectId: project.id });
        await untilSomeoneWaitsFor(licences, "stream_counts");
        // Everything was checked once; in the second check, the licence comes last.
        await commit(test.house, licenceChanged({ orgId: owner.orgId }));
        await hold(licences, "licences");
        await places.query("COMMIT");
        await untilSomeoneWaitsFor(places, "licences");
        ok(await clientOf(far.base).post("/api/v1/auth/token/revoke", { accessToken: token }));
        await until(() => hasHeard, "the news of the revocation");
        await licences.query("COMMIT");
        const reader = await coming;
        reader.close();
        assert.equal(reader.status, 401);
      }),
    );
  });

  it("is refused if its server begins to stop while it is being admitted, and the server does stop", async () => {
    const node = await test.openNode();
    await withDb((places) =>
      withDb(async (rights) => {
        await hold(places, "stream_counts");
        const coming = refusal(node.base, owner.token, { projectId: project.id });
        await untilSomeoneWaitsFor(rights, "stream_counts");
        // Its rights were checked before; now they must be checked again.
        await commit(node.house, accessChanged({ orgId: owner.orgId, projectId: project.id, actorId: null }));
        await hold(rights, "memberships");
        await places.query("COMMIT");
        await untilSomeoneWaitsFor(places, "memberships");
        const closing = node.close();
        await new Promise((resolve) => setTimeout(resolve, 50));
        await rights.query("COMMIT");
        const { status, retryAfter } = await coming;
        assert.deepEqual([status, retryAfter], [503, "2"]);
        await closing;
      }),
    );
  });
});

describe("a subscription among many tenants", () => {
  it("F5 P-08 is admitted while the rights of others change a thousand times a second", async () => {
    const test = await openTestHouse();
    const project = await aProject(test.owner);
    let isOver = false;
    let news = 0;
    const others = (async () => {
      while (!isOver) {
        // In one commit, as fast as they come.
        const facts = Array.from({ length: 50 }, (_, n) =>
          accessChanged({ orgId: `other-${n}`, projectId: null, actorId: null }),
        );
        await commit(test.house, ...facts);
        news += facts.length;
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    })();
    for (let n = 0; n < 5; n += 1) {
      const reader = await openStream(test.base, test.owner.token, { projectId: project.id });
      assert.equal(reader.status, 200);
      reader.close();
    }
    isOver = true;
    await others;
    assert.ok(news > 0);
    await test.close();
  });

  it("keeps receiving after a fact that cannot be parsed", async () => {
    const test = await openTestHouse();
    const project = await aProject(test.owner);
    const reader = await openStream(test.base, test.owner.token, { projectId: project.id });
    await commit(test.house, { name: tokensChanged.factName, data: null });
    await commit(test.house, changed({ orgId: test.owner.orgId, projectId: project.id }, "create", "ONE"));
    await reader.hears(1);
    assert.deepEqual(reader.told, ["secret:create dev / ONE"]);
    reader.close();
    await test.close();
  });
});

describe("a server that is cut off from events", () => {
  it("closes its streams after a minute and admits no more, until it is connected again", async () => {
    const test = await openTestHouse();
    const { server, connection } = test.database;
    const sql = (text: string) => withClient(server, "postgres", (db) => db.query(text));
    const project = await aProject(test.owner);
    const reader = await openStream(test.base, test.owner.token, { projectId: project.id });
    // Only the connection that reads the outbox is cut, and no new one can be made: the rest of the server works.
    await sql(`ALTER DATABASE ${connection.database} WITH ALLOW_CONNECTIONS false`);
    await sql(
      `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
       WHERE a.datname = '${connection.database}' AND l.locktype = 'advisory' AND l.classid = ${0x6b657977}`,
    );
    let aheadMs = 50_000;
    Object.assign(test.clock, { elapsed: () => performance.now() + aheadMs });
    await new Promise((resolve) => setTimeout(resolve, 1500));
    assert.equal(reader.isEnded, false);
    aheadMs = 61_000;
    await until(() => reader.isEnded, "the end of the stream");
    assert.match(reader.error ?? "no error event", /lost sight/);
    const refused = await refusal(test.base, test.owner.token, { projectId: project.id });
    assert.equal(refused.status, 503, JSON.stringify(refused.body));
    assert.ok(Number(refused.retryAfter) > 0);
    await sql(`ALTER DATABASE ${connection.database} WITH ALLOW_CONNECTIONS true`);
    await until(() => test.house.tail.isFresh(), "the outbox to be read again");
    const again = await openStream(test.base, test.owner.token, { projectId: project.id });
    assert.equal(again.status, 200);
    again.close();
    await test.close();
  });
});
