/** Universal auth through the door: settings, client secrets, logins, limits and lockouts. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, credentials, login, unique, until } from "../../../test/builders.ts";
import { clientOf, openTestHouse, type Answer, type Tenant, type TestHouse } from "../../../test/harness.ts";
import { against } from "../../../test/people.ts";
import { withClient } from "../../../test/postgres.ts";
import { newId } from "../../platform/ids.ts";

const LOGIN = "/api/v1/auth/universal-auth/login";
const DETAILS = "/api/v1/identities/details";
const TEN_YEARS = 315_360_000;

describe("universal auth", () => {
  let house: TestHouse;
  let tenant: Tenant;
  let project: { id: string };
  before(async () => {
    house = await openTestHouse();
    tenant = await house.newTenant();
    project = await aProject(tenant);
  });
  after(() => house.close());

  const newIdentity = async (): Promise<string> =>
    (await tenant.post(`/api/v1/projects/${project.id}/identities`, { name: unique("bot") })).body.identity
      .id;
  const at = (identityId: string, more = "") => `/api/v1/auth/universal-auth/identities/${identityId}${more}`;
  const attach = async (settings: Record<string, unknown> = {}) => {
    const identityId = await newIdentity();
    return { identityId, ...(await credentials(tenant, identityId, settings)) };
  };
  const tryLogin = (body: Record<string, unknown>, base = house.base): Promise<Answer> =>
    clientOf(base).post(LOGIN, body);
  const secretOf = async (identityId: string, body: Record<string, unknown>): Promise<Answer["body"]> =>
    (await tenant.post(at(identityId, "/client-secrets"), body)).body;
  const audited = (clientId: string): Promise<string[]> =>
    withClient(house.database.server, house.database.connection.database, async (client) =>
      (
        await client.query<{ reason: string }>(
          `SELECT metadata->>'reason' AS reason FROM audit_log WHERE event = 'login-refused' AND metadata->>'clientId' = $1 ORDER BY at, id`,
          [clientId],
        )
      ).rows.map((row) => row.reason),
    );

  describe("its settings", () => {
    it("have defaults, and are answered in the shape that clients read", async () => {
      const identityId = await newIdentity();
      const { status, body } = await tenant.post(at(identityId), {});
      assert.equal(status, 200);
      const { id, clientId, createdAt, updatedAt, ...rest } = body.identityUniversalAuth;
      assert.ok(id && clientId && createdAt === updatedAt);
      const everywhere = [
        { type: "ipv4", prefix: 0, ipAddress: "0.0.0.0" },
        { type: "ipv6", prefix: 0, ipAddress: "::" },
      ];
      assert.deepEqual(rest, {
        identityId,
        accessTokenTTL: 2_592_000,
        accessTokenMaxTTL: 2_592_000,
        accessTokenNumUsesLimit: 0,
        accessTokenPeriod: 0,
        accessTokenTrustedIps: everywhere,
        clientSecretTrustedIps: everywhere,
        lockoutEnabled: true,
        lockoutThreshold: 3,
        lockoutDurationSeconds: 300,
        lockoutCounterResetSeconds: 30,
      });
      assert.deepEqual((await tenant.get(at(identityId))).body, body);
    });

    it("show in the identity's authMethods, once, and leave it when detached", async () => {
      const { identityId } = await attach();
      const methods = async () =>
        (await tenant.get(`/api/v1/projects/${project.id}/identities/${identityId}`)).body.identity
          .authMethods;
      assert.deepEqual(await methods(), ["universal-auth"]);
      assert.equal((await tenant.post(at(identityId), {})).body.error, "Conflict");
      await tenant.post(`/api/v1/auth/token-auth/identities/${identityId}`, {});
      assert.deepEqual(await methods(), ["universal-auth", "token-auth"]);
      assert.equal((await tenant.delete(at(identityId))).status, 200);
      assert.deepEqual(await methods(), ["token-auth"]);
      assert.equal((await tenant.get(at(identityId))).status, 404);
      assert.equal((await tenant.delete(at(identityId))).status, 404);
    });

    it("change one by one", async () => {
      const { identityId } = await attach({
        accessTokenTTL: 100,
        accessTokenMaxTTL: 200,
        lockoutThreshold: 7,
      });
      const before = (await tenant.get(at(identityId))).body.identityUniversalAuth;
      const { body } = await tenant.patch(at(identityId), {
        accessTokenTTL: 150,
        clientSecretTrustedIps: [{ ipAddress: "10.1.0.0/16" }, { ipAddress: "::1" }],
      });
      assert.deepEqual(
        { ...body.identityUniversalAuth, updatedAt: before.updatedAt },
        {
          ...before,
          accessTokenTTL: 150,
          clientSecretTrustedIps: [
            { type: "ipv4", prefix: 16, ipAddress: "10.1.0.0" },
            { type: "ipv6", prefix: 128, ipAddress: "::1" },
          ],
        },
      );
    });

    it("refuse nonsense with 422 and a lifetime above its maximum with 400", async () => {
      const identityId = await newIdentity();
      for (const body of [
        { accessTokenTTL: -1 },
        { accessTokenTTL: 1.5 },
        { accessTokenTTL: TEN_YEARS + 1 },
        { accessTokenNumUsesLimit: -1 },
        { accessTokenPeriod: "1h" },
        { accessTokenTrustedIps: [] },
        { accessTokenTrustedIps: [{ ipAddress: "nowhere" }] },
        { clientSecretTrustedIps: [{ ipAddress: "1.2.3.4/33" }] },
        { clientSecretTrustedIps: [{ ipAddress: "1.2.3" }] },
        { lockoutThreshold: 0 },
        { lockoutThreshold: 31 },
        { lockoutDurationSeconds: 29 },
        { lockoutDurationSeconds: 86_401 },
        { lockoutCounterResetSeconds: 4 },
        { lockoutCounterResetSeconds: 3601 },
        { lockoutEnabled: "yes" },
      ]) {
        assert.equal((await tenant.post(at(identityId), body)).status, 422, JSON.stringify(body));
      }
      const crossed = await tenant.post(at(identityId), { accessTokenTTL: 10, accessTokenMaxTTL: 5 });
      assert.deepEqual([crossed.status, crossed.body.error], [400, "BadRequest"]);
      assert.equal(
        (await tenant.post(at(identityId), { accessTokenTTL: 10, accessTokenMaxTTL: 0 })).status,
        200,
        "no maximum",
      );
      assert.equal((await tenant.patch(at(identityId), { accessTokenMaxTTL: 9 })).status, 400);
      assert.equal((await tenant.post(at(newId()), {})).status, 404);
    });
  });

  describe("a login", () => {
    it("answers the four fields with numbers that clients can live with (W16)", async () => {
      const cases = [
        [{}, 2_592_000, 2_592_000],
        [{ accessTokenTTL: 60, accessTokenMaxTTL: 600 }, 60, 600],
        [{ accessTokenTTL: 60, accessTokenMaxTTL: 0 }, 60, TEN_YEARS],
        [{ accessTokenTTL: 0, accessTokenMaxTTL: 0 }, TEN_YEARS, TEN_YEARS],
        [{ accessTokenTTL: 0, accessTokenMaxTTL: 600 }, 600, 600],
        [{ accessTokenTTL: 60, accessTokenMaxTTL: 60, accessTokenPeriod: 900 }, 900, TEN_YEARS],
      ] as const;
      for (const [settings, expiresIn, accessTokenMaxTTL] of cases) {
        const { clientId, clientSecret } = await attach(settings);
        const { status, body } = await tryLogin({ clientId, clientSecret });
        assert.equal(status, 200);
        const { accessToken, ...rest } = body;
        assert.deepEqual(
          rest,
          { expiresIn, accessTokenMaxTTL, tokenType: "Bearer" },
          JSON.stringify(settings),
        );
        assert.equal(accessToken.split(".").length, 3);
        assert.equal((await house.as(accessToken).get(DETAILS)).status, 200);
      }
    });

    it("gives a JWT with the claims that command lines read (W15)", async () => {
      const { identityId, clientId, clientSecret } = await attach({
        accessTokenTTL: 60,
        accessTokenMaxTTL: 60,
      });
      const token = await login(house.base, clientId, clientSecret);
      const [head = "", claims = ""] = token
        .split(".")
        .map((part) => Buffer.from(part, "base64url").toString());
      assert.deepEqual(JSON.parse(head), { alg: "HS256", typ: "JWT" });
      const { exp, iat, identityAccessTokenId, identityName, ...rest } = JSON.parse(claims);
      assert.ok(Number.isInteger(exp) && Number.isInteger(iat) && identityAccessTokenId && identityName);
      assert.ok(Math.abs(exp - iat - 60) <= 1);
      assert.deepEqual(rest, {
        authTokenType: "identityAccessToken",
        identityId,
        authMethod: "universal-auth",
        orgId: tenant.orgId,
      });
    });

    it("works form-encoded, with a trailing slash, with the organisation's slug and with extra fields", async () => {
      const { clientId, clientSecret } = await attach();
      const form = await house.anonymous.call("POST", `${LOGIN}/`, {
        rawBody: new URLSearchParams({ clientId, clientSecret }).toString(),
        headers: { "content-type": "application/x-www-form-urlencoded" },
      });
      assert.equal(form.status, 200);
      assert.equal(
        (await tryLogin({ clientId, clientSecret, organizationSlug: tenant.orgSlug })).status,
        200,
      );
      assert.equal((await tryLogin({ clientId, clientSecret, organizationSlug: "", extra: 1 })).status, 200);
      assert.equal((await tryLogin({ clientId, clientSecret, organizationSlug: "another" })).status, 401);
      assert.equal(
        (
          await house.anonymous.post(
            LOGIN,
            { clientId, clientSecret },
            { headers: { authorization: "Bearer nonsense" } },
          )
        ).status,
        200,
        "a stale header is ignored (W22)",
      );
    });

    it("S-01 S-14 refuses in one and the same way, whatever was wrong", async () => {
      const [one, other] = [await attach({ lockoutEnabled: false }), await attach()];
      const expired = await secretOf(one.identityId, { ttl: 10 });
      const revoked = await secretOf(one.identityId, {});
      const usedUp = await secretOf(one.identityId, { numUsesLimit: 1 });
      await tenant.post(at(one.identityId, `/client-secrets/${revoked.clientSecretData.id}/revoke`));
      assert.equal(
        (await tryLogin({ clientId: one.clientId, clientSecret: usedUp.clientSecret })).status,
        200,
      );
      house.clock.advance(11_000);
      const answers = await Promise.all([
        tryLogin({ clientId: newId(), clientSecret: "x".repeat(64) }),
        tryLogin({ clientId: "not-a-uuid", clientSecret: one.clientSecret }),
        tryLogin({ clientId: one.clientId, clientSecret: "x".repeat(64) }),
        tryLogin({ clientId: one.clientId, clientSecret: other.clientSecret }),
        tryLogin({ clientId: one.clientId, clientSecret: one.clientSecret.toUpperCase() }),
        tryLogin({ clientId: one.clientId, clientSecret: expired.clientSecret }),
        tryLogin({ clientId: one.clientId, clientSecret: revoked.clientSecret }),
        tryLogin({ clientId: one.clientId, clientSecret: usedUp.clientSecret }),
        tryLogin({ clientId: one.clientId, clientSecret: one.clientSecret, organizationSlug: "another" }),
      ]);
      const first = answers[0]?.body;
      for (const { status, body } of answers) {
        assert.equal(status, 401);
        assert.deepEqual({ ...body, reqId: "" }, { ...first, reqId: "" });
        assert.equal(body.error, "UnauthorizedError");
      }
    });

    it("answers 401, not a bug, when the method is detached at the same moment", async () => {
      const { clientId, clientSecret, identityId } = await attach();
      const answer = await against(
        house,
        [["DELETE FROM universal_auths WHERE identity_id = $1", [identityId]]],
        () => tryLogin({ clientId, clientSecret }),
      );
      assert.deepEqual([answer.status, answer.body.message], [401, "Invalid credentials."]);
    });

    it("is in the trail of the project that the identity belongs to", async () => {
      const { clientId, clientSecret, identityId } = await attach();
      await tryLogin({ clientId, clientSecret: "wrong" });
      const { accessToken } = (await tryLogin({ clientId, clientSecret })).body;
      await house.anonymous.post("/api/v1/auth/token/renew", { accessToken });
      const { auditLogs } = (
        await tenant.get(
          `/api/v1/organization/audit-logs?projectId=${project.id}&actorId=${identityId}&limit=10`,
        )
      ).body;
      assert.deepEqual(
        auditLogs.map((log: { eventType: string }) => log.eventType),
        ["renew-access-token", "login", "login-refused"],
      );
    });

    it("writes down every refusal, in the words of the audit trail", async () => {
      const { clientId, clientSecret, identityId, clientSecretId } = await attach({ lockoutThreshold: 1 });
      await tenant.post(at(identityId, `/client-secrets/${clientSecretId}/revoke`));
      await tryLogin({ clientId, clientSecret });
      await tryLogin({ clientId, clientSecret: "wrong" });
      await tryLogin({ clientId, clientSecret: "wrong" });
      assert.deepEqual(await audited(clientId), ["revoked-secret", "wrong-secret", "locked-out"]);
    });

    it("refuses missing fields with 422 and says nothing of what was sent", async () => {
      const answer = await tryLogin({ clientId: "only-this" });
      assert.equal(answer.status, 422);
      assert.doesNotMatch(JSON.stringify(answer.body), /only-this/);
    });
  });

  describe("trusted addresses", () => {
    it("are asked at login: 403 ForbiddenError", async () => {
      const { clientId, clientSecret } = await attach({
        clientSecretTrustedIps: [{ ipAddress: "10.0.0.0/8" }],
      });
      const { status, body } = await tryLogin({ clientId, clientSecret });
      assert.deepEqual([status, body.error], [403, "ForbiddenError"]);
      assert.deepEqual(await audited(clientId), ["untrusted-address"]);
    });

    it("are asked on every use of a token, as they are now", async () => {
      const { identityId, clientId, clientSecret } = await attach({
        accessTokenTrustedIps: [{ ipAddress: "127.0.0.1" }],
      });
      const client = house.as(await login(house.base, clientId, clientSecret));
      assert.equal((await client.get(DETAILS)).status, 200);
      await tenant.patch(at(identityId), { accessTokenTrustedIps: [{ ipAddress: "10.0.0.0/8" }] });
      const { status, body } = await client.get(DETAILS);
      assert.deepEqual([status, body.error], [403, "ForbiddenError"]);
      await tenant.patch(at(identityId), { accessTokenTrustedIps: [{ ipAddress: "127.0.0.0/8" }] });
      assert.equal((await client.get(DETAILS)).status, 200);
    });

    it("S-50 believe no header of a peer that is no trusted proxy", async () => {
      const { clientId, clientSecret } = await attach({
        clientSecretTrustedIps: [{ ipAddress: "10.0.0.1" }],
      });
      const headers = {
        "x-forwarded-for": "10.0.0.1",
        "x-real-ip": "10.0.0.1",
        "cf-connecting-ip": "10.0.0.1",
        "x-client-ip": "10.0.0.1",
        "true-client-ip": "10.0.0.1",
        forwarded: "for=10.0.0.1",
      };
      assert.equal((await house.anonymous.post(LOGIN, { clientId, clientSecret }, { headers })).status, 403);
    });
  });

  describe("limits of use", () => {
    it("end a token after its number of uses", async () => {
      const { clientId, clientSecret } = await attach({ accessTokenNumUsesLimit: 3 });
      const client = house.as(await login(house.base, clientId, clientSecret));
      for (const expected of [200, 200, 200, 401, 401])
        assert.equal((await client.get(DETAILS)).status, expected);
    });

    it("M7 end it for good: a token that is used up is not renewed", async () => {
      const { clientId, clientSecret } = await attach({ accessTokenNumUsesLimit: 2 });
      const accessToken = await login(house.base, clientId, clientSecret);
      const renew = () => house.anonymous.post("/api/v1/auth/token/renew", { accessToken });
      assert.equal((await renew()).status, 200);
      for (const expected of [200, 200, 401])
        assert.equal((await house.as(accessToken).get(DETAILS)).status, expected);
      assert.equal((await renew()).status, 401);
    });

    it("count parallel uses of a token exactly, across nodes", async () => {
      const second = await house.openNode();
      const { clientId, clientSecret } = await attach({ accessTokenNumUsesLimit: 5 });
      const token = await login(house.base, clientId, clientSecret);
      const answers = await Promise.all(
        Array.from({ length: 30 }, (_, n) => clientOf(n % 2 ? house.base : second.base, token).get(DETAILS)),
      );
      assert.equal(answers.filter(({ status }) => status === 200).length, 5);
      assert.equal(answers.filter(({ status }) => status === 401).length, 25);
    });

    it("S-15 let exactly one of 50 parallel logins have a one-use secret, and write down the others", async () => {
      const { identityId, clientId } = await attach();
      const { clientSecret, clientSecretData } = await secretOf(identityId, { numUsesLimit: 1 });
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => tryLogin({ clientId, clientSecret })),
      );
      assert.equal(answers.filter(({ status }) => status === 200).length, 1);
      assert.equal(answers.filter(({ status }) => status === 401).length, 49);
      const { clientSecretNumUses } = (
        await tenant.get(at(identityId, `/client-secrets/${clientSecretData.id}`))
      ).body.clientSecretData;
      assert.equal(clientSecretNumUses, 1);
      assert.deepEqual(new Set(await audited(clientId)), new Set(["used-up-secret"]));
      assert.equal((await audited(clientId)).length, 49);
    });

    it("end a client secret with its time", async () => {
      const { identityId, clientId } = await attach();
      const { clientSecret } = await secretOf(identityId, { ttl: 60 });
      assert.equal((await tryLogin({ clientId, clientSecret })).status, 200);
      house.clock.advance(61_000);
      assert.equal((await tryLogin({ clientId, clientSecret })).status, 401);
    });
  });

  describe("client secrets", () => {
    it("are shown once; later only what is known of them", async () => {
      const { identityId } = await attach();
      const made = await tenant.post(at(identityId, "/client-secrets"), {
        description: "laptop",
        numUsesLimit: 5,
        ttl: 3600,
      });
      assert.equal(made.status, 200);
      assert.equal(made.headers.get("cache-control"), "no-store");
      const { clientSecret, clientSecretData: data } = made.body;
      assert.match(clientSecret, /^[0-9a-f]{64}$/);
      assert.deepEqual(
        [
          data.description,
          data.clientSecretNumUses,
          data.clientSecretNumUsesLimit,
          data.clientSecretTTL,
          data.isClientSecretRevoked,
          data.clientSecretPrefix,
        ],
        ["laptop", 0, 5, 3600, false, clientSecret.slice(0, 4)],
      );
      const listed = await tenant.get(at(identityId, "/client-secrets"));
      assert.equal(listed.body.clientSecretData.length, 2);
      const got = await tenant.get(at(identityId, `/client-secrets/${data.id}`));
      assert.deepEqual(got.body.clientSecretData, data);
      assert.ok(
        ![JSON.stringify(listed.body), JSON.stringify(got.body)].some((text) => text.includes(clientSecret)),
      );
    });

    it("S-34 take their tokens with them when revoked, on every node", async () => {
      const second = await house.openNode();
      const { identityId, clientId, clientSecret, clientSecretId } = await attach();
      const other = await secretOf(identityId, {});
      const [dead, alive] = [
        await login(house.base, clientId, clientSecret),
        await login(house.base, clientId, other.clientSecret),
      ];
      for (const base of [house.base, second.base])
        assert.equal((await clientOf(base, dead).get(DETAILS)).status, 200);
      const revoked = await tenant.post(at(identityId, `/client-secrets/${clientSecretId}/revoke`));
      assert.deepEqual([revoked.status, revoked.body.clientSecretData.isClientSecretRevoked], [200, true]);
      assert.equal((await house.as(dead).get(DETAILS)).status, 401);
      await until(async () => (await clientOf(second.base, dead).get(DETAILS)).status === 401, 1000);
      assert.equal((await house.as(alive).get(DETAILS)).status, 200);
      assert.equal((await tryLogin({ clientId, clientSecret })).status, 401);
    });

    it("are found only under their own identity", async () => {
      const [one, two] = [await attach(), await attach()];
      assert.equal(
        (await tenant.get(at(two.identityId, `/client-secrets/${one.clientSecretId}`))).status,
        404,
      );
      assert.equal(
        (await tenant.post(at(two.identityId, `/client-secrets/${one.clientSecretId}/revoke`))).status,
        404,
      );
      const bare = await newIdentity();
      assert.equal(
        (await tenant.post(at(bare, "/client-secrets"), {})).status,
        404,
        "universal auth comes first",
      );
    });

    it("die with the method when it is detached", async () => {
      const { identityId, clientId, clientSecret } = await attach();
      const token = await login(house.base, clientId, clientSecret);
      assert.equal((await house.as(token).get(DETAILS)).status, 200);
      await tenant.delete(at(identityId));
      assert.equal((await house.as(token).get(DETAILS)).status, 401);
      assert.equal((await tryLogin({ clientId, clientSecret })).status, 401);
      const again = await credentials(tenant, identityId);
      assert.equal(
        (await tryLogin({ clientId: again.clientId, clientSecret })).status,
        401,
        "the old secret stays dead",
      );
    });
  });

  describe("lockout", () => {
    const fail = (clientId: string, times: number) =>
      Promise.all(Array.from({ length: times }, () => tryLogin({ clientId, clientSecret: "wrong" })));
    const locked = async (identityId: string): Promise<string[]> =>
      (await tenant.get(`/api/v1/projects/${project.id}/identities/${identityId}`)).body.identity
        .activeLockoutAuthMethods;

    it("comes with the threshold, shows on the identity, and ends with its time", async () => {
      const { identityId, clientId, clientSecret } = await attach({
        lockoutThreshold: 4,
        lockoutDurationSeconds: 60,
        lockoutCounterResetSeconds: 30,
      });
      for (let n = 0; n < 3; n += 1) await fail(clientId, 1);
      assert.deepEqual(await locked(identityId), []);
      assert.equal((await fail(clientId, 1))[0]?.status, 401);
      assert.deepEqual(await locked(identityId), ["universal-auth"]);
      const refused = await tryLogin({ clientId, clientSecret });
      assert.deepEqual([refused.status, refused.body.error], [401, "UnauthorizedError"]);
      assert.match(refused.body.message, /60 seconds|5\d seconds/);
      house.clock.advance(61_000);
      assert.deepEqual(await locked(identityId), []);
      assert.equal((await tryLogin({ clientId, clientSecret })).status, 200);
    });

    it("is told only to who has the secret: to anyone else a locked client looks like an unknown one", async () => {
      const { clientId, clientSecret } = await attach();
      const guesses = [...(await fail(clientId, 5)), ...(await fail(clientId, 1))];
      const unknown = await tryLogin({ clientId: newId(), clientSecret: "wrong" });
      for (const { status, body } of guesses)
        assert.deepEqual([status, { ...body, reqId: "" }], [401, { ...unknown.body, reqId: "" }]);
      assert.match((await tryLogin({ clientId, clientSecret })).body.message, /^Locked/);
    });

    it("starts to count anew after a good login, and after the reset time", async () => {
      const { clientId, clientSecret, identityId } = await attach({
        lockoutThreshold: 2,
        lockoutCounterResetSeconds: 30,
      });
      await fail(clientId, 1);
      assert.equal((await tryLogin({ clientId, clientSecret })).status, 200);
      await fail(clientId, 1);
      house.clock.advance(31_000);
      await fail(clientId, 1);
      assert.deepEqual(await locked(identityId), []);
      assert.equal((await tryLogin({ clientId, clientSecret })).status, 200);
    });

    it("S-04 counts 100 parallel failures as what they are", async () => {
      const { clientId, clientSecret, identityId } = await attach({ lockoutThreshold: 30 });
      const answers = await fail(clientId, 100);
      assert.ok(answers.every(({ status }) => status === 401));
      assert.deepEqual(await locked(identityId), ["universal-auth"]);
      assert.equal((await tryLogin({ clientId, clientSecret })).status, 401);
      const failures = await withClient(
        house.database.server,
        house.database.connection.database,
        async (client) =>
          (
            await client.query<{ failures: number }>("SELECT failures FROM lockouts WHERE subject_id = $1", [
              identityId,
            ])
          ).rows,
      );
      assert.equal(failures.length, 1);
      assert.ok((failures[0]?.failures ?? 0) >= 30);
    });

    it("is cleared by hand, saying how many were", async () => {
      const { clientId, clientSecret, identityId } = await attach();
      await fail(clientId, 3);
      const cleared = await tenant.post(at(identityId, "/clear-lockouts"));
      assert.deepEqual([cleared.status, cleared.body], [200, { deleted: 1 }]);
      assert.deepEqual(await locked(identityId), []);
      assert.equal((await tryLogin({ clientId, clientSecret })).status, 200);
      assert.deepEqual((await tenant.post(at(identityId, "/clear-lockouts"))).body, { deleted: 0 });
    });

    it("is not there when turned off, and turning it off opens what is locked", async () => {
      const off = await attach({ lockoutEnabled: false });
      await fail(off.clientId, 10);
      assert.equal((await tryLogin(off)).status, 200);
      const later = await attach();
      await fail(later.clientId, 3);
      await tenant.patch(at(later.identityId), { lockoutEnabled: false });
      assert.deepEqual(await locked(later.identityId), []);
      assert.equal((await tryLogin(later)).status, 200);
    });

    it("goes with the method when that is detached", async () => {
      const { clientId, identityId } = await attach();
      await fail(clientId, 3);
      await tenant.delete(at(identityId));
      assert.deepEqual(await locked(identityId), []);
    });
  });
});
