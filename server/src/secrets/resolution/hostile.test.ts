/** Hostile projects: many imports, many unknown names, deleted sources. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject } from "../../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";
import { withClient } from "../../../test/postgres.ts";
import { ALLOWANCE, Expander, findEffective, type SecretLookup } from "./model.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const run = (text: string, values: unknown[]) =>
  withClient(house.database.server, house.database.connection.database, (client) =>
    client.query(text, values),
  );
const list = (projectId: string, more = "") =>
  house.owner.get(`/api/v4/secrets?projectId=${projectId}&environment=dev${more}`);

/** So many folders below the root, each importing (or imported by) the root. */
async function manyFolders(
  projectId: string,
  count: number,
  direction: "root-imports" | "imports",
): Promise<void> {
  await run(
    `WITH home AS (SELECT id, environment_id FROM folders f WHERE project_id = $1 AND path = '/'
       AND environment_id = (SELECT id FROM environments WHERE project_id = $1 AND slug = 'dev'))
     INSERT INTO folders (id, project_id, environment_id, parent_id, name, path, created_at, updated_at)
     SELECT gen_random_uuid(), $1, home.environment_id, home.id, 'f' || n, '/f' || n, now(), now() FROM home, generate_series(1, $2) AS n`,
    [projectId, count],
  );
  const [from, to] = direction === "imports" ? ["f", "home"] : ["home", "f"];
  await run(
    `INSERT INTO secret_imports (id, project_id, folder_id, source_project_id, source_environment_id, source_path, position, created_at, updated_at)
     SELECT gen_random_uuid(), $1, ${from}.id, $1, ${to}.environment_id, ${to}.path, row_number() OVER (), now(), now()
     FROM folders f JOIN folders home ON home.id = f.parent_id WHERE f.project_id = $1`,
    [projectId],
  );
}

test("unknown names are searched for through many imports, and stay as they are written", async () => {
  const { id: projectId } = await aProject(house.owner);
  await manyFolders(projectId, 50, "root-imports");
  const secretValue = Array.from({ length: 1000 }, (_, n) => `\${NONE_${n}}`).join("");
  const at = { projectId, environment: "dev" };
  assert.equal((await house.owner.post("/api/v4/secrets/S", { ...at, secretValue })).status, 200);
  await house.owner.post("/api/v4/secrets/FOUND", { ...at, secretPath: "/f50", secretValue: "far away" });
  await house.owner.post("/api/v4/secrets/T", { ...at, secretValue: "${FOUND}${NONE_1}" });
  const answer = await list(projectId, "&includeImports=false");
  assert.deepEqual(
    answer.body.secrets.map((one: { secretValue: string }) => one.secretValue),
    [secretValue, "far away${NONE_1}"],
  );
});

test("a walk through imports ends when it has looked into enough folders", () => {
  let looks = 0;
  const world: SecretLookup = {
    environmentId: () => "e",
    own: () => {
      looks += 1;
      return "absent";
    },
    imports: ({ path }) =>
      path === "/"
        ? Array.from({ length: 5000 }, (_, n) => ({ projectId: "p", environmentId: "e", path: `/${n}` }))
        : [],
  };
  const home = { projectId: "p", environmentId: "e", path: "/" };
  assert.equal(findEffective(world, home, "A"), "absent");
  looks = 0;
  const value = Array.from({ length: 1000 }, (_, n) => `\${N${n}}`).join("");
  assert.equal(new Expander(world).expand({ id: "s", key: "S", spot: home, value }), value);
  assert.equal(looks, ALLOWANCE.looks);
});

test(
  "a secret that many folders import is counted as often as it is answered",
  { timeout: 600_000 },
  async () => {
    const { id: projectId } = await aProject(house.owner);
    const at = { projectId, environment: "dev" };
    for (let n = 0; n < 4; n += 1)
      assert.equal(
        (await house.owner.post(`/api/v4/secrets/S${n}`, { ...at, secretValue: "x".repeat(500_000) })).status,
        200,
      );
    await manyFolders(projectId, 60, "imports");
    const one = await list(projectId, "&secretPath=/f1");
    assert.equal(one.status, 200);
    assert.equal(one.body.imports[0].secrets.length, 4);
    assert.equal((await list(projectId, "&recursive=true")).status, 400);
    assert.equal((await list(projectId, "&recursive=true&includeImports=false")).status, 200);
    assert.equal((await list(projectId, "&recursive=true&viewSecretValue=false")).status, 200);
  },
);

test("what cannot be the name of a secret is text between braces", async () => {
  const { id: projectId } = await aProject(house.owner);
  const odd = Array.from({ length: 1000 }, (_, n) =>
    String.fromCodePoint(0x4e00 + ((n * 7919) % 20000)),
  ).join("");
  for (const [key, secretValue] of [
    ["A", `\${${odd}}`],
    ["B", `\${${odd}.KEY}`],
    ["C", `\${dev.${odd}}`],
  ] as const) {
    const made = await house.owner.post(`/api/v4/secrets/${key}`, {
      projectId,
      environment: "dev",
      secretValue,
    });
    assert.equal(made.status, 200, JSON.stringify(made.body));
  }
  const taken = await house.owner.post(`/api/v1/projects/${projectId}/secrets/import`, {
    environment: "dev",
    format: "json",
    content: JSON.stringify({ D: "${a\u0007}" }),
  });
  assert.equal(taken.status, 200, JSON.stringify(taken.body));
});

test("a source project that is deleted when its secrets are searched brings nothing, and fails nothing", async () => {
  const [{ id: projectId }, { id: source }] = [await aProject(house.owner), await aProject(house.owner)];
  await house.owner.post("/api/v4/secrets/OWN", {
    projectId,
    environment: "dev",
    secretValue: "own${THEIRS}",
  });
  await house.owner.post("/api/v4/secrets/THEIRS", {
    projectId: source,
    environment: "dev",
    secretValue: "theirs",
  });
  const made = await house.owner.post("/api/v2/secret-imports", {
    projectId,
    environment: "dev",
    import: { sourceProjectId: source, environment: "dev", path: "/" },
  });
  assert.equal(made.status, 200);
  assert.equal((await list(projectId)).body.secrets[0].secretValue, "owntheirs");
  // As it looks to a reader between two statements: the import was read, the project can no longer be found.
  const other = await house.newTenant();
  await run("UPDATE projects SET org_id = $2 WHERE id = $1", [source, other.orgId]);
  const node = await house.openNode();
  const answer = await fetch(`${node.base}/api/v4/secrets?projectId=${projectId}&environment=dev`, {
    headers: { authorization: `Bearer ${house.owner.token}` },
  });
  const body = (await answer.json()) as { secrets: { secretValue: string }[] };
  assert.equal(answer.status, 200, JSON.stringify(body));
  assert.equal(body.secrets[0]?.secretValue, "own${THEIRS}");
});
