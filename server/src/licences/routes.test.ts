import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { withClient } from "../../test/postgres.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../test/harness.ts";
import { newId } from "../platform/ids.ts";
import { LICENCE_FEATURES } from "./contract.ts";
import { signLicence } from "./document/model.ts";

const OWN = "/api/v1/organization/licence";
const ADMIN = "/api/v1/admin/licences";
const DAY_MS = 86_400_000;

describe("licences at the door", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse();
  });
  after(() => house.close());

  const issue = async (organizationId: string | null, more: object = {}) => {
    const answer = await house.owner.post(ADMIN, { organizationId, plan: "enterprise", days: 1, ...more });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body.licence;
  };
  /** A document that is signed but not installed, as the command line makes one without a server. */
  const issueApart = async (organizationId: string | null, more: object = {}): Promise<string> => {
    const { id, document } = await issue(organizationId, more);
    await withClient(house.database.server, house.database.connection.database, (client) =>
      client.query("DELETE FROM licences WHERE id = $1", [id]),
    );
    return document;
  };
  const statusOf = async (tenant: Tenant) => (await tenant.get(OWN)).body.licence.status;

  it("the first organisation has an enterprise licence, a second one starts as free", async () => {
    const first = (await house.owner.get(OWN)).body.licence;
    assert.deepEqual([first.plan, first.status, first.scope], ["enterprise", "active", "organization"]);
    assert.deepEqual(first.activeFeatures, [...LICENCE_FEATURES]);
    const second = await house.newTenant();
    assert.deepEqual((await second.get(OWN)).body.licence, {
      id: null,
      scope: null,
      plan: "free",
      features: [],
      activeFeatures: [],
      notBefore: null,
      notAfter: null,
      status: "none",
    });
  });

  it("an instance admin issues for any organisation, and it holds until the day it ends", async () => {
    const tenant = await house.newTenant();
    const licence = await issue(tenant.orgId, { days: 2 });
    assert.equal(licence.status, "active");
    assert.equal(Date.parse(licence.notAfter) - Date.parse(licence.notBefore), 2 * DAY_MS);
    assert.equal(await statusOf(tenant), "active");
    house.clock.advance(2 * DAY_MS);
    assert.equal(await statusOf(tenant), "expired");
    assert.deepEqual((await tenant.get(OWN)).body.licence.activeFeatures, []);
  });

  it("a licence that begins later is shown as such", async () => {
    const tenant = await house.newTenant();
    await issue(tenant.orgId, { notBefore: new Date(house.clock.millis() + DAY_MS).toISOString() });
    assert.equal(await statusOf(tenant), "not-yet");
    house.clock.advance(DAY_MS);
    assert.equal(await statusOf(tenant), "active");
  });

  it("only instance admins issue, list and revoke, whatever they name", async () => {
    const tenant = await house.newTenant();
    const licence = await issue(tenant.orgId);
    const refusals = [
      await tenant.post(ADMIN, { organizationId: tenant.orgId, plan: "enterprise" }),
      await tenant.post(ADMIN, { organizationId: newId(), plan: "enterprise" }),
      await tenant.get(ADMIN),
      await tenant.post(`${ADMIN}/${licence.id}/revoke`, {}),
      await tenant.post(`${ADMIN}/${newId()}/revoke`, {}),
    ];
    assert.deepEqual(
      refusals.map((answer) => [answer.status, answer.body.error]),
      refusals.map(() => [403, "PermissionDenied"]),
    );
    assert.equal(await statusOf(tenant), "active");
  });

  it("issuing asks for an organisation that exists and for terms that make sense", async () => {
    const tenant = await house.newTenant();
    const ask = async (body: object) => (await house.owner.post(ADMIN, body)).status;
    assert.equal(await ask({ organizationId: newId(), plan: "enterprise" }), 404);
    const base = { organizationId: tenant.orgId, plan: "enterprise" };
    const past = new Date(house.clock.millis() - 2 * DAY_MS).toISOString();
    const bad = [
      { plan: "enterprise" },
      { ...base, plan: "two words" },
      { ...base, features: ["unknown"] },
      { ...base, days: 0 },
      { ...base, days: 1, notAfter: new Date(house.clock.millis() + DAY_MS).toISOString() },
      { ...base, notAfter: past },
      { ...base, notBefore: past, days: 1 },
      { ...base, notBefore: "0000-01-01T00:00:00Z", days: 1 },
      { ...base, notAfter: "tomorrow" },
    ];
    for (const body of bad) assert.equal(await ask(body), 422, JSON.stringify(body));
  });

  it("a signed document is installed by the organisation's admin, and twice is as good as once", async () => {
    const tenant = await house.newTenant();
    const document = await issueApart(tenant.orgId);
    const first = await tenant.put(OWN, { document: `  ${document}\n` });
    assert.deepEqual([first.status, first.body.licence.status], [200, "active"]);
    assert.deepEqual((await tenant.put(OWN, { document })).body, first.body);
    const races = await Promise.all(Array.from({ length: 6 }, () => tenant.put(OWN, { document })));
    assert.ok(races.every((answer) => answer.status === 200));
  });

  it("parallel installations of one document all find it installed", async () => {
    const tenant = await house.newTenant();
    const document = await issueApart(tenant.orgId);
    const answers = await Promise.all(Array.from({ length: 10 }, () => tenant.put(OWN, { document })));
    assert.deepEqual(
      answers.map((answer) => answer.status),
      answers.map(() => 200),
    );
    const { licences } = (await house.owner.get(`${ADMIN}?limit=1000`)).body;
    assert.equal(
      licences.filter((each: { organizationId: string }) => each.organizationId === tenant.orgId).length,
      1,
    );
  });

  it("a document that does not hold here is refused with the reason", async () => {
    const tenant = await house.newTenant();
    const neighbour = await house.newTenant();
    const foreign = await issueApart(neighbour.orgId);
    const over = await issueApart(tenant.orgId, { days: 1 });
    const now = house.clock.now().toISOString();
    const stranger = signLicence(
      {
        id: newId(),
        orgId: tenant.orgId,
        plan: "enterprise",
        features: [],
        notBefore: now,
        notAfter: "2999-01-01T00:00:00.000Z",
        issuedAt: now,
      },
      generateKeyPairSync("ed25519").privateKey,
    );
    house.clock.advance(DAY_MS);
    const reasons: [string, RegExp][] = [
      ["nonsense", /not a Keyward licence/],
      [
        over.replace(/.$/, (last) => (last === "A" ? "Q" : "A")),
        /not a Keyward licence|not signed by an issuer/,
      ],
      [stranger, /not signed by an issuer/],
      [foreign, /another organisation/],
      [over, /expired at/],
    ];
    for (const [document, reason] of reasons) {
      const answer = await tenant.put(OWN, { document });
      assert.equal(answer.status, 400);
      assert.match(answer.body.message, reason);
    }
    assert.equal((await tenant.put(OWN, { document: "x".repeat(17_000) })).status, 422);
    assert.equal(await statusOf(tenant), "none");
  });

  it("a revoked licence ends at once and its document cannot come back", async () => {
    const tenant = await house.newTenant();
    const licence = await issue(tenant.orgId);
    const revoked = await house.owner.post(`${ADMIN}/${licence.id}/revoke`, {});
    assert.deepEqual([revoked.status, revoked.body.licence.status], [200, "revoked"]);
    assert.equal(await statusOf(tenant), "revoked");
    const again = await tenant.put(OWN, { document: licence.document });
    assert.equal(again.status, 400);
    assert.match(again.body.message, /revoked/);
    const twice = await house.owner.post(`${ADMIN}/${licence.id}/revoke`, {});
    assert.equal(twice.body.licence.revokedAt, revoked.body.licence.revokedAt);
    assert.equal((await house.owner.post(`${ADMIN}/${newId()}/revoke`, {})).status, 404);
  });

  it("an organisation gives up its own licences, not those of the instance", async () => {
    const tenant = await house.newTenant();
    await issue(tenant.orgId);
    await issue(tenant.orgId, { days: 5 });
    assert.equal((await tenant.delete(OWN)).body.licence.status, "revoked");
    const whole = await issue(null);
    assert.equal((await tenant.get(OWN)).body.licence.scope, "instance");
    assert.equal((await tenant.delete(OWN)).status, 404);
    assert.equal(await statusOf(tenant), "active");
    await house.owner.post(`${ADMIN}/${whole.id}/revoke`, {});
    assert.equal(await statusOf(tenant), "revoked");
  });

  it("members without the right see the licence and cannot change it", async () => {
    const tenant = await house.newTenant();
    const document = await issueApart(tenant.orgId);
    const made = await tenant.post("/api/v1/identities", { name: "reader", role: "member" });
    const { id } = made.body.identity;
    await tenant.post(`/api/v1/auth/token-auth/identities/${id}`, {});
    const { accessToken } = (
      await tenant.post(`/api/v1/auth/token-auth/identities/${id}/tokens`, { name: "t" })
    ).body;
    const member = house.as(accessToken);
    assert.equal((await member.get(OWN)).status, 200);
    assert.equal((await member.put(OWN, { document })).status, 403);
    assert.equal((await member.delete(OWN)).status, 403);
    assert.equal((await house.anonymous.get(OWN)).status, 401);
  });

  it("the list shows every licence, newest first, and what was tampered with as invalid", async () => {
    const tenant = await house.newTenant();
    const older = await issue(tenant.orgId);
    house.clock.advance(1000);
    const newer = await issue(tenant.orgId);
    await withClient(house.database.server, house.database.connection.database, (client) =>
      client.query("UPDATE licences SET document = $2 WHERE id = $1", [newer.id, older.document]),
    );
    const page = (await house.owner.get(`${ADMIN}?limit=2`)).body;
    assert.deepEqual(
      page.licences.map((each: { id: string; status: string }) => [each.id, each.status]),
      [
        [newer.id, "invalid"],
        [older.id, "active"],
      ],
    );
    assert.ok(page.totalCount > 2);
  });
});
