import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import pg from "pg";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { openDatabase, type Database } from "../platform/db/index.ts";
import { systemClock } from "../platform/clock.ts";
import { moveMoment, STATEMENTS, totalOf, type Counted } from "./counts.store.ts";
import { sized } from "../../test/full-size.ts";

/** In minutes before now: fresh, on both sides of what counts as late, and from before every kept moment. */
const AGES = [-60, 0, 0.5, 1.5, 2.5, 10, 60 * 24];

let house: TestHouse;
let database: Database;

before(async () => {
  house = await openTestHouse();
  database = openDatabase({
    connection: house.database.connection,
    connections: 4,
    clock: systemClock,
    onError: () => undefined,
  });
});
after(async () => {
  await database.close();
  await house.close();
});

const move = (counted: Counted, placeId: string) =>
  database.write((tx) => moveMoment(tx, counted, placeId), { audited: false });
const totalNow = async (counted: Counted, placeId: string): Promise<number> => {
  const { kept = 0, since = 0 } = (await database.read((q) => totalOf(q, counted, placeId))) ?? {};
  return Number(kept) + Number(since);
};
const asAdmin = <T>(work: (client: pg.Client) => Promise<T>): Promise<T> =>
  withClient(house.database.server, house.database.connection.database, work);

const ADD = `
  WITH made AS (INSERT INTO identities (id, org_id, project_id, name, metadata, created_at, updated_at)
    SELECT gen_random_uuid(), $1, $2, 'n', '[]', clock_timestamp() - make_interval(secs => $3), now() FROM generate_series(1, $4::int) RETURNING *)
  INSERT INTO memberships (id, org_id, project_id, identity_id, created_at, updated_at)
    SELECT gen_random_uuid(), org_id, project_id, id, created_at, now() FROM made`;

type Step =
  | { readonly kind: "add" | "found"; readonly age: number; readonly count: number }
  | { readonly kind: "remove"; readonly share: number }
  | { readonly kind: "move" };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constantFrom("add" as const, "found" as const),
    age: fc.constantFrom(...AGES),
    count: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({ kind: fc.constant("remove" as const), share: fc.integer({ min: 1, max: 3 }) }),
  fc.constant({ kind: "move" as const }),
);

describe("totals of identities", () => {
  it("are what counting says, however old the rows claim to be, and wherever the kept moment is", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 12 }), async (steps) => {
        const { id: projectId } = await aProject(house.owner);
        await asAdmin(async (client) => {
          // Rows that were there before anything was kept come only before the first move.
          let isKept = false;
          for (const one of steps) {
            if (one.kind === "add" || one.kind === "found") {
              const isSilent = one.kind === "found" && !isKept;
              if (isSilent) await client.query("SET session_replication_role = replica");
              await client.query(ADD, [house.owner.orgId, projectId, one.age * 60, one.count]);
              if (isSilent) await client.query("SET session_replication_role = origin");
            } else if (one.kind === "remove")
              await client.query(
                "DELETE FROM identities WHERE id IN (SELECT id FROM identities WHERE project_id = $1 ORDER BY md5(id::text) LIMIT $2)",
                [projectId, one.share],
              );
            else {
              isKept = true;
              await move("projectIdentities", projectId);
              await move("projectMembers", projectId);
            }
            const { rows } = await client.query<{ own: number; members: number }>(
              `SELECT (SELECT count(*) FROM identities WHERE project_id = $1)::int AS own,
                 (SELECT count(*) FROM memberships WHERE project_id = $1 AND identity_id IS NOT NULL)::int AS members`,
              [projectId],
            );
            assert.deepEqual(
              {
                own: await totalNow("projectIdentities", projectId),
                members: await totalNow("projectMembers", projectId),
              },
              rows[0],
            );
          }
        });
      }),
      { numRuns: sized(3, 10) },
    );
  });

  for (const how of ["a late row", "a deletion"])
    it(`wait for ${how} that is not committed yet before the kept moment moves past it`, async () => {
      const { id: projectId } = await aProject(house.owner);
      await asAdmin(async (client) => {
        await client.query(ADD, [house.owner.orgId, projectId, 86_400, 2]);
        await client.query("BEGIN");
        if (how === "a late row") await client.query(ADD, [house.owner.orgId, projectId, 7200, 1]);
        else
          await client.query(
            "DELETE FROM identities WHERE id = (SELECT id FROM identities WHERE project_id = $1 LIMIT 1)",
            [projectId],
          );
        const moved = move("projectIdentities", projectId);
        // The move has come to where it must wait.
        await asAdmin(async (watcher) => {
          const isWaiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
          while ((await watcher.query(isWaiting)).rowCount === 0);
        });
        await client.query("COMMIT");
        await moved;
      });
      assert.equal(await totalNow("projectIdentities", projectId), how === "a late row" ? 3 : 1);
    });

  it("are planned to read what is new, not the whole table, whatever its shape", async () => {
    const { id: projectId } = await aProject(house.owner);
    await asAdmin(async (client) => {
      await client.query(ADD, [house.owner.orgId, projectId, 7200, 20_000]);
      await client.query("VACUUM ANALYZE identities, memberships");
      // Nothing is known to be visible to all: an index alone is dearer than the planner likes.
      await client.query("UPDATE memberships SET updated_at = now(); ANALYZE memberships");
      for (const { total } of Object.values(STATEMENTS)) {
        const { rows } = await client.query(`EXPLAIN ${total.text}`, [projectId]);
        const plan = rows.map((row) => String(row["QUERY PLAN"])).join("\n");
        assert.doesNotMatch(plan, /Seq Scan on (identities|memberships)/);
      }
    });
  });

  it("of an organisation and of a project's members are the ones that the lists answer", async () => {
    const tenant = await house.newTenant();
    const { id: projectId } = await aProject(tenant);
    await tenant.post("/api/v1/identities", { name: "in the organisation" });
    await tenant.post(`/api/v1/projects/${projectId}/identities`, { name: "in the project" });
    await asAdmin((client) => client.query(ADD, [tenant.orgId, projectId, 7200, 6000]));
    const own = `/api/v1/projects/${projectId}/identities?limit=1`;
    assert.equal((await tenant.get(own)).body.totalCount, 6001);
    await move("projectIdentities", projectId);
    await move("orgIdentities", tenant.orgId);
    assert.equal((await tenant.get(own)).body.totalCount, 6001);
    assert.equal((await tenant.get("/api/v1/identities?limit=1")).body.totalCount, 2);
    const { rowCount } = await asAdmin((client) => client.query("SELECT FROM identity_counts"));
    assert.ok((rowCount ?? 0) >= 2, "nothing is kept");
    await tenant.delete(`/api/v1/projects/${projectId}`);
    const left = await asAdmin((client) =>
      client.query("SELECT FROM identity_counts WHERE place_id = $1", [projectId]),
    );
    assert.equal(left.rowCount, 0);
  });
});
