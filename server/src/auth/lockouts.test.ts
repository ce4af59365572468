/** Behind a proxy that is trusted: lockouts and audit go by the client's own address. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, credentials } from "../../test/builders.ts";
import { OWNER, openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";

describe("failed logins behind a trusted proxy", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse({ env: { KEYWARD_TRUSTED_PROXIES: "127.0.0.1/32" } });
  });
  after(() => house.close());

  const from = (ip: string) => ({ headers: { "x-forwarded-for": ip } });

  it("S-04 lock out the address they came from, not another", async () => {
    const project = await aProject(house.owner);
    const { identity } = (await house.owner.post(`/api/v1/projects/${project.id}/identities`, { name: "x" }))
      .body;
    const { clientId, clientSecret } = await credentials(house.owner, identity.id);
    const login = async (ip: string, secret: string) =>
      (
        await house.anonymous.post(
          "/api/v1/auth/universal-auth/login",
          { clientId, clientSecret: secret },
          from(ip),
        )
      ).status;
    for (let n = 0; n < 3; n += 1) await login("198.51.100.1", "wrong");
    assert.equal(await login("198.51.100.1", clientSecret), 401);
    assert.equal(await login("198.51.100.2", clientSecret), 200);
    assert.equal(await login("198.51.100.1", clientSecret), 401, "the other's success does not unlock it");
    assert.equal(
      await login("::ffff:198.51.100.1", clientSecret),
      401,
      "the same address in another spelling",
    );
  });

  it("S-04 lock a person's guesser out, not the person", async () => {
    const login = async (ip: string, password: string) =>
      (await house.anonymous.post("/api/v3/auth/login", { email: OWNER.email, password }, from(ip))).status;
    for (let n = 0; n < 6; n += 1) assert.equal(await login("198.51.100.7", "wrong"), 401);
    assert.equal(await login("198.51.100.7", OWNER.password), 401);
    assert.equal(await login("198.51.100.8", OWNER.password), 200);
  });

  it("S-50 believe only the last hop that no trusted proxy added", async () => {
    await house.anonymous.post(
      "/api/v3/auth/login",
      { email: "hop@example.com", password: "x" },
      from("203.0.113.9, 198.51.100.20"),
    );
    const rows = await withClient(
      house.database.server,
      house.database.connection.database,
      async (client) =>
        (
          await client.query<{ ip: string }>(
            "SELECT ip FROM audit_log WHERE event = 'login-refused' ORDER BY at DESC, id DESC LIMIT 1",
          )
        ).rows,
    );
    assert.equal(rows[0]?.ip, "198.51.100.20");
  });
});
