/** S-52, S-46: after everything that auth can do was done, no secret is in clear anywhere it is stored or answered. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, anIdentity, unique } from "../../test/builders.ts";
import { openTestHouse, OWNER, type Answer, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";

const NEW_PASSWORD = "canary password two";
const WRONG_PASSWORD = "canary password wrong";

describe("secrets of auth", () => {
  let house: TestHouse;
  const secrets: string[] = [OWNER.password, NEW_PASSWORD, WRONG_PASSWORD];
  const refusals: Answer[] = [];
  before(async () => {
    house = await openTestHouse();
    await everything();
  });
  after(() => house.close());

  const keep = <T extends string>(secret: T): T => {
    secrets.push(secret);
    return secret;
  };

  async function everything(): Promise<void> {
    keep(house.owner.token);
    const tenant = await house.newTenant();
    keep(tenant.token);
    const project = await aProject(tenant);
    const bot = await anIdentity(tenant, house.base, project.id, { roles: [{ role: "viewer" }] });
    keep(bot.clientSecret);
    keep(bot.token);
    const agent = { headers: { "user-agent": `agent ${unique("x")}` } };
    const renewed = await house.anonymous.post("/api/v1/auth/token/renew", { accessToken: bot.token }, agent);
    keep(renewed.body.accessToken);
    await tenant.post(`/api/v1/auth/token-auth/identities/${bot.id}`, {});
    keep(
      (await tenant.post(`/api/v1/auth/token-auth/identities/${bot.id}/tokens`, { name: "named" })).body
        .accessToken,
    );
    const session = (await house.anonymous.post("/api/v3/auth/login", OWNER)).body.accessToken;
    keep(session);
    keep(
      (await house.as(session).post("/api/v3/auth/select-organization", { organizationId: tenant.orgId }))
        .body.token,
    );
    refusals.push(
      await house.anonymous.post("/api/v3/auth/login", { email: OWNER.email, password: WRONG_PASSWORD }),
      await house.anonymous.post("/api/v1/auth/universal-auth/login", {
        clientId: bot.clientSecret,
        clientSecret: bot.clientSecret,
      }),
      await house.anonymous.post("/api/v1/auth/universal-auth/login", {
        clientId: bot.clientId,
        clientSecret: keep(`${bot.clientSecret}wrong`),
      }),
      await house.anonymous.post("/api/v1/auth/universal-auth/login", {
        clientId: bot.clientId,
        clientSecret: [bot.clientSecret],
      }),
      await house.anonymous.post("/api/v1/auth/universal-auth/login", { [bot.clientSecret]: "as a key" }),
      await house.anonymous.call("POST", "/api/v1/auth/universal-auth/login", {
        rawBody: `{"clientSecret":"${bot.clientSecret}"`,
      }),
      await house.anonymous.post("/api/v1/auth/token/renew", { accessToken: `${bot.token}x` }),
      await house.anonymous.post("/api/v1/auth/token/renew", { accessToken: { token: bot.token } }),
      await house.anonymous.get("/api/v1/user", {
        headers: { authorization: `Bearer ${bot.token.slice(0, -2)}` },
      }),
      await house.anonymous.get("/api/v1/user", { headers: { authorization: `Basic ${bot.clientSecret}` } }),
      await house
        .as(session)
        .post("/api/v1/auth/password", { currentPassword: WRONG_PASSWORD, newPassword: NEW_PASSWORD }),
      await house
        .as(session)
        .post("/api/v1/auth/password", { currentPassword: OWNER.password, newPassword: [NEW_PASSWORD] }),
      await house.anonymous.post("/api/v1/admin/bootstrap", { ...OWNER, organization: "again" }),
    );
    await house
      .as(session)
      .post("/api/v1/auth/password", { currentPassword: OWNER.password, newPassword: NEW_PASSWORD });
    await house.anonymous.post("/api/v1/auth/token/revoke", { accessToken: renewed.body.accessToken });
  }

  it("S-52 are in no row of any table, as text, hexadecimal or base64", async () => {
    const signatures = secrets.map((secret) =>
      secret.startsWith("ey") ? (secret.split(".")[2] ?? secret) : secret,
    );
    const needles = signatures.flatMap((secret) => {
      const bytes = Buffer.from(secret);
      return [secret, bytes.toString("hex"), bytes.toString("base64").replace(/=+$/, "")];
    });
    assert.ok(signatures.every((secret) => secret.length >= 16));
    await withClient(house.database.server, house.database.connection.database, async (client) => {
      const tables = (
        await client.query<{ name: string }>(
          "SELECT quote_ident(table_name) AS name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'",
        )
      ).rows;
      assert.ok(tables.length > 15);
      let rowsSeen = 0;
      for (const { name } of tables) {
        const { rows } = await client.query<{ text: string }>(
          `SELECT row_to_json(t)::text AS text FROM ${name} t`,
        );
        rowsSeen += rows.length;
        for (const { text } of rows)
          for (const needle of needles) assert.ok(!text.includes(needle), `a secret stands in ${name}`);
      }
      assert.ok(rowsSeen > 30);
    });
  });

  it("S-46 are repeated by no refusal, which carries no stack and no SQL either", () => {
    for (const { status, body } of refusals) {
      assert.ok(status >= 400 && status < 500, JSON.stringify(body));
      const text = JSON.stringify(body);
      for (const secret of secrets) assert.ok(!text.includes(secret), text);
      assert.doesNotMatch(text, /\bat \S+:\d+|SELECT|INSERT|node_modules|postgres/i);
      assert.deepEqual(
        Object.keys(body).filter(
          (key) => !["reqId", "statusCode", "error", "message", "details"].includes(key),
        ),
        [],
      );
      assert.match(body.reqId, /^req-[0-9A-Za-z]{14}$/);
    }
  });

  it("S-52 are not in the audit log as its readers see it", async () => {
    const { accessToken } = (
      await house.anonymous.post("/api/v3/auth/login", { email: OWNER.email, password: NEW_PASSWORD })
    ).body;
    const { token } = (
      await house
        .as(accessToken)
        .post("/api/v3/auth/select-organization", { organizationId: house.owner.orgId })
    ).body;
    const { body } = await house.as(token).get("/api/v1/organization/audit-logs?limit=1000");
    assert.ok(body.auditLogs.length > 0);
    for (const secret of secrets) assert.ok(!JSON.stringify(body).includes(secret));
  });
});
