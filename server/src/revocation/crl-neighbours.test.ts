/** CRLs are signed for one organisation after the other: one with hundreds of CRLs delays nobody's revocation. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProfile, aRoot, certProject, issue, ok } from "../../test/certificates.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { silentLog } from "../platform/log.ts";
import type { Issuers } from "../signing/issuers.ts";
import type { Authorities } from "../authorities/service.ts";
import { createCrls } from "./crl.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const SHARDS = 128;

/** Keys of two organisations, in the order in which they stand in the table; what was signed when, and how slow that is. */
async function aStage(slowMs: number) {
  const query = <T extends object>(text: string, values: unknown[] = []) =>
    withClient(house.database.server, house.database.connection.database, async (client) => {
      const { rows } = await client.query<T>(text, values);
      return rows;
    });
  await query("DELETE FROM crl_changes");
  const [busy, other] = [await house.newTenant(), await house.newTenant()];
  const keyOf = async (tenant: Tenant): Promise<string> => {
    const { id } = await aRoot(tenant, (await certProject(tenant)).id);
    const [row] = await query<{ id: string }>("SELECT id FROM authority_keys WHERE authority_id = $1", [id]);
    return row?.id ?? "";
  };
  const [theirs, ours] = [await keyOf(busy), await keyOf(other)];
  const order: string[] = [];
  let [elapsed, isStopping] = [1000, false];
  const clock = { ...house.clock, elapsed: () => elapsed };
  // Whose key nobody has any more: the mark goes, after as long as a signature takes.
  const slow = {
    async ofKey(keyId: string) {
      order.push(keyId === ours ? "B" : "A");
      elapsed += slowMs;
      await stage.onSigned();
      return undefined;
    },
  } as unknown as Issuers;
  const lists = createCrls({
    db: house.house.database,
    clock,
    log: silentLog,
    issuers: slow,
    authorities: {} as Authorities,
  });
  const mark = (keyId: string, count: number) =>
    query(
      "INSERT INTO crl_changes SELECT $1, n, now() FROM generate_series(0, $2::int - 1) n ON CONFLICT (authority_key_id, shard) DO UPDATE SET at = now()",
      [keyId, count],
    );
  const stage = {
    order,
    theirs,
    ours,
    mark,
    query,
    onSigned: async (): Promise<void> => undefined,
    stop: () => (isStopping = true),
    run: () => lists.catchUp(() => isStopping),
  };
  return stage;
}

test("slow signatures of one organisation's CRLs leave the other its turn", async () => {
  const stage = await aStage(2100);
  await stage.mark(stage.theirs, 12);
  await stage.mark(stage.ours, 1);
  await stage.run();
  assert.ok(stage.order.indexOf("B") <= 1, stage.order.join(""));
  assert.equal(stage.order.length, 13);
});

test("the organisation served last in one run comes last in the next", async () => {
  const stage = await aStage(61_000);
  await stage.mark(stage.theirs, 4);
  await stage.mark(stage.ours, 1);
  await stage.run();
  await stage.run();
  assert.equal(stage.order.join(""), "AB");
});

test("a CRL that changes all the time is signed once in a while, not without a pause", async () => {
  const stage = await aStage(100);
  stage.onSigned = () => stage.mark(stage.theirs, 1).then(() => undefined);
  await stage.mark(stage.theirs, 1);
  await stage.run();
  assert.equal(stage.order.length, 1, "the next one is for the next run");
  house.clock.advance(3000);
  await stage.run();
  assert.equal(stage.order.length, 2);
});

test("a node that stops signs no further CRL", async () => {
  const stage = await aStage(100);
  stage.onSigned = async () => void stage.stop();
  await stage.mark(stage.theirs, 5);
  await stage.run();
  assert.equal(stage.order.length, 1);
  await stage.query("DELETE FROM crl_changes");
});

test("CRLs that are to be renewed go on where the last run ended", async () => {
  const stage = await aStage(61_000);
  await stage.query(
    `INSERT INTO crls (authority_key_id, shard, number, this_update, next_update, der, urls)
     SELECT k, n, 1, '2001-01-01', '2001-01-08', '', '{}' FROM unnest($1::uuid[]) k, generate_series(0, 1) n`,
    [[stage.theirs, stage.ours]],
  );
  for (let run = 0; run < 4; run += 1) await stage.run();
  assert.equal(stage.order.join(""), "AABB", "none of them can be signed, and each is tried");
  await stage.query("DELETE FROM crls WHERE authority_key_id = ANY ($1::uuid[])", [
    [stage.theirs, stage.ours],
  ]);
});

test("an organisation with a hundred changed CRLs lets another's one pass", async () => {
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
