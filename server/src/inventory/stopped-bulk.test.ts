/** Bulk actions on certificates go on only as long as the caller has access. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { anIdentity, unique, until } from "../../test/builders.ts";
import { aPki, issue } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

test("a token that was revoked while its certificates are revoked one by one revokes no more of them", async () => {
  const one = await aPki(house);
  const name = unique("stopped");
  const ids: string[] = [];
  for (const n of [1, 2, 3]) {
    const made = await issue(house.owner, one.profile.id, { commonName: `${name}-${n}`, altNames: [] });
    ids.push(made.certificateId);
    house.clock.advance(1000);
  }
  const identity = await anIdentity(house.owner, house.base, one.project.id, { roles: [{ role: "admin" }] });
  const { server, connection } = house.database;
  const answer = await withClient(server, connection.database, async (client) => {
    await client.query("BEGIN");
    await client.query("SELECT 1 FROM certificates WHERE id = $1 FOR UPDATE", [ids[0]]);
    const answering = identity.client.post(`/api/v1/projects/${one.project.id}/certificates/bulk-revoke`, {
      query: { search: name },
    });
    await until(
      () =>
        withClient(server, connection.database, async (other) => {
          const { rowCount } = await other.query(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
          );
          return Number(rowCount) > 0;
        }),
      15_000,
    );
    const { status } = await house.anonymous.post("/api/v1/auth/token/revoke", {
      accessToken: identity.token,
    });
    assert.equal(status, 200);
    await client.query("ROLLBACK");
    return answering;
  });
  const statuses: string[] = [];
  for (const id of ids) {
    const { body } = await house.owner.get(`/api/v1/cert-manager/certificates/${id}`);
    statuses.push(body.certificate.status);
  }
  assert.deepEqual(statuses, ["revoked", "active", "active"]);
  assert.equal(answer.status, 401);
  assert.match(answer.body.message, /1 of 3 certificates/);
});
