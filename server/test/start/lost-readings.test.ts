/** KEYWARD_AUDIT_READS=async: what could not be written down before a node had to end is lost, and that is said. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, test } from "node:test";
import { aProject } from "../builders.ts";
import { openProxy, type Weather } from "../faults/proxy.ts";
import { clientOf, OWNER } from "../harness.ts";
import { createTestDatabase, stopOwnPostgres, withClient } from "../postgres.ts";
import { startServer } from "../process.ts";

after(stopOwnPostgres);

const READINGS = 30;

for (const kind of ["away", "silent"] as const satisfies readonly Weather["kind"][])
  test(`a node that ends while its database is ${kind} says how many readings it could not write down`, async () => {
    const database = await createTestDatabase();
    const proxy = await openProxy(database.server);
    const server = await startServer({
      DATABASE_URL: `postgres://${database.server.user}@127.0.0.1:${proxy.port}/${database.connection.database}?sslmode=disable`,
      KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
      KEYWARD_AUDIT_READS: "async",
    });
    const booted = await clientOf(server.base).post("/api/v1/admin/bootstrap", {
      ...OWNER,
      organization: "A",
    });
    const owner = clientOf(server.base, booted.body.identity.credentials.token as string);
    const { id: projectId } = await aProject(owner);
    await owner.post("/api/v4/secrets/A", { projectId, environment: "dev", secretValue: "1" });
    await withClient(database.server, database.connection.database, async (client) => {
      await client.query("BEGIN; LOCK TABLE audit_log IN EXCLUSIVE MODE");
      const read = () => owner.get(`/api/v4/secrets/A?projectId=${projectId}&environment=dev`);
      for (const { status } of await Promise.all(Array.from({ length: READINGS }, read)))
        assert.equal(status, 200);
      proxy.set({ kind });
      assert.equal(await server.stop(), 0);
    });
    const told = server.lines
      .map((line) => JSON.parse(line) as { level: number; readings?: number })
      .filter(({ readings }) => readings !== undefined);
    assert.deepEqual(
      told.map(({ level, readings }) => ({ level, readings })),
      [{ level: 50, readings: READINGS }],
    );
    await proxy.close();
    await database.drop();
  });
