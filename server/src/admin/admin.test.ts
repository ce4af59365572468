/** The first moments of an instance, and further organisations on it. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { clientOf, openTestHouse, OWNER, type TestHouse } from "../../test/harness.ts";
import { createTestDatabase, withClient, type TestDatabase } from "../../test/postgres.ts";
import { openHouse, type House } from "../house.ts";
import { systemClock } from "../platform/clock.ts";
import { readConfig } from "../platform/config.ts";
import { silentLog } from "../platform/log.ts";
import { redact } from "../platform/redacted.ts";

const BOOTSTRAP = "/api/v1/admin/bootstrap";

describe("an instance", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse();
  });
  after(() => house.close());

  describe("at its first start", () => {
    let database: TestDatabase;
    let empty: House;
    let base: string;
    before(async () => {
      database = await createTestDatabase();
      const rootKey = randomBytes(32);
      const config = readConfig({
        PORT: "0",
        DATABASE_URL: "postgres://unused",
        KEYWARD_ROOT_KEY: rootKey.toString("base64"),
        KEYWARD_RATE_LIMIT_LOGIN: "0",
      });
      empty = await openHouse({
        config,
        clock: systemClock,
        log: silentLog,
        connection: database.connection,
        rootKey: redact(rootKey),
      });
      base = `http://127.0.0.1:${await empty.listen()}`;
    });
    after(async () => {
      await empty.close();
      await database.drop();
    });

    it("refuses a weak or malformed set-up with 422 and stays empty", async () => {
      for (const body of [
        {},
        { ...OWNER },
        { ...OWNER, organization: " " },
        { ...OWNER, organization: "x", password: "short" },
        { ...OWNER, email: "nobody", organization: "x" },
      ]) {
        const answer = await clientOf(base).post(BOOTSTRAP, body);
        assert.equal(answer.status, 422);
        assert.doesNotMatch(JSON.stringify(answer.body), /a long enough password/);
      }
    });

    it("says so when the set-up fails for another reason, and can be set up afterwards", async () => {
      const alter = (change: string) =>
        withClient(database.server, database.connection.database, (client) =>
          client.query(`ALTER TABLE users ${change}`),
        );
      await alter("ADD CONSTRAINT nobody CHECK (false)");
      const answer = await clientOf(base).post(BOOTSTRAP, { ...OWNER, organization: "unlucky" });
      await alter("DROP CONSTRAINT nobody");
      assert.deepEqual([answer.status, answer.body.error], [500, "InternalServerError"]);
    });

    it("is set up by exactly one of 20 calls at once, and the others get 400", async () => {
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          clientOf(base).post(BOOTSTRAP, {
            email: `Admin${n}@Example.com`,
            password: OWNER.password,
            organization: `Org ${n}`,
            domain: "ignored",
          }),
        ),
      );
      const won = answers.filter(({ status }) => status === 200);
      assert.equal(won.length, 1);
      for (const { body } of answers.filter(({ status }) => status !== 200))
        assert.deepEqual([body.statusCode, body.error], [400, "BadRequest"]);
      const { message, identity, organization, user } = won[0]?.body ?? {};
      assert.equal(typeof message, "string");
      assert.match(user.email, /^admin\d+@example\.com$/);
      assert.deepEqual(
        [user.superAdmin, user.username, typeof user.firstName, typeof user.lastName],
        [true, user.email, "string", "string"],
      );
      assert.ok(organization.id && organization.name && organization.slug && identity.id && identity.name);
      const admin = clientOf(base, identity.credentials.token);
      assert.equal(
        (await admin.get("/api/v1/identities/details")).body.identityDetails.organization.id,
        organization.id,
      );
      assert.deepEqual(
        (await admin.get("/api/v1/organization")).body.organizations.map((one: { id: string }) => one.id),
        [organization.id],
      );
      assert.equal(
        (await clientOf(base).post("/api/v3/auth/login", { email: user.email, password: OWNER.password }))
          .status,
        200,
      );
      assert.equal((await clientOf(base).post(BOOTSTRAP, { ...OWNER, organization: "again" })).status, 400);
    });
  });

  it("leads from bootstrap to a first login over HTTP alone", async () => {
    const { owner, anonymous } = house;
    const { project } = (await owner.post("/api/v1/projects", { projectName: "First" })).body;
    const { identity } = (
      await owner.post(`/api/v1/projects/${project.id}/identities`, {
        name: "first",
        roles: [{ role: "viewer" }],
      })
    ).body;
    const { identityUniversalAuth } = (
      await owner.post(`/api/v1/auth/universal-auth/identities/${identity.id}`, {})
    ).body;
    const { clientSecret } = (
      await owner.post(`/api/v1/auth/universal-auth/identities/${identity.id}/client-secrets`, {})
    ).body;
    const { accessToken } = (
      await anonymous.post("/api/v1/auth/universal-auth/login", {
        clientId: identityUniversalAuth.clientId,
        clientSecret,
      })
    ).body;
    assert.equal(
      (await house.as(accessToken).get(`/api/v1/projects/${project.slug}`)).body.project.id,
      project.id,
    );
  });

  describe("takes further organisations", () => {
    it("from an instance admin, machine or person, each with an admin identity of its own", async () => {
      const { accessToken } = (await house.anonymous.post("/api/v3/auth/login", OWNER)).body;
      for (const [client, name] of [
        [house.owner, "Second"],
        [house.as(accessToken), "Third"],
      ] as const) {
        const { status, body } = await client.post("/api/v1/admin/organizations", { name });
        assert.equal(status, 200);
        const admin = house.as(body.identity.credentials.token);
        assert.equal(
          (await admin.get("/api/v1/identities/details")).body.identityDetails.organization.id,
          body.organization.id,
        );
        assert.equal(
          (await admin.post("/api/v1/admin/organizations", { name: "no" })).body.error,
          "PermissionDenied",
        );
        assert.deepEqual((await admin.get("/api/v1/projects")).body.projects, []);
      }
    });

    it("with a slug of its own: 409 when taken, 422 when it is none", async () => {
      assert.equal(
        (await house.owner.post("/api/v1/admin/organizations", { name: "x", slug: house.owner.orgSlug })).body
          .error,
        "Conflict",
      );
      for (const slug of ["", "A", "a b", "..", "a/b", "\u200b", "a".repeat(65)]) {
        assert.equal(
          (await house.owner.post("/api/v1/admin/organizations", { name: "x", slug })).status,
          422,
          JSON.stringify(slug),
        );
      }
      assert.equal((await house.anonymous.post("/api/v1/admin/organizations", { name: "x" })).status, 401);
    });
  });
});
