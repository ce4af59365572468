/** A COMMIT that was done and whose answer was lost: a background writer looks up the outcome before it retries. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openProxy, type Proxy } from "../../../test/faults/proxy.ts";
import {
  createTestDatabase,
  stopOwnPostgres,
  withClient,
  type TestDatabase,
} from "../../../test/postgres.ts";
import { systemActor } from "../actor.ts";
import { systemClock } from "../clock.ts";
import { silentLog } from "../log.ts";
import { createReadAudit } from "../../secrets/read-audit.ts";
import type { MemberActor } from "../actor.ts";
import type { ProjectRow } from "../../projects/index.ts";
import { newId } from "../ids.ts";
import { openDatabase, unlessMade, type Database } from "./index.ts";
import { sql } from "./statement.ts";
import { becameOf, type Ask } from "./unconfirmed.ts";

const raise = sql(`UPDATE tally SET n = n + $1`);

describe("a background writer whose answer to COMMIT is lost", () => {
  let test: TestDatabase;
  let proxy: Proxy;
  let db: Database;
  const ask = <T extends object>(text: string): Promise<T[]> =>
    withClient(test.server, test.connection.database, async (client) => (await client.query<T>(text)).rows);
  before(async () => {
    test = await createTestDatabase();
    await ask("CREATE TABLE tally AS SELECT 0 AS n");
    proxy = await openProxy(test.server);
    db = openDatabase({
      connection: { ...test.connection, host: "127.0.0.1", port: proxy.port },
      ...{ connections: 2, clock: systemClock, onError: () => undefined },
    });
  });
  after(async () => {
    await db.close();
    await proxy.close();
    await test.drop();
    await stopOwnPostgres();
  });

  /** Adds one, and goes on until it is known to be added. */
  const add = async (): Promise<void> => {
    for (let isDone = false; !isDone;) {
      const write = db.write((tx) => tx.rows(raise, [1]), { audited: false, isTraced: true });
      isDone = await write.then(
        () => true,
        (error: unknown) =>
          new Promise<boolean>((resolve) => {
            void unlessMade(error, () => resolve(false));
            const { isMade } = error as { isMade?: Promise<boolean> };
            void isMade?.then((made) => made && resolve(true));
          }),
      );
    }
  };

  it("counts once what was committed, and again what was not", async () => {
    proxy.set({ kind: "cut-after-commit", every: 2 });
    for (let n = 0; n < 12; n += 1) await add();
    proxy.set({ kind: "fair" });
    for (let n = 0; n < 12; n += 1) {
      setTimeout(() => proxy.cut(), n / 2);
      await add();
    }
    assert.ok(proxy.cuts() >= 4, `${proxy.cuts()} answers were lost`);
    assert.deepEqual(await ask("SELECT n FROM tally"), [{ n: 24 }]);
  });

  it("tells the caller of a change to read before retrying", async () => {
    proxy.set({ kind: "cut-after-commit", every: 1 });
    await assert.rejects(
      db.write((tx) => tx.rows(raise, [0]), { audited: false }),
      /Whether this one was made is not certain: look before you repeat it/,
    );
    proxy.set({ kind: "fair" });
  });

  it("does not mistake another transaction for its own after a fail-over", async () => {
    const [row] = await ask<{ xid: string }>("SELECT pg_current_xact_id()::text AS xid");
    const rows: Ask = (statement, values) => db.read((q) => q.rows(statement, values));
    const xid = row?.xid ?? "";
    assert.equal(await becameOf(rows, { xid, timeline: "00000001" }), true);
    assert.equal(await becameOf(rows, { xid, timeline: "00000002" }), false);
  });

  it("writes a read into the audit log once", async () => {
    const [organization] = [newId()];
    await ask(
      `INSERT INTO organizations (id, name, slug, created_at, updated_at) VALUES ('${organization}', 'x', 'x', now(), now())`,
    );
    const reads = createReadAudit({ db, clock: systemClock, log: silentLog, mode: "async" });
    const actor = {
      ...systemActor("reader"),
      id: newId(),
      caller: { ip: "1.1.1.1", userAgent: "", requestId: "r" },
    };
    const project = { id: newId(), orgId: organization } as ProjectRow;
    proxy.set({ kind: "cut-after-commit", every: 1 });
    const cutsBefore = proxy.cuts();
    for (let n = 0; n < 5; n += 1)
      await reads.note(actor as unknown as MemberActor, project, "get-secret", { n });
    await reads.flush().catch(() => undefined);
    assert.ok(proxy.cuts() > cutsBefore);
    proxy.set({ kind: "fair" });
    // Long enough for a retry, if there were one.
    await new Promise((resolve) => setTimeout(resolve, 2500));
    await reads.flush();
    assert.deepEqual(await ask(`SELECT count(*)::int AS n FROM audit_log WHERE org_id = '${organization}'`), [
      { n: 5 },
    ]);
  });
});
