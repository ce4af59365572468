/** An import is refused before it starts if quotas have no room for all of it; and few files are open at once. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { aProject, until } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { passphrase, taken } from "../../test/project-files.ts";
import type { NewArchive } from "./archive/contract.ts";
import { sealArchive } from "./service/seal-archive.ts";
import { fullOnly } from "../../test/full-size.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const fill = (text: string, values: unknown[]) =>
  withClient(house.database.server, house.database.connection.database, (client) =>
    client.query(text, values),
  );
const fileOf = (more: Partial<NewArchive>): Promise<Buffer> =>
  sealArchive(
    {
      project: { name: "p", slug: "p" },
      environments: [{ slug: "dev", name: "Development" }],
      tags: [],
      folders: [],
      secrets: [],
      imports: [],
      roles: [],
      ...more,
    },
    passphrase,
  );
const two = ["one-more", "two-more"];
const importFrom = (sourcePath: string) => ({
  environment: "dev",
  path: "/",
  sourceProject: null,
  sourceEnvironment: "prod",
  sourcePath,
  isReplication: false,
});

/** Each leaves room for one more. */
const STAGES: Record<string, { fill: string; bound: RegExp; file: Partial<NewArchive> }> = {
  environments: {
    fill: `INSERT INTO environments (id, project_id, name, slug, position, created_at, updated_at)
      SELECT gen_random_uuid(), $1, 'e', 'e' || n, n, now(), now() FROM generate_series(1000, 1995) n`,
    bound: /at most 1,000 environments/,
    file: { environments: two.map((slug) => ({ slug, name: slug })) },
  },
  tags: {
    fill: `INSERT INTO tags (id, project_id, slug, name, color, created_at, updated_at)
      SELECT gen_random_uuid(), $1, 't' || n, 't', '', now(), now() FROM generate_series(1, 9999) n`,
    bound: /at most 10,000 tags/,
    file: { tags: two.map((slug) => ({ slug, name: slug, color: "" })) },
  },
  folders: {
    fill: `INSERT INTO folders (id, project_id, environment_id, parent_id, name, path, created_at, updated_at)
      SELECT gen_random_uuid(), $1, r.environment_id, r.id, 'f' || n, '/f' || n, now(), now()
      FROM generate_series(1, 99996) n, (SELECT f.* FROM folders f JOIN environments e ON e.id = f.environment_id
        WHERE f.project_id = $1 AND e.slug = 'prod' AND f.path = '/') r`,
    bound: /at most 100,000 folders/,
    file: { folders: two.map((name) => ({ environment: "dev", path: `/${name}`, description: null })) },
  },
  imports: {
    fill: `INSERT INTO secret_imports (id, project_id, folder_id, source_project_id, source_environment_id, source_path, position, created_at, updated_at)
      SELECT gen_random_uuid(), $1, f.id, $1, s.id, '/s' || n, n, now(), now()
      FROM generate_series(1, 999) n, folders f JOIN environments e ON e.id = f.environment_id JOIN environments s ON s.project_id = e.project_id
      WHERE f.project_id = $1 AND e.slug = 'dev' AND f.path = '/' AND s.slug = 'prod'`,
    bound: /at most 1,000 imports/,
    file: {
      folders: two.map((name) => ({ environment: "prod", path: `/${name}`, description: null })),
      environments: ["dev", "prod"].map((slug) => ({ slug, name: slug })),
      imports: two.map((name) => importFrom(`/${name}`)),
    },
  },
  "imports of the project": {
    fill: `INSERT INTO secret_imports (id, project_id, folder_id, source_project_id, source_environment_id, source_path, position, created_at, updated_at)
      SELECT gen_random_uuid(), $1, f.id, $1, s.id, '/s' || n, n, now(), now()
      FROM generate_series(1, 99999) n, folders f JOIN environments e ON e.id = f.environment_id JOIN environments s ON s.project_id = e.project_id
      WHERE f.project_id = $1 AND e.slug = 'staging' AND f.path = '/' AND s.slug = 'prod'`,
    bound: /at most 100,000 imports/,
    file: {
      folders: two.map((name) => ({ environment: "prod", path: `/${name}`, description: null })),
      environments: ["dev", "prod"].map((slug) => ({ slug, name: slug })),
      imports: two.map((name) => importFrom(`/${name}`)),
    },
  },
  roles: {
    fill: `INSERT INTO roles (id, org_id, project_id, slug, name, rules, created_at, updated_at)
      SELECT gen_random_uuid(), org_id, id, 'r' || n, 'r', '[]', now(), now() FROM generate_series(1, 499) n, projects WHERE id = $1`,
    bound: /500 custom roles/,
    file: { roles: two.map((slug) => ({ slug, name: slug, permissions: [] })) },
  },
};

for (const [what, stage] of Object.entries(STAGES))
  // A hundred thousand rows take their time; the others are bounds of the same kind.
  test(
    `a file with more ${what} than there is room for is refused before any of it is taken in`,
    { skip: /100,000/.test(stage.bound.source) && fullOnly },
    async () => {
      const { id } = await aProject(house.owner);
      await fill(stage.fill, [id]);
      const file = await fileOf(stage.file);
      for (const dryRun of [true, false]) {
        const answer = await taken(house.owner, id, file, { dryRun });
        assert.equal(answer.status, 400, JSON.stringify(answer.body).slice(0, 500));
        assert.match(answer.body.message, stage.bound);
        assert.doesNotMatch(answer.body.message, /stays|again/);
      }
    },
  );

test("an organisation has two files opened at once; the next is not opened before one of them is done", async () => {
  const [busy, other] = [await house.newTenant(), await house.newTenant()];
  const [theirs, ours] = [await aProject(busy), await aProject(other)];
  const file = await fileOf({});
  const wrong = { passphrase: "not the passphrase" };
  const { server, connection } = house.database;
  await withClient(server, connection.database, async (client) => {
    // Where a project is compared with the file.
    await client.query("BEGIN");
    await client.query("LOCK TABLE folders IN ACCESS EXCLUSIVE MODE");
    const held =
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    const first = taken(busy, theirs.id, file, { dryRun: true });
    await until(async () => (await client.query(held)).rows.length > 0, 15_000);
    const second = taken(busy, theirs.id, file, { dryRun: true });
    // Whether it was opened shows in what is said of its passphrase. Files are opened in turn: where another's, sent
    // later, was opened, the second was as well.
    assert.equal((await taken(other, ours.id, file, wrong)).status, 400);
    // A lock is not waited for without end: on a slow machine one of the two may have given up before the third comes.
    let isOneDone = false;
    for (const each of [first, second]) void each.then(() => (isOneDone = true));
    let isEarly = false;
    const third = taken(busy, theirs.id, file, wrong).then((answer) => {
      isEarly = !isOneDone;
      return answer;
    });
    assert.equal((await taken(other, ours.id, file, wrong)).status, 400);
    await Promise.race([third, wait(4000)]);
    assert.equal(isEarly, false, "it was opened beside the two");
    await client.query("COMMIT");
    await Promise.all([first, second]);
    assert.equal((await third).status, 400);
  });
});
