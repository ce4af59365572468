/** Lists are signed for one organisation after the other: whoever has hundreds to be signed delays nobody's revocation. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProfile, aRoot, certProject, issue, ok } from "../../../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../../../test/harness.ts";
import { withClient } from "../../../../test/postgres.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const SHARDS = 128;

test("an organisation with a hundred changed lists lets another's one pass", async () => {
  const { server, connection } = house.database;
  const query = <T extends object>(text: string, values: unknown[]) =>
    withClient(server, connection.database, async (client) => (await client.query<T>(text, values)).rows);
  const [busy, other] = [await house.newTenant(), await house.newTenant()];
  const theirs = await certProject(busy);
  const { id: busyId } = await aRoot(busy, theirs.id, { crlShards: SHARDS });
  const ours = await certProject(other);
  const { id: otherId } = await aRoot(other, ours.id);
  const leaf = await issue(other, (await aProfile(other, ours.id, otherId)).id);
  ok(await other.post(`/api/v1/cert-manager/certificates/${leaf.certificateId}/revoke`));
  // Keys are in the order in which they were made, so theirs stands before ours.
  await query(
    `INSERT INTO crl_changes (authority_key_id, shard, at)
     SELECT id, n, now() FROM authority_keys, generate_series(0, $2::int - 1) n WHERE authority_id = $1`,
    [busyId, SHARDS],
  );
  house.clock.advance(4000);
  await house.house.jobs.runDue();
  // Each is a transaction of its own: their numbers say in which order they were stored.
  const signed = await query<{ authority: string; xid: string }>(
    `SELECT k.authority_id AS authority, c.xmin::text AS xid FROM crls c JOIN authority_keys k ON k.id = c.authority_key_id
     WHERE k.authority_id = ANY ($1::uuid[]) ORDER BY c.xmin::text::bigint`,
    [[busyId, otherId]],
  );
  assert.equal(signed.length, SHARDS + 1);
  const place = signed.findIndex(({ authority }) => authority === otherId);
  assert.ok(place < 10, `${place} lists were signed before it`);
});
