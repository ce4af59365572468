import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { forgetVersions } from "./retention.store.ts";
import { sized } from "../../test/full-size.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const query = async (text: string, values: unknown[]) => {
  const client = await house.house.database.connect();
  const { rows } = await client.query(text, values);
  await client.end();
  return rows as Record<string, unknown>[];
};
const at = (projectId: string, more: Record<string, unknown> = {}) => ({
  projectId,
  environment: "dev",
  secretPath: "/",
  ...more,
});
const limitTo = async (projectId: string, pitVersionLimit: number | null) => {
  const answer = await house.owner.patch(`/api/v1/projects/${projectId}`, { pitVersionLimit });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  assert.equal(answer.body.project.pitVersionLimit, pitVersionLimit);
};
const sweep = () => house.house.secrets.forgetting.job.run();
interface Version {
  readonly version: number;
  readonly secretValue: string;
}
const versionsOf = async (id: string): Promise<Version[]> =>
  (await house.owner.get(`/api/v4/secrets/id/${id}/versions?limit=100`)).body.versions;
const numbersOf = async (id: string) => (await versionsOf(id)).map(({ version }) => version);
const change = async (projectId: string, key: string, values: readonly string[]) => {
  for (const secretValue of values) {
    await house.owner.patch(`/api/v4/secrets/${key}`, at(projectId, { secretValue }));
    house.clock.advance(1000);
  }
};
const make = async (projectId: string, key: string): Promise<string> => {
  const made = await house.owner.post(`/api/v4/secrets/${key}`, at(projectId, { secretValue: "0" }));
  house.clock.advance(1000);
  return made.body.secret.id;
};

test("a project keeps every version until it says how many; then the newest ones stay, whatever their number", async () => {
  const { id: projectId } = await aProject(house.owner);
  assert.equal((await house.owner.get(`/api/v1/projects/${projectId}`)).body.project.pitVersionLimit, null);
  const id = await make(projectId, "A");
  await change(
    projectId,
    "A",
    Array.from({ length: 14 }, (_, n) => String(n)),
  );
  assert.ok((await house.house.jobs.runDue()).includes("secrets.version-sweep"));
  assert.equal((await numbersOf(id)).length, 15);

  await limitTo(projectId, 3);
  await sweep();
  assert.deepEqual(await numbersOf(id), [15, 14, 13]);
  await limitTo(projectId, 1);
  await sweep();
  assert.deepEqual(await numbersOf(id), [15]);
  await change(projectId, "A", ["x", "y"]);
  assert.deepEqual(await numbersOf(id), [17, 16, 15], "nothing is forgotten while somebody writes");
  await limitTo(projectId, null);
  await sweep();
  assert.deepEqual(await numbersOf(id), [17, 16, 15]);
  const read = await house.owner.get(`/api/v4/secrets/A?projectId=${projectId}&environment=dev`);
  assert.equal(read.body.secret.secretValue, "y");
  for (const pitVersionLimit of [0, -1, 101, 1.5, "3"])
    assert.equal(
      (await house.owner.patch(`/api/v1/projects/${projectId}`, { pitVersionLimit })).status,
      422,
      String(pitVersionLimit),
    );
});

test("what is no longer kept is not there, and a rollback beyond it says from when on it could go", async () => {
  const { id: projectId } = await aProject(house.owner);
  const id = await make(projectId, "A");
  const early = house.clock.now().toISOString();
  await change(projectId, "A", ["1", "2", "3"]);
  const asked = `/api/v4/secrets/A?projectId=${projectId}&environment=dev&version=1`;
  const before = await house.owner.get(asked);
  const held = { headers: { "if-none-match": before.headers.get("etag") ?? "" } };
  assert.equal((await house.owner.get(asked, held)).status, 304);
  await limitTo(projectId, 2);
  await sweep();
  assert.equal((await house.owner.get(asked, held)).status, 404, "the tag changed with the answer");
  const single = await house.owner.post(`/api/v4/secrets/id/${id}/rollback`, { version: 1 });
  assert.equal(single.status, 404);
  assert.match(single.body.message, /no longer kept/);

  const rollback = (moment: string, dryRun: boolean) =>
    house.owner.post(`/api/v1/projects/${projectId}/secrets/rollback`, {
      environment: "dev",
      at: moment,
      dryRun,
    });
  for (const dryRun of [true, false]) {
    const refused = await rollback(early, dryRun);
    assert.equal(refused.status, 400);
    assert.match(refused.body.message, /beyond the history that this project keeps \(pitVersionLimit\)/);
    const from = /from (\S+) on/.exec(refused.body.message)?.[1] ?? "";
    assert.equal((await rollback(from, true)).status, 200);
    assert.equal((await rollback(new Date(Date.parse(from) - 1).toISOString(), true)).status, 400);
  }
  assert.deepEqual(await numbersOf(id), [4, 3]);
});

test("a deleted secret keeps its end, and comes back from what is kept under its old id", async () => {
  const { id: projectId } = await aProject(house.owner);
  const id = await make(projectId, "A");
  await change(projectId, "A", ["1", "2"]);
  await house.owner.delete("/api/v4/secrets/A", at(projectId));
  await limitTo(projectId, 2);
  await sweep();
  assert.deepEqual(await numbersOf(id), [4, 3]);
  const back = await house.owner.post(`/api/v4/secrets/id/${id}/rollback`, { version: 3 });
  assert.deepEqual(
    [back.body.secret.secretValue, back.body.secret.version, back.body.secret.id],
    ["2", 5, id],
  );
});

test("thousands of versions are deleted in chunks, and after each chunk the rest has no gap", async () => {
  const { id: projectId } = await aProject(house.owner);
  const ids = [await make(projectId, "A"), await make(projectId, "B")];
  await query(
    `INSERT INTO secret_versions (secret_id, version, project_id, folder_id, key, change, key_id, value, tag_ids, actor_type, actor_name, created_at)
     SELECT v.secret_id, n, v.project_id, v.folder_id, v.key, 'update', v.key_id, v.value, '{}', 'identity', 'x', v.created_at + n * interval '1 millisecond'
     FROM secret_versions v, generate_series(2, 2600) n WHERE v.project_id = $1`,
    [projectId],
  );
  await query("UPDATE secrets SET version = 2600 WHERE project_id = $1", [projectId]);
  const spans = () =>
    query(
      `SELECT min(version) AS low, max(version) AS high, max(version) - min(version) + 1 - count(*) AS missing
       FROM secret_versions WHERE project_id = $1 GROUP BY secret_id ORDER BY secret_id`,
      [projectId],
    );
  const upTo = new Map(ids.map((id) => [id, 5]));
  for (const expected of [3, 3, 3, 1, 0]) {
    const gone = await house.house.database.write((tx) => forgetVersions(tx, projectId, upTo, 3), {
      audited: false,
    });
    assert.equal(gone, expected);
    for (const span of await spans()) assert.equal(Number(span["missing"]), 0);
  }
  await limitTo(projectId, 7);
  await sweep();
  assert.deepEqual(await spans(), [
    { low: 2594, high: 2600, missing: 0 },
    { low: 2594, high: 2600, missing: 0 },
  ]);
});

interface Step {
  readonly kind: "put" | "remove" | "rename" | "move" | "sweep";
  readonly key: string;
  readonly other: string;
}
const KEYS = ["A", "B", "C"];
const steps = fc.array(
  fc.record({
    kind: fc.constantFrom("put", "put", "put", "remove", "rename", "move", "sweep"),
    key: fc.constantFrom(...KEYS),
    other: fc.constantFrom(...KEYS),
  }),
  { minLength: 6, maxLength: 14 },
) as fc.Arbitrary<Step[]>;

async function perform(projectId: string, { kind, key, other }: Step, value: string): Promise<void> {
  const secretPath = key === "C" ? "/f" : "/";
  const here = at(projectId, { secretPath });
  if (kind === "put") {
    const made = await house.owner.post(`/api/v4/secrets/${key}`, { ...here, secretValue: value });
    if (made.status === 400)
      await house.owner.patch(`/api/v4/secrets/${key}`, { ...here, secretValue: value });
  } else if (kind === "remove") await house.owner.delete(`/api/v4/secrets/${key}`, here);
  else if (kind === "rename")
    await house.owner.patch(`/api/v4/secrets/${key}`, { ...here, newSecretName: other });
  else if (kind === "move") {
    const found = await house.owner.get(
      `/api/v4/secrets/${key}?projectId=${projectId}&environment=dev&secretPath=${secretPath}`,
    );
    if (found.status === 200)
      await house.owner.post("/api/v4/secrets/move", {
        projectId,
        sourceEnvironment: "dev",
        sourceSecretPath: secretPath,
        destinationEnvironment: "dev",
        destinationSecretPath: secretPath === "/" ? "/f" : "/",
        secretIds: [found.body.secret.id],
      });
  }
}

const snapshot = async (projectId: string): Promise<string[]> =>
  (
    await house.owner.get(
      `/api/v4/secrets?projectId=${projectId}&environment=dev&recursive=true&expandSecretReferences=false`,
    )
  ).body.secrets
    .map(
      (s: { secretPath: string; secretKey: string; secretValue: string; version: number }) =>
        `${s.secretPath} ${s.secretKey}=${s.secretValue} ${s.version}`,
    )
    .sort();

/** All histories of a project, told without ids: two projects that lived through the same have the same. */
const histories = async (projectId: string): Promise<{ line: string; until: Date | null; at: Date }[][]> => {
  const rows = await query(
    `SELECT v.secret_id, v.version, v.key, v.change, v.created_at, h.path,
       lead(v.created_at) OVER (PARTITION BY v.secret_id ORDER BY v.version) AS until
     FROM secret_versions v JOIN folder_history h ON h.folder_id = v.folder_id
     WHERE v.project_id = $1 ORDER BY v.secret_id, v.version`,
    [projectId],
  );
  const all = new Map<string, { line: string; until: Date | null; at: Date }[]>();
  for (const row of rows) {
    const id = row["secret_id"] as string;
    const line = `${row["version"] as number} ${row["change"] as string} ${row["path"] as string} ${row["key"] as string}`;
    all.set(id, [
      ...(all.get(id) ?? []),
      { line, until: row["until"] as Date | null, at: row["created_at"] as Date },
    ]);
  }
  return [...all.values()];
};

test("a project with a limit is like its twin without one: the same newest versions, and every rollback is the same or refused for a reason", async () => {
  await fc.assert(
    fc.asyncProperty(steps, fc.integer({ min: 1, max: 3 }), fc.nat(), async (list, limit, pick) => {
      const [{ id: limited }, { id: twin }] = [await aProject(house.owner), await aProject(house.owner)];
      for (const projectId of [limited, twin])
        await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name: "f" });
      await limitTo(limited, limit);
      const moments: string[] = [];
      for (const [n, step] of list.entries()) {
        if (step.kind === "sweep") await sweep();
        else for (const projectId of [limited, twin]) await perform(projectId, step, String(n));
        moments.push(house.clock.now().toISOString());
        house.clock.advance(1000);
      }
      await sweep();

      const whole = await histories(twin);
      const lines = (all: Awaited<ReturnType<typeof histories>>) =>
        all.map((one) => one.map(({ line }) => line).join("\n")).sort();
      assert.deepEqual(lines(await histories(limited)), lines(whole.map((one) => one.slice(-limit))));
      assert.deepEqual(await snapshot(limited), await snapshot(twin));

      const moment = moments[pick % moments.length] ?? "";
      const rollback = (projectId: string) =>
        house.owner.post(`/api/v1/projects/${projectId}/secrets/rollback`, {
          environment: "dev",
          recursive: true,
          at: moment,
        });
      const isLost = whole.some((one) =>
        one.slice(0, -limit).some(({ until }) => until !== null && until > new Date(moment)),
      );
      const answer = await rollback(limited);
      assert.equal(answer.status, isLost ? 400 : 200, JSON.stringify(answer.body));
      if (isLost) return;
      await rollback(twin);
      assert.deepEqual(await snapshot(limited), await snapshot(twin));
    }),
    { numRuns: sized(5, 20) },
  );
});
