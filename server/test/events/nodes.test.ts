/** Nodes as they are run: processes of their own on one PostgreSQL, one of which dies without a word. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { aProject, anIdentity } from "../builders.ts";
import { openStream, refusal, until, type StreamReader } from "../event-streams.ts";
import { clientOf, OWNER, type Client } from "../harness.ts";
import { createTestDatabase, stopOwnPostgres, withClient, type TestDatabase } from "../postgres.ts";
import { startServer, type ServerProcess } from "../process.ts";

describe("three nodes, one of them killed", () => {
  let database: TestDatabase;
  let nodes: ServerProcess[];
  let client: Client;
  let token: string;
  let project: { id: string };
  const readers: StreamReader[] = [];

  const open = async (node: ServerProcess, bearer = token): Promise<StreamReader> => {
    const reader = await openStream(node.base, bearer, { projectId: project.id });
    assert.equal(reader.status, 200);
    readers.push(reader);
    return reader;
  };

  before(async () => {
    database = await createTestDatabase();
    const { host, port, user } = database.server;
    const env = {
      DATABASE_URL: `postgres://${user}@${host.startsWith("/") ? "localhost" : host}:${port}/${database.connection.database}${host.startsWith("/") ? `?host=${encodeURIComponent(host)}` : ""}`,
      KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
      KEYWARD_STREAMS_PER_IDENTITY: "6",
    };
    const first = await startServer(env);
    nodes = [first, ...(await Promise.all([startServer(env), startServer(env)]))];
    const booted = await clientOf(first.base).post("/api/v1/admin/bootstrap", {
      ...OWNER,
      organization: "Owner",
    });
    token = booted.body.identity.credentials.token;
    client = clientOf(first.base, token);
    project = await aProject(client);
  });
  after(async () => {
    for (const reader of readers) reader.close();
    for (const node of nodes)
      if (node.child.exitCode === null && node.child.signalCode === null) await node.stop();
    await database.drop();
    await stopOwnPostgres();
  });

  const createSecret = (at: Client, name: string) =>
    at.post(`/api/v4/secrets/${name}`, {
      projectId: project.id,
      environment: "dev",
      secretPath: "/",
      secretValue: "a value that no event may show",
    });

  it("E-08 a change whose node is killed right after COMMIT is heard by every stream on the others, once", async () => {
    const [doomed, second, third] = nodes as [ServerProcess, ServerProcess, ServerProcess];
    const [near, far, farther] = [await open(doomed), await open(second), await open(third)];
    const warm = await createSecret(client, "WARM");
    assert.equal(warm.status, 200, JSON.stringify(warm.body));
    await Promise.all([near, far, farther].map((reader) => reader.hears(1)));

    // The commit is made without a notification, as by a node that dies between COMMIT and NOTIFY.
    const data = JSON.stringify({
      orgId: "x",
      projectId: project.id,
      environment: "dev",
      path: "/",
      change: "update",
      keys: ["MUTE"],
    });
    await withClient(database.server, database.connection.database, (db) =>
      db.query("INSERT INTO outbox (name, data) VALUES ('secrets.changed', $1)", [data]),
    );
    const asked = createSecret(client, "LAST_WORDS").catch(() => undefined);
    await asked;
    await doomed.kill();
    for (const reader of [far, farther]) await reader.hears(3);
    const rest = clientOf(second.base, token);
    assert.equal((await createSecret(rest, "AFTER")).status, 200);
    for (const reader of [far, farther]) {
      await reader.hears(4);
      assert.deepEqual(reader.told, [
        "secret:create dev / WARM",
        "secret:update dev / MUTE",
        "secret:create dev / LAST_WORDS",
        "secret:create dev / AFTER",
      ]);
      assert.equal(reader.isEnded, false);
    }
    await until(() => near.isEnded, "the killed node's stream to end");
    for (const reader of readers) assert.doesNotMatch(reader.raw, /a value that no event may show/);
  });

  it("E-13 what an event tells of can be read at once, on any node", async () => {
    const [, second, third] = nodes as [ServerProcess, ServerProcess, ServerProcess];
    const reader = await open(third);
    for (let n = 0; n < 20; n += 1) {
      const heard = reader.events.length;
      await createSecret(clientOf(second.base, token), `READ_${n}`);
      await until(() => reader.events.length > heard, "the event");
      const read = await clientOf(third.base, token).get(
        `/api/v4/secrets/READ_${n}?projectId=${project.id}&environment=dev&secretPath=/`,
      );
      assert.equal(read.status, 200, JSON.stringify(read.body));
    }
    reader.close();
  });

  it("E-12 the places of a killed node's streams are free again within seconds", async () => {
    const [, second, third] = nodes as [ServerProcess, ServerProcess, ServerProcess];
    const identity = await anIdentity(clientOf(second.base, token), second.base, project.id, {
      roles: [{ role: "viewer" }],
    });
    for (let n = 0; n < 3; n += 1) await open(third, identity.token);
    for (let n = 0; n < 3; n += 1) await open(second, identity.token);
    assert.equal((await refusal(second.base, identity.token, { projectId: project.id })).status, 429);
    await third.kill();
    let reader: StreamReader | undefined;
    const deadline = Date.now() + 120_000;
    while (!reader) {
      const attempt = await openStream(second.base, identity.token, { projectId: project.id });
      if (attempt.status === 200) reader = attempt;
      else assert.ok(Date.now() < deadline, "the places were never freed");
      if (!reader) await new Promise((resolve) => setTimeout(resolve, 200));
    }
    reader.close();
  });

  it("a node that is asked to stop ends its streams with an error event and stops", async () => {
    const second = nodes[1] as ServerProcess;
    const reader = await open(second);
    assert.equal(await second.stop(), 0);
    await until(() => reader.isEnded, "the end");
    assert.match(reader.error ?? "no error event", /stopping/);
  });
});
