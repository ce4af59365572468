// A process of its own: it starts others and runs long.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { aProject, until } from "../../test/builders.ts";
import { clientOf, OWNER, type Client } from "../../test/harness.ts";
import { createTestDatabase, stopOwnPostgres, type TestDatabase } from "../../test/postgres.ts";
import { startServer, type ServerProcess } from "../../test/process.ts";
import { systemClock } from "../platform/clock.ts";
import { openDatabase, type Database } from "../platform/db/index.ts";
import { inventory, openReceiver, type Receiver } from "../../test/alert-receiver.ts";

const PATH = "/api/v1/cert-manager/alerts";
const PATIENCE_MS = 60_000;

let testDatabase: TestDatabase;
let database: Database;
let receiver: Receiver;
let env: Record<string, string>;
const servers: ServerProcess[] = [];

const start = async (): Promise<ServerProcess> => {
  const server = await startServer(env);
  servers.push(server);
  return server;
};

before(async () => {
  testDatabase = await createTestDatabase();
  receiver = await openReceiver();
  const { host, port, user, database: name } = testDatabase.connection;
  env = {
    DATABASE_URL: `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}&sslmode=disable`,
    KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
    KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8",
  };
  database = openDatabase({
    connection: testDatabase.connection,
    connections: 4,
    clock: systemClock,
    onError: () => undefined,
  });
});
after(async () => {
  for (const server of servers) if (server.child.exitCode === null) await server.kill();
  await database.close();
  await receiver.close();
  await testDatabase.drop();
  await stopOwnPostgres();
});

/**
 * Two minutes pass for what dead nodes had claimed. A claim that was made before `since` and has no verdict although the
 * receiver has answered or hung up on everyone for seconds is a dead node's; what waits in its back-off is nobody's. A
 * delivery that a living node is sending is left alone.
 */
const claimsRunOut = (since: Date) =>
  database.write(
    (tx) =>
      tx.rows(
        {
          name: undefined,
          isSlow: false,
          text: `UPDATE alert_deliveries SET next_at = now() WHERE status = 'pending' AND next_at > now()
            AND (last_attempt_at >= updated_at OR updated_at < $1)`,
        },
        [since],
      ),
    { audited: false },
  );
const told = (): Map<string, Set<string>> => {
  const ids = new Map<string, Set<string>>();
  for (const { json } of receiver.received) {
    const certificateId = json.data.certificates[0].id as string;
    ids.set(certificateId, (ids.get(certificateId) ?? new Set()).add(json.id));
  }
  return ids;
};

test("three nodes, two of them killed while they send: nothing is lost, and a repeat carries the same id", async () => {
  const [first, second, third] = [await start(), await start(), await start()];
  const booted = await clientOf(first.base).post("/api/v1/admin/bootstrap", {
    ...OWNER,
    organization: "Owner",
  });
  const owner: Client = clientOf(third.base, booted.body.identity.credentials.token);
  const orgId = booted.body.organization.id as string;
  const projectId = (await aProject(owner, { type: "cert-manager" })).id;
  const made = await owner.post(PATH, {
    name: "all",
    eventType: "issuance",
    filters: [],
    projectId,
    channels: [{ config: { url: `${receiver.url}/in` } }],
  });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  const store = inventory(database, orgId);
  const notBefore = new Date();
  const wish = { projectId, notBefore, notAfter: new Date(notBefore.getTime() + 90 * 86_400_000) };

  // Some requests are accepted and never answered: their sender is killed before it knows.
  const answered = new Set<string>();
  receiver.answer = ({ json }) => {
    if (receiver.received.length % 5 === 0) return undefined;
    answered.add(json.id);
    return 200;
  };
  const issued: string[] = [];
  const issuing = (async () => {
    for (let count = 0; count < 60; count += 1) issued.push(await store.issue(wish));
  })();
  await until(async () => receiver.received.length >= 8, PATIENCE_MS);
  await first.kill();
  await until(async () => receiver.received.length >= 20, PATIENCE_MS);
  await second.kill();
  await issuing;
  receiver.answer = () => 200;
  receiver.hangUp();
  const since = new Date();
  const before = receiver.received.length;
  // The living node has stored by then what became of the requests that were cut off.
  await new Promise((done) => setTimeout(done, 4000));
  await until(async () => {
    await claimsRunOut(since);
    return told().size === issued.length;
  }, PATIENCE_MS);
  await until(async () => {
    await claimsRunOut(since);
    return (await owner.get(`${PATH}/${made.body.alert.id}/deliveries?status=pending`)).body.total === 0;
  }, PATIENCE_MS);

  assert.deepEqual([...told().keys()].sort(), issued.sort());
  for (const [certificateId, ids] of told())
    assert.equal(ids.size, 1, `${certificateId} was told under several ids`);
  const times = new Map<string, number>();
  for (const { json } of receiver.received) times.set(json.id, (times.get(json.id) ?? 0) + 1);
  assert.ok(Math.max(...times.values()) <= 2, "each is repeated once at most");
  // Of those that were taken, only what a killed node had no time to note: it sends four at once to one receiver.
  const takenTwice = receiver.received.slice(before).filter(({ json }) => answered.has(json.id));
  assert.ok(takenTwice.length <= 2 * 4, `${takenTwice.length} were taken and repeated`);
  const { total } = (await owner.get(`${PATH}/${made.body.alert.id}/deliveries?status=delivered`)).body;
  assert.equal(total, issued.length);

  // And all nodes gone right after the commit: the next one to start finds it.
  await third.kill();
  receiver.received.length = 0;
  const orphan = await store.issue(wish);
  await database.write((tx) => tx.rows({ name: undefined, isSlow: false, text: "DELETE FROM outbox" }), {
    audited: false,
  });
  await start();
  await until(async () => told().has(orphan), PATIENCE_MS);
});
