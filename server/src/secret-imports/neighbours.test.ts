/** Changes that wait for each other hold connections; one organisation's never hold all of them. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, until } from "../../test/builders.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const CROWD = 48;

const imports = (tenant: Tenant, projectId: string, from = "prod") =>
  tenant.post("/api/v2/secret-imports", {
    projectId,
    environment: "dev",
    import: { environment: from, path: "/" },
  });

const changes: Record<string, (tenant: Tenant, projectId: string, n: number) => Promise<unknown>> = {
  imports: (tenant, projectId) => imports(tenant, projectId),
  environments: async (tenant, projectId) => {
    const { body } = await tenant.get(`/api/v1/projects/${projectId}`);
    const { id } = body.project.environments.find(({ slug }: { slug: string }) => slug === "staging");
    return tenant.delete(`/api/v1/projects/${projectId}/environments/${id}`);
  },
};

/** Asked outside of a transaction, within which the answer would stay the same. */
const waiting = () =>
  withClient(house.database.server, house.database.connection.database, async (client) => {
    const { rowCount } = await client.query(
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    );
    return Number(rowCount);
  });

for (const [what, change] of Object.entries(changes))
  test(`${what} of one organisation that wait for a tree let another's changes pass`, async () => {
    const [busy, other] = [await house.newTenant(), await house.newTenant()];
    const [theirs, ours] = [await aProject(busy), await aProject(other)];
    const { server, connection } = house.database;
    await withClient(server, connection.database, async (client) => {
      await client.query("BEGIN");
      await client.query("SELECT pg_advisory_xact_lock(project_lock_key($1))", [theirs.id]);
      let answered = 0;
      const crowd = Array.from({ length: CROWD }, async (_, n) => {
        await change(busy, theirs.id, n);
        answered += 1;
      });
      await until(async () => (await waiting()) > 1, 15_000);
      const passed = await imports(other, ours.id);
      const before = answered;
      await client.query("ROLLBACK");
      await Promise.all(crowd);
      assert.equal(passed.status, 200, JSON.stringify(passed.body));
      assert.equal(before, 0, "it was served while they waited");
    });
  });
