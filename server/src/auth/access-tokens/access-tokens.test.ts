/** Access tokens through the door: lifetime, renewal, revocation, forgery. */
import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { aProject, credentials, login, unique, until } from "../../../test/builders.ts";
import { clientOf, openTestHouse, type Answer, type Tenant, type TestHouse } from "../../../test/harness.ts";
import { withClient } from "../../../test/postgres.ts";
import { newId } from "../../platform/ids.ts";

const DETAILS = "/api/v1/identities/details";
const RENEW = "/api/v1/auth/token/renew";
const REVOKE = "/api/v1/auth/token/revoke";
const TEN_YEARS = 315_360_000;

const encode = (value: unknown): string =>
  Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

describe("access tokens", () => {
  let house: TestHouse;
  let tenant: Tenant;
  let project: { id: string };
  before(async () => {
    house = await openTestHouse();
    tenant = await house.newTenant();
    project = await aProject(tenant);
  });
  after(() => house.close());

  const newToken = async (settings: Record<string, unknown> = {}) => {
    const { identity } = (
      await tenant.post(`/api/v1/projects/${project.id}/identities`, { name: unique("bot") })
    ).body;
    const { clientId, clientSecret } = await credentials(tenant, identity.id, settings);
    return { identityId: identity.id as string, token: await login(house.base, clientId, clientSecret) };
  };
  const use = async (token: string, base = house.base): Promise<number> =>
    (await clientOf(base, token).get(DETAILS)).status;
  const renew = (accessToken: string): Promise<Answer> => house.anonymous.post(RENEW, { accessToken });
  const claimsOf = (token: string): Record<string, unknown> =>
    JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());

  describe("in time", () => {
    it("work until their end and answer 401 TokenError after it", async () => {
      const { token } = await newToken({ accessTokenTTL: 60, accessTokenMaxTTL: 600 });
      house.clock.advance(58_000);
      assert.equal(await use(token), 200);
      house.clock.advance(3000);
      const { status, body } = await house.as(token).get(DETAILS);
      assert.deepEqual([status, body.error], [401, "TokenError"]);
      assert.equal((await renew(token)).body.error, "TokenError", "what has ended is not renewed");
    });

    it("are renewed for another lifetime, but never past their maximum", async () => {
      const { token } = await newToken({ accessTokenTTL: 60, accessTokenMaxTTL: 100 });
      house.clock.advance(50_000);
      const first = await renew(token);
      assert.equal(first.status, 200);
      assert.deepEqual([first.body.accessTokenMaxTTL, first.body.tokenType], [100, "Bearer"]);
      assert.ok(
        first.body.expiresIn >= 48 && first.body.expiresIn <= 50,
        `50 of 100 seconds are left, got ${first.body.expiresIn}`,
      );
      assert.equal(
        claimsOf(first.body.accessToken)["identityAccessTokenId"],
        claimsOf(token)["identityAccessTokenId"],
      );
      house.clock.advance(20_000);
      assert.equal(await use(token), 401, "the old text ends when it said");
      assert.equal(await use(first.body.accessToken), 200);
      house.clock.advance(31_000);
      assert.equal(await use(first.body.accessToken), 401);
    });

    it("with a period live for one period at a time, for ever", async () => {
      let { token } = await newToken({ accessTokenTTL: 30, accessTokenMaxTTL: 40, accessTokenPeriod: 60 });
      for (let round = 0; round < 5; round += 1) {
        house.clock.advance(50_000);
        assert.equal(await use(token), 200, `after ${50 * (round + 1)} seconds`);
        const { status, body } = await renew(token);
        assert.deepEqual([status, body.expiresIn, body.accessTokenMaxTTL], [200, 60, TEN_YEARS]);
        token = body.accessToken;
      }
      house.clock.advance(61_000);
      assert.equal(await use(token), 401);
    });

    it("without a maximum are renewed for ever", async () => {
      let { token } = await newToken({ accessTokenTTL: 60, accessTokenMaxTTL: 0 });
      for (let round = 0; round < 5; round += 1) {
        house.clock.advance(50_000);
        const { status, body } = await renew(token);
        assert.deepEqual([status, body.expiresIn, body.accessTokenMaxTTL], [200, 60, TEN_YEARS]);
        token = body.accessToken;
      }
      assert.equal(await use(token), 200);
    });

    it("are renewed form-encoded, with a Bearer header beside, and with a trailing slash", async () => {
      const { token } = await newToken();
      const form = await house.anonymous.call("POST", `${RENEW}/`, {
        rawBody: new URLSearchParams({ accessToken: token }).toString(),
        headers: { "content-type": "application/x-www-form-urlencoded", authorization: `Bearer ${token}` },
      });
      assert.equal(form.status, 200);
    });

    it("are not given further uses by renewal", async () => {
      const { token } = await newToken({ accessTokenNumUsesLimit: 2 });
      assert.equal(await use(token), 200);
      const renewed = (await renew(token)).body.accessToken;
      assert.equal(await use(renewed), 200);
      assert.equal(await use(renewed), 401);
      const again = await renew(renewed);
      if (again.status === 200) assert.equal(await use(again.body.accessToken), 401);
    });
  });

  describe("revoked", () => {
    it("S-34 S-06 are refused by the next request here and within a second elsewhere", async () => {
      const second = await house.openNode();
      const { token } = await newToken();
      for (const base of [house.base, second.base]) assert.equal(await use(token, base), 200);
      const { status, body } = await house.anonymous.post(REVOKE, { accessToken: token });
      assert.deepEqual([status, typeof body.message], [200, "string"]);
      const refused = await house.as(token).get(DETAILS);
      assert.deepEqual([refused.status, refused.body.error], [401, "UnauthorizedError"]);
      await until(async () => (await use(token, second.base)) === 401, 1000);
      assert.equal((await renew(token)).status, 401);
      assert.equal((await house.anonymous.post(REVOKE, { accessToken: token })).status, 401);
    });

    it("take their renewed texts with them, and leave others alone", async () => {
      const { token, identityId } = await newToken();
      const renewed = (await renew(token)).body.accessToken;
      const other =
        (await tenant.post(`/api/v1/auth/token-auth/identities/${identityId}`, {})) &&
        (await tenant.post(`/api/v1/auth/token-auth/identities/${identityId}/tokens`, {})).body.accessToken;
      await house.anonymous.post(REVOKE, { accessToken: renewed });
      assert.deepEqual([await use(token), await use(renewed), await use(other)], [401, 401, 200]);
    });

    it("answer as invalid when the text is nonsense or a person's session", async () => {
      const session = (await house.anonymous.post("/api/v3/auth/login", house.ownerUser)).body.accessToken;
      for (const accessToken of ["x", "a.b.c", session]) {
        for (const path of [RENEW, REVOKE]) {
          const { status, body } = await house.anonymous.post(path, { accessToken });
          assert.deepEqual([status, body.error], [401, "TokenError"]);
        }
      }
      assert.equal((await house.anonymous.post(RENEW, {})).status, 422);
    });
  });

  describe("S-08 forged", () => {
    let good: string;
    let parts: string[];
    before(async () => {
      good = (await newToken()).token;
      parts = good.split(".");
    });

    const refused = async (token: string, what: string) => {
      const { status, body } = await house.as(token).get(DETAILS);
      assert.deepEqual(
        [status, ["TokenError", "UnauthorizedError"].includes(body.error)],
        [401, true],
        `${what}: ${status} ${JSON.stringify(body)}`,
      );
    };

    it("without a signature or with alg none are refused", async () => {
      const claims = parts[1] ?? "";
      for (const alg of ["none", "None", "NONE", "nOnE", ""]) {
        await refused(`${encode({ alg, typ: "JWT" })}.${claims}.`, alg);
        await refused(`${encode({ alg, typ: "JWT" })}.${claims}`, alg);
        await refused(`${encode({ alg, typ: "JWT" })}.${claims}.${parts[2]}`, alg);
      }
      await refused(`${parts[0]}.${claims}.`, "an empty signature");
      await refused(`${parts[0]}.${claims}`, "no signature");
    });

    it("signed with a key of the forger's choice are refused", async () => {
      const claims = parts[1] ?? "";
      for (const key of ["", "secret", "token-signing", "null", Buffer.alloc(32)]) {
        const body = `${parts[0]}.${claims}`;
        await refused(`${body}.${createHmac("sha256", key).update(body).digest("base64url")}`, String(key));
      }
      const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
      const pem = publicKey.export({ type: "spki", format: "pem" });
      const rs = `${encode({ alg: "RS256", typ: "JWT", jwk: publicKey.export({ format: "jwk" }) })}.${claims}`;
      await refused(
        `${rs}.${sign("sha256", Buffer.from(rs), privateKey).toString("base64url")}`,
        "RS256 with its own jwk",
      );
      const hs = `${parts[0]}.${claims}`;
      await refused(
        `${hs}.${createHmac("sha256", pem).update(hs).digest("base64url")}`,
        "HS256 with a public key as secret",
      );
    });

    it("with another header are refused whatever the header says", async () => {
      const base = { alg: "HS256", typ: "JWT" };
      for (const more of [
        { kid: "../../../dev/null" },
        { kid: "' OR 1=1 --" },
        { jku: "http://127.0.0.1/keys" },
        { x5u: "http://127.0.0.1/x" },
        { crit: ["exp"] },
        { b64: false },
      ]) {
        await refused(`${encode({ ...base, ...more })}.${parts[1]}.${parts[2]}`, JSON.stringify(more));
      }
      await refused(
        `${encode('{"typ":"JWT","alg":"HS256"}')}.${parts[1]}.${parts[2]}`,
        "the same header in another order",
      );
    });

    it("with changed, doubled or missing claims are refused", async () => {
      const claims = claimsOf(good);
      const changes: unknown[] = [
        { ...claims, orgId: newId() },
        { ...claims, identityId: house.owner.identityId },
        { ...claims, exp: 9_999_999_999 },
        { ...claims, authTokenType: "accessToken", tokenVersionId: newId() },
        {},
        [],
        "null",
        `${JSON.stringify(claims).slice(0, -1)},"orgId":"x"}`,
      ];
      for (const changed of changes)
        await refused(`${parts[0]}.${encode(changed)}.${parts[2]}`, JSON.stringify(changed));
    });

    it("altered by one character anywhere are refused", async () => {
      for (let at = 0; at < good.length; at += 7) {
        const other = good[at] === "A" ? "B" : "A";
        await refused(good.slice(0, at) + other + good.slice(at + 1), `character ${at}`);
      }
      await refused(`${good}A`, "one more character");
      await refused(`${good}.`, "one more dot");
      await refused(`${parts[0]}.${parts[1]}=.${parts[2]}`, "padding");
    });

    it("of absurd size or shape are refused", async () => {
      for (const token of [
        "",
        ".",
        "..",
        "...",
        "a".repeat(9000),
        `${good.slice(0, 40)}${"A".repeat(5000)}`,
        "null",
        "undefined",
        "[object Object]",
      ]) {
        assert.equal(
          (await house.anonymous.get(DETAILS, { headers: { authorization: `Bearer ${token}` } })).status,
          401,
        );
      }
    });

    it("are refused without the scheme word, which is matched in any case", async () => {
      for (const header of [
        good,
        `Basic ${good}`,
        `Token ${good}`,
        `Bearer`,
        `Bearer  `,
        `Bearer ${good} extra`,
      ]) {
        const { status, body } = await house.anonymous.get(DETAILS, { headers: { authorization: header } });
        assert.deepEqual([status, body.error], [401, "UnauthorizedError"], header.slice(0, 10));
      }
      for (const word of ["Bearer", "bearer", "BEARER", "bEaReR"]) {
        assert.equal(
          (await house.anonymous.get(DETAILS, { headers: { authorization: `${word} ${good}` } })).status,
          200,
        );
      }
    });

    it("S-59 are not taken from the address, the body or a cookie", async () => {
      for (const answer of [
        await house.anonymous.get(`${DETAILS}?token=${good}&access_token=${good}`),
        await house.anonymous.get(DETAILS, {
          headers: { cookie: `jid=${good}; token=${good}`, "x-access-token": good },
        }),
      ]) {
        assert.equal(answer.status, 401);
      }
    });
  });

  it("S-53 are not handed out when the audit trail cannot be written", async () => {
    const { identity } = (
      await tenant.post(`/api/v1/projects/${project.id}/identities`, { name: unique("bot") })
    ).body;
    const { clientId, clientSecret } = await credentials(tenant, identity.id);
    const onDatabase = <T>(work: Parameters<typeof withClient<T>>[2]) =>
      withClient(house.database.server, house.database.connection.database, work);
    const tokens = () =>
      onDatabase(
        async (client) =>
          (await client.query("SELECT id FROM access_tokens WHERE identity_id = $1", [identity.id])).rows
            .length,
      );
    await onDatabase(async (client) => {
      await client.query(
        `CREATE FUNCTION no_audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'full'; END $$`,
      );
      await client.query(
        `CREATE TRIGGER no_audit BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION no_audit()`,
      );
    });
    try {
      const { status, body } = await house.anonymous.post("/api/v1/auth/universal-auth/login", {
        clientId,
        clientSecret,
      });
      assert.deepEqual([status, body.accessToken], [500, undefined]);
      const secret = await tenant.post(
        `/api/v1/auth/universal-auth/identities/${identity.id}/client-secrets`,
        {},
      );
      assert.deepEqual([secret.status, secret.body.clientSecret], [500, undefined]);
      assert.equal(await tokens(), 0, "S-07 an error leaves no token behind");
    } finally {
      await onDatabase((client) => client.query("DROP TRIGGER no_audit ON audit_log"));
    }
    assert.equal(
      (await house.anonymous.post("/api/v1/auth/universal-auth/login", { clientId, clientSecret })).status,
      200,
    );
  });
});
