import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { aProject, anIdentity } from "../../test/builders.ts";
import { openStream, refusal, until, type StreamReader } from "../../test/event-streams.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { sweepNodes } from "./stream-quota.store.ts";

const LIMIT = 6;

describe("the quota of streams, over all nodes (E-12)", () => {
  let test: TestHouse;
  let far: Awaited<ReturnType<TestHouse["openNode"]>>;
  let project: { id: string };
  const readers: StreamReader[] = [];
  const open = async (base: string, token: string): Promise<StreamReader> => {
    const reader = await openStream(base, token, { projectId: project.id });
    readers.push(reader);
    assert.equal(reader.status, 200);
    return reader;
  };
  const newcomer = () => anIdentity(test.owner, test.base, project.id, { roles: [{ role: "viewer" }] });
  const query = (text: string, values: unknown[] = []) =>
    withClient(test.database.server, test.database.connection.database, async (db) =>
      (await db.query<{ open: number }>(text, values)).rows.map((row) => row.open),
    );

  before(async () => {
    test = await openTestHouse({ env: { KEYWARD_STREAMS_PER_IDENTITY: String(LIMIT) } });
    far = await test.openNode();
    project = await aProject(test.owner);
  });
  after(async () => {
    for (const reader of readers) reader.close();
    await test.close();
  });

  it("count on a node that has had no stream for longer than its lease, from its first new stream on", async () => {
    const { token } = await newcomer();
    (await open(far.base, token)).close();
    await until(() => far.house.events.openStreams() === 0, "the end of the first stream");
    await pause(600); // its clock has stopped ticking
    await query("UPDATE stream_nodes SET seen_at = now() - interval '30 seconds'");
    const opened = await Promise.all(Array.from({ length: LIMIT }, () => open(far.base, token)));
    assert.equal((await refusal(test.base, token, { projectId: project.id })).status, 429);
    for (const reader of opened) reader.close();
  });

  it("of open streams stay taken when a node clears away what it no longer needs", async () => {
    const { id, token } = await newcomer();
    const [staying, leaving] = [await open(far.base, token), await open(far.base, (await newcomer()).token)];
    leaving.close();
    const counts = (where: string) => query(`SELECT open FROM stream_counts WHERE ${where}`, [id]);
    await until(() => far.house.events.openStreams() === 1, "the end of a stream");
    const [{ node_id: nodeId }] = await withClient(
      test.database.server,
      test.database.connection.database,
      async (db) =>
        (await db.query("SELECT node_id FROM stream_counts WHERE subject_id = $1", [id])).rows as [
          { node_id: string },
        ],
    );
    await query("UPDATE stream_counts SET open = 0 WHERE subject_id <> $1", [id]);
    await far.house.database.write((tx) => sweepNodes(tx, nodeId, 3600), { audited: false });
    assert.deepEqual(await counts("subject_id = $1"), [1]);
    assert.deepEqual(await counts(`node_id = '${nodeId}' AND subject_id <> $1`), []);
    staying.close();
  });

  it("are free again even if the database was unreachable when their streams ended", async () => {
    const { id, token } = await newcomer();
    const staying = await open(test.base, test.owner.token);
    const opened = await Promise.all(Array.from({ length: LIMIT }, () => open(test.base, token)));
    const taken = () => query("SELECT open FROM stream_counts WHERE subject_id = $1", [id]);
    assert.deepEqual(await taken(), [LIMIT]);
    await query("ALTER TABLE stream_counts RENAME TO stream_counts_away");
    for (const reader of opened) reader.close();
    await until(() => test.house.events.openStreams() === 1, "the end of the streams");
    await pause(400); // by now it has tried to write that down
    await query("ALTER TABLE stream_counts_away RENAME TO stream_counts");
    let left = await taken();
    for (let waited = 0; left[0] !== 0 && left.length > 0 && waited < 120_000; waited += 200) {
      await pause(200);
      left = await taken();
    }
    assert.ok(left.length === 0 || left[0] === 0, `${left[0]} places are still taken`);
    staying.close();
  });
});
