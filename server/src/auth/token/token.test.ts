/** Token auth through the door: tokens that an operator makes by hand. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, aRole, anIdentity, unique, until } from "../../../test/builders.ts";
import { clientOf, openTestHouse, type Answer, type Tenant, type TestHouse } from "../../../test/harness.ts";
import { newId } from "../../platform/ids.ts";

const DETAILS = "/api/v1/identities/details";
const TOKENS = "/api/v1/auth/token-auth/tokens";

describe("token auth", () => {
  let house: TestHouse;
  let tenant: Tenant;
  let project: { id: string };
  before(async () => {
    house = await openTestHouse();
    tenant = await house.newTenant();
    project = await aProject(tenant);
  });
  after(() => house.close());

  const at = (identityId: string, more = "") => `/api/v1/auth/token-auth/identities/${identityId}${more}`;
  const attach = async (settings: Record<string, unknown> = {}): Promise<string> => {
    const { identity } = (
      await tenant.post(`/api/v1/projects/${project.id}/identities`, { name: unique("bot") })
    ).body;
    assert.equal((await tenant.post(at(identity.id), settings)).status, 200);
    return identity.id;
  };
  const make = async (identityId: string, body: Record<string, unknown> = {}): Promise<Answer["body"]> =>
    (await tenant.post(at(identityId, "/tokens"), body)).body;
  const use = async (token: string, base = house.base): Promise<number> =>
    (await clientOf(base, token).get(DETAILS)).status;

  it("has settings with defaults that are read, changed and detached", async () => {
    const identityId = await attach();
    const { identityTokenAuth } = (await tenant.get(at(identityId))).body;
    assert.deepEqual(
      [
        identityTokenAuth.identityId,
        identityTokenAuth.accessTokenTTL,
        identityTokenAuth.accessTokenMaxTTL,
        identityTokenAuth.accessTokenNumUsesLimit,
        identityTokenAuth.accessTokenPeriod,
      ],
      [identityId, 2_592_000, 2_592_000, 0, 0],
    );
    const changed = (await tenant.patch(at(identityId), { accessTokenNumUsesLimit: 9 })).body
      .identityTokenAuth;
    assert.deepEqual([changed.accessTokenNumUsesLimit, changed.accessTokenTTL], [9, 2_592_000]);
    assert.equal((await tenant.post(at(identityId), {})).body.error, "Conflict");
    assert.equal((await tenant.patch(at(identityId), { accessTokenMaxTTL: 1 })).status, 400);
    assert.equal((await tenant.post(at(newId()), {})).status, 404);
    for (const body of [
      { accessTokenTTL: -1 },
      { accessTokenTrustedIps: [] },
      { accessTokenNumUsesLimit: 1.5 },
    ])
      assert.equal((await tenant.patch(at(identityId), body)).status, 422);
    assert.equal((await tenant.delete(at(identityId))).status, 200);
    assert.equal((await tenant.get(at(identityId))).status, 404);
    assert.equal((await tenant.post(at(identityId, "/tokens"), {})).status, 404);
  });

  it("makes a token that works, shows it once, and keeps what is known of it", async () => {
    const identityId = await attach({ accessTokenTTL: 60, accessTokenMaxTTL: 600 });
    const { accessToken, tokenData, ...rest } = await make(identityId, { name: "ci" });
    assert.deepEqual(rest, { expiresIn: 60, accessTokenMaxTTL: 600, tokenType: "Bearer" });
    assert.equal(await use(accessToken), 200);
    assert.deepEqual(
      [
        tokenData.name,
        tokenData.identityId,
        tokenData.authMethod,
        tokenData.isAccessTokenRevoked,
        tokenData.accessTokenTTL,
        tokenData.accessTokenNumUses,
      ],
      ["ci", identityId, "token-auth", false, 60, 0],
    );
    const listed = await tenant.get(at(identityId, "/tokens"));
    const got = await tenant.get(`${TOKENS}/${tokenData.id}`);
    assert.deepEqual(listed.body.tokens, [tokenData]);
    assert.deepEqual(got.body.token, tokenData);
    assert.ok(!JSON.stringify([listed.body, got.body]).includes(accessToken));
    const renamed = await tenant.patch(`${TOKENS}/${tokenData.id}`, { name: "cd" });
    assert.equal(renamed.body.token.name, "cd");
  });

  it("ends tokens with their time and renews them up to their maximum", async () => {
    const { accessToken } = await make(await attach({ accessTokenTTL: 60, accessTokenMaxTTL: 100 }));
    house.clock.advance(50_000);
    const renewed = (await house.anonymous.post("/api/v1/auth/token/renew", { accessToken })).body;
    assert.ok(renewed.expiresIn <= 50 && renewed.expiresIn >= 48);
    house.clock.advance(12_000);
    assert.deepEqual([await use(accessToken), await use(renewed.accessToken)], [401, 200]);
    house.clock.advance(40_000);
    assert.equal(await use(renewed.accessToken), 401);
  });

  it("counts uses, and shows how many there were", async () => {
    const identityId = await attach({ accessTokenNumUsesLimit: 2 });
    const { accessToken, tokenData } = await make(identityId);
    assert.deepEqual(
      [await use(accessToken), await use(accessToken), await use(accessToken)],
      [200, 200, 401],
    );
    assert.equal((await tenant.get(`${TOKENS}/${tokenData.id}`)).body.token.accessTokenNumUses, 2);
  });

  it("asks for the address on every use", async () => {
    const identityId = await attach({ accessTokenTrustedIps: [{ ipAddress: "10.0.0.0/8" }] });
    const { accessToken } = await make(identityId);
    const { status, body } = await house.as(accessToken).get(DETAILS);
    assert.deepEqual([status, body.error], [403, "ForbiddenError"]);
  });

  it("S-34 revokes one token at once on every node, without a body, and leaves the others", async () => {
    const second = await house.openNode();
    const identityId = await attach();
    const [one, other] = [await make(identityId), await make(identityId)];
    for (const base of [house.base, second.base]) assert.equal(await use(one.accessToken, base), 200);
    assert.equal((await tenant.call("POST", `${TOKENS}/${one.tokenData.id}/revoke`)).status, 200);
    assert.deepEqual([await use(one.accessToken), await use(other.accessToken)], [401, 200]);
    await until(async () => (await use(one.accessToken, second.base)) === 401, 1000);
    assert.equal((await tenant.get(`${TOKENS}/${one.tokenData.id}`)).body.token.isAccessTokenRevoked, true);
    assert.equal((await tenant.post(`${TOKENS}/${newId()}/revoke`)).status, 404);
    await tenant.delete(at(identityId));
    assert.equal(await use(other.accessToken), 401, "and detaching ends the rest");
  });

  it("S-30 pages its tokens within bounds, newest first", async () => {
    const identityId = await attach();
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) {
      ids.unshift((await make(identityId, { name: `${n}` })).tokenData.id);
      house.clock.advance(1000);
    }
    const page = async (query: string) =>
      (await tenant.get(at(identityId, `/tokens?${query}`))).body.tokens.map(
        (token: { id: string }) => token.id,
      );
    assert.deepEqual(
      [...(await page("limit=2")), ...(await page("limit=2&offset=2")), ...(await page("limit=2&offset=4"))],
      ids,
    );
    for (const query of ["limit=0", "limit=101", "offset=-1", "limit=x"])
      assert.equal((await tenant.get(at(identityId, `/tokens?${query}`))).status, 422);
  });

  it("needs the right for each thing: making, looking, ending and setting up", async () => {
    const identityId = await attach();
    const { tokenData } = await make(identityId);
    const calls: readonly (readonly [string, (client: ReturnType<typeof clientOf>) => Promise<Answer>])[] = [
      ["create-token", (c) => c.post(at(identityId, "/tokens"), {})],
      ["get-token", (c) => c.get(at(identityId, "/tokens"))],
      ["get-token", (c) => c.get(`${TOKENS}/${tokenData.id}`)],
      ["edit-auth", (c) => c.patch(at(identityId), {})],
      ["read", (c) => c.get(at(identityId))],
      ["delete-token", (c) => c.post(`${TOKENS}/${tokenData.id}/revoke`)],
      ["revoke-auth", (c) => c.delete(at(identityId))],
    ];
    const nobody = await anIdentity(tenant, house.base, project.id);
    for (const [action, call] of calls) {
      assert.equal((await call(nobody.client)).body.error, "PermissionDenied", action);
      const slug = await aRole(tenant, project.id, [{ subject: "identity", action: [action] }]);
      const { client } = await anIdentity(tenant, house.base, project.id, { roles: [{ role: slug }] });
      assert.equal((await call(client)).status, 200, action);
    }
  });
});
