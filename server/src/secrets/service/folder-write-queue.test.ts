import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import pg from "pg";
import { aProject } from "../../../test/builders.ts";
import { openStream } from "../../../test/event-streams.ts";
import { openTestHouse, type Answer, type TestHouse } from "../../../test/harness.ts";
import { exported, taken } from "../../../test/project-files.ts";
import { sized } from "../../../test/full-size.ts";

let house: TestHouse;
let other: Awaited<ReturnType<TestHouse["openNode"]>>;
let database: pg.Client;
const look = async <Row>(text: string, projectId: string): Promise<Row[]> =>
  (await database.query(text, [projectId])).rows as Row[];
before(async () => {
  house = await openTestHouse();
  database = new pg.Client(house.database.connection);
  await database.connect();
  other = await house.openNode();
});
after(async () => {
  await database.end();
  await other.close();
  await house.close();
});

interface VersionRow {
  readonly secret_id: string;
  readonly version: number;
  readonly key: string;
  readonly change: string;
}
const versionsOf = (projectId: string) =>
  look<VersionRow>(
    "SELECT secret_id, version, key, change FROM secret_versions WHERE project_id = $1 ORDER BY secret_id, version",
    projectId,
  );
const rowsOf = (projectId: string) =>
  look<{ id: string; key: string; version: number }>(
    "SELECT id, key, version FROM secrets WHERE project_id = $1 ORDER BY key",
    projectId,
  );
const auditedOf = async (projectId: string) =>
  (
    await look(
      "SELECT id FROM audit_log WHERE project_id = $1 AND event IN ('create-secret', 'update-secret', 'delete-secret')",
      projectId,
    )
  ).length;

const body = (projectId: string, more: Record<string, unknown> = {}) => ({
  projectId,
  environment: "dev",
  secretPath: "/",
  ...more,
});

test("many updates of one secret at once all happen, each as a version of its own, and each writer is shown its own", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v4/secrets/HOT", body(projectId, { secretValue: "v1" }));
  const clients = [house.owner, house.as(house.owner.token)];
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, n) =>
      (clients[n % 2] as TestHouse["owner"]).patch(
        "/api/v4/secrets/HOT",
        body(projectId, { secretValue: `value ${n}` }),
      ),
    ),
  );
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  const versions = answers.map((answer) => Number(answer.body.secret.version)).toSorted((a, b) => a - b);
  assert.deepEqual(
    versions,
    Array.from({ length: 40 }, (_, n) => n + 2),
  );
  for (const [n, answer] of answers.entries()) assert.equal(answer.body.secret.secretValue, `value ${n}`);
  const last = answers.find((answer) => answer.body.secret.version === 41) as Answer;
  const now = await house.owner.get(
    `/api/v4/secrets/HOT?projectId=${projectId}&environment=dev&secretPath=/`,
  );
  assert.deepEqual(
    [now.body.secret.version, now.body.secret.secretValue],
    [41, last.body.secret.secretValue],
  );
});

test("each of many concurrent writers is announced, whichever of them shared a transaction", async () => {
  const { id: projectId } = await aProject(house.owner);
  const near = await openStream(house.base, house.owner.token, { projectId });
  const far = await openStream(other.base, house.owner.token, { projectId });
  assert.deepEqual([near.status, far.status], [200, 200]);
  const keys = Array.from({ length: 30 }, (_, n) => `KEY_${String(n).padStart(2, "0")}`);
  const answers = await Promise.all(
    keys.map((name) =>
      house.owner.post(`/api/v4/secrets/${name}`, body(projectId, { secretValue: "value" })),
    ),
  );
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  const [{ writes } = { writes: 0 }] = await look<{ writes: number }>(
    "SELECT count(DISTINCT xmin::text)::int AS writes FROM secret_versions WHERE project_id = $1",
    projectId,
  );
  assert.ok(writes < keys.length, "some of them shared one");
  for (const reader of [near, far]) {
    await reader.hears(keys.length);
    assert.deepEqual(
      reader.told.toSorted(),
      keys.map((name) => `secret:create dev / ${name}`),
    );
    reader.close();
  }
});

test("of many who create the same name at once, also on two nodes, one succeeds", async () => {
  const { id: projectId } = await aProject(house.owner);
  const nodes = [house.base, other.base];
  const statuses = await Promise.all(
    Array.from({ length: 20 }, async (_, n) => {
      const response = await fetch(`${nodes[n % 2]}/api/v4/secrets/ONCE`, {
        method: "POST",
        headers: { authorization: `Bearer ${house.owner.token}`, "content-type": "application/json" },
        body: JSON.stringify(body(projectId, { secretValue: String(n) })),
      });
      return response.status;
    }),
  );
  assert.equal(statuses.filter((status) => status === 200).length, 1);
  assert.equal(statuses.filter((status) => status === 400).length, 19);
  assert.equal((await versionsOf(projectId)).length, 1);
});

test("whoever upserts a name that somebody else makes in the same moment changes it instead of being refused", async () => {
  const { id: projectId } = await aProject(house.owner);
  const rounds = Array.from({ length: 12 }, (_, round) => round);
  for (const round of rounds) {
    const answers = await Promise.all(
      Array.from({ length: 5 }, (_, n) =>
        house.owner.patch(
          "/api/v4/secrets/batch",
          body(projectId, {
            mode: "upsert",
            secrets: [
              { secretKey: `OWN_${round}_${n}`, secretValue: "x" },
              { secretKey: `SHARED_${round}`, secretValue: `of ${n}` },
            ],
          }),
        ),
      ),
    );
    assert.deepEqual(
      answers.map(({ status, body: { message } }) => [status, message as unknown]),
      answers.map(() => [200, undefined]),
    );
  }
  assert.equal(
    (await rowsOf(projectId)).filter(({ key, version }) => /^SHARED/.test(key) && version === 5).length,
    rounds.length,
  );
});

test("a batch that gives two secrets one name is refused with that name", async () => {
  const { id: projectId } = await aProject(house.owner);
  for (const key of ["A", "B"])
    await house.owner.post(`/api/v4/secrets/${key}`, body(projectId, { secretValue: "x" }));
  const answer = await house.owner.patch(
    "/api/v4/secrets/batch",
    body(projectId, { secrets: ["A", "B"].map((secretKey) => ({ secretKey, newSecretName: "X" })) }),
  );
  assert.equal(answer.status, 400);
  assert.match(answer.body.message, /"X"/);
});

test("a refused request does not delay or undo the others", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v4/secrets/THERE", body(projectId, { secretValue: "x" }));
  const answers = await Promise.all([
    house.owner.post("/api/v4/secrets/NEW_1", body(projectId, { secretValue: "1" })),
    house.owner.post("/api/v4/secrets/THERE", body(projectId, { secretValue: "2" })),
    house.owner.patch("/api/v4/secrets/MISSING", body(projectId, { secretValue: "3" })),
    house.owner.post("/api/v4/secrets/NEW_2", body(projectId, { secretValue: "4" })),
    house.owner.delete("/api/v4/secrets/MISSING", body(projectId)),
    house.owner.patch("/api/v4/secrets/THERE", body(projectId, { secretValue: "5" })),
  ]);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 400, 404, 200, 404, 200],
  );
  assert.deepEqual(
    (await rowsOf(projectId)).map(({ key, version }) => `${key}@${version}`),
    ["NEW_1@1", "NEW_2@1", "THERE@2"],
  );
});

type Step =
  | { readonly kind: "create" | "update" | "delete"; readonly key: string }
  | { readonly kind: "rename"; readonly key: string; readonly to: string };

const KEYS = ["A", "B", "C"];
const key = fc.constantFrom(...KEYS);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constantFrom("create", "update", "delete"), key }),
  fc.record({ kind: fc.constant("rename" as const), key, to: key }),
);

const take = (projectId: string, { kind, ...step }: Step, n: number): Promise<Answer> => {
  const path = `/api/v4/secrets/${step.key}`;
  if (kind === "create") return house.owner.post(path, body(projectId, { secretValue: `new ${n}` }));
  if (kind === "update") return house.owner.patch(path, body(projectId, { secretValue: `changed ${n}` }));
  if (kind === "delete") return house.owner.delete(path, body(projectId));
  return house.owner.patch(path, body(projectId, { newSecretName: (step as { to: string }).to }));
};

test("whatever many writers of a folder do at once is what some order of theirs would have done", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 16 }), async (steps) => {
      const { id: projectId } = await aProject(house.owner);
      const answers = await Promise.all(steps.map((one, n) => take(projectId, one, n)));
      for (const { status, body: answer } of answers)
        assert.ok([200, 400, 404].includes(status), JSON.stringify(answer));
      const done = answers.filter(({ status }) => status === 200).length;
      const history = await versionsOf(projectId);
      // Each success is one version (a rename to its own name too) and one audit row; nobody else left a trace.
      assert.equal(history.length, done);
      assert.equal(await auditedOf(projectId), done);
      const table = await rowsOf(projectId);
      const ids = [...new Set(history.map((row) => row.secret_id))];
      for (const id of ids) {
        const own = history.filter((row) => row.secret_id === id);
        assert.deepEqual(
          own.map((row) => row.version),
          own.map((_, n) => n + 1),
          "versions without gaps",
        );
        assert.equal(own[0]?.change, "create");
        assert.ok(own.slice(1, -1).every((row) => row.change === "update"));
        const last = own.at(-1) as VersionRow;
        const kept = table.find((row) => row.id === id);
        if (last.change === "delete") assert.equal(kept, undefined);
        else assert.deepEqual(kept, { id, key: last.key, version: last.version });
      }
      assert.equal(
        table.length,
        ids.filter((id) => history.findLast((r) => r.secret_id === id)?.change !== "delete").length,
      );
      assert.equal(new Set(table.map((row) => row.key)).size, table.length, "no name twice");
    }),
    { numRuns: sized(10, 40) },
  );
});

type Place = { readonly projectId: string; readonly sourceId: string; readonly keptId: string };
const INTO_FOLDER: readonly [what: string, write: (place: Place) => Promise<Answer>][] = [
  [
    "creating",
    ({ projectId }) =>
      house.owner.post("/api/v4/secrets/LATE", body(projectId, { secretPath: "/a", secretValue: "x" })),
  ],
  [
    "changing",
    ({ projectId }) =>
      house.owner.patch("/api/v4/secrets/KEPT", body(projectId, { secretPath: "/a", secretValue: "x" })),
  ],
  ...(["move", "copy"] as const).map((verb): (typeof INTO_FOLDER)[number] => [
    `${verb} to`,
    ({ projectId, sourceId }) =>
      house.owner.post(`/api/v4/secrets/${verb}`, {
        projectId,
        sourceEnvironment: "dev",
        destinationEnvironment: "dev",
        destinationSecretPath: "/a",
        secretIds: [sourceId],
      }),
  ]),
  ["going back", ({ keptId }) => house.owner.post(`/api/v4/secrets/id/${keptId}/rollback`, { version: 1 })],
  [
    "bringing a file",
    ({ projectId }) =>
      house.owner.post(`/api/v1/projects/${projectId}/secrets/import`, {
        environment: "dev",
        secretPath: "/a",
        format: "dotenv",
        content: "LATE=x",
      }),
  ],
  [
    "bringing a project with its history",
    async ({ projectId }) => {
      const { id } = await aProject(house.owner);
      await house.owner.post("/api/v2/folders", { projectId: id, environment: "dev", name: "a" });
      for (const write of [house.owner.post, house.owner.patch])
        await write("/api/v4/secrets/LATE", body(id, { secretPath: "/a", secretValue: "x" }));
      const file = await exported(house.base, house.owner, id, { includeHistory: true });
      return taken(house.owner, projectId, file);
    },
  ],
];

for (const [what, write] of INTO_FOLDER)
  test(`a folder that is being moved away is not written into: ${what}`, async () => {
    const { id: projectId } = await aProject(house.owner);
    const at = { projectId, environment: "dev" };
    const { folder } = (await house.owner.post("/api/v2/folders", { ...at, name: "a" })).body;
    const inFolder = body(projectId, { secretPath: "/a", secretValue: "1" });
    const kept = await house.owner.post("/api/v4/secrets/KEPT", inFolder);
    await house.owner.patch("/api/v4/secrets/KEPT", { ...inFolder, secretValue: "2" });
    const source = await house.owner.post("/api/v4/secrets/SOURCE", body(projectId, { secretValue: "1" }));
    const before = await rowsOf(projectId);
    const mover = new pg.Client(house.database.connection);
    await mover.connect();
    try {
      // As a move does it: an exclusive lock on the tree first, then the paths.
      await mover.query("BEGIN");
      await mover.query("SELECT pg_advisory_xact_lock(project_lock_key($1))", [projectId]);
      let isAnswered = false;
      const coming = write({
        projectId,
        sourceId: source.body.secret.id,
        keptId: kept.body.secret.id,
      }).finally(() => (isAnswered = true));
      const waiting =
        "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
      while (!isAnswered && (await database.query(waiting)).rowCount === 0)
        await new Promise((resolve) => setTimeout(resolve, 5));
      assert.equal(isAnswered, false, "nobody writes while the tree is changed");
      await mover.query("UPDATE folders SET path = '/b', name = 'b' WHERE id = $1", [folder.id]);
      await mover.query("COMMIT");
      const { status, body: answer } = await coming;
      assert.equal(status, 404, JSON.stringify(answer));
      assert.deepEqual(await rowsOf(projectId), before);
    } finally {
      await mover.end();
    }
  });
