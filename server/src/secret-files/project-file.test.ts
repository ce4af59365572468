/** A whole project in one file: what it contains, and what the dry run promises. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../test/harness.ts";
import {
  aFullProject,
  exported as exportedFrom,
  ok,
  passphrase,
  taken,
  told as toldFrom,
} from "../../test/project-files.ts";
import { planImport } from "./model.ts";
import { openArchive } from "./service/seal-archive.ts";
import { sized } from "../../test/full-size.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const exported = (tenant: Tenant, id: string, more: Record<string, unknown> = {}) =>
  exportedFrom(house.base, tenant, id, more);
const told = (tenant: Tenant, id: string) => toldFrom(house.base, tenant, id);

test("R-09 everything is in the file: tree, references, imports in their order, tags, reminders, roles and history", async () => {
  const source = await house.newTenant();
  const target = await house.newTenant();
  const from = await aFullProject(house, source);
  const { id: into } = await aProject(target);
  const file = await exported(source, from, { includeHistory: true, includeRoles: true });

  const lonely = ok(await taken(target, into, file, { dryRun: true }));
  assert.deepEqual(lonely.imports.unresolved, ["dev:/ ← shared-things:prod:/"]);
  assert.deepEqual([lonely.versions, lonely.roles.created.length, lonely.secrets.created.length], [1, 1, 2]);
  await aProject(target, { slug: "shared-things" });
  const dry = ok(await taken(target, into, file, { dryRun: true }));
  assert.deepEqual(dry.imports.unresolved, []);
  assert.deepEqual(dry.imports.created, [
    "dev:/ ← shared-things:prod:/",
    "dev:/ ← qa:/a/b",
    "dev:/ ← prod:/",
  ]);
  const done = ok(await taken(target, into, file));
  assert.deepEqual(done, { ...dry, dryRun: false });
  assert.deepEqual(await told(target, into), await told(source, from));
  const { roles } = ok(await taken(target, into, file, { dryRun: true, overwrite: true }));
  assert.deepEqual([roles.created, roles.updated], [[], []], "a role with the same rules is left as it is");

  const { secret } = ok(
    await target.get(`/api/v4/secrets/KEY?projectId=${into}&environment=qa&secretPath=/a/b`),
  );
  assert.deepEqual([secret.secretValue, secret.version], ["host", 2]);
  const { versions } = ok(await target.get(`/api/v4/secrets/id/${secret.id}/versions`));
  assert.deepEqual(
    versions.map((v: Record<string, unknown>) => [
      v["version"],
      v["secretKey"],
      v["secretValue"],
      v["secretComment"],
    ]),
    [
      [2, "KEY", "${dev.H}", "why"],
      [1, "OLD_NAME", "first", "why"],
    ],
  );
  const then = versions[1];
  const listed = ok(await source.get(`/api/v4/secrets?projectId=${from}&environment=qa&recursive=true`));
  const original = ok(await source.get(`/api/v4/secrets/id/${listed.secrets[0].id}/versions`)).versions[1];
  assert.deepEqual([then.createdAt, secret.createdAt], [original.createdAt, original.createdAt]);
  assert.deepEqual([then.actor.actorType, then.actor.actorId], ["imported", null]);
  assert.equal(then.secretMetadata[1].value, "1234");
  const back = ok(await target.post(`/api/v4/secrets/id/${secret.id}/rollback`, { version: 1 })).secret;
  assert.deepEqual([back.secretValue, back.version, back.secretReminderRepeatDays], ["first", 3, 7]);
});

test("history that came in a file does not make a rollback bring back what was never here", async () => {
  const source = await house.newTenant();
  const target = await house.newTenant();
  const from = await aFullProject(house, source);
  house.clock.advance(3_600_000);
  const { id: into } = await aProject(target, { slug: "shared-things" });
  ok(await target.post(`/api/v1/projects/${into}/environments`, { name: "Quality", slug: "qa" }));
  ok(await target.post("/api/v2/folders", { projectId: into, environment: "qa", path: "/a", name: "b" }));
  house.clock.advance(60_000);
  const before = house.clock.now().toISOString();
  house.clock.advance(60_000);
  ok(await taken(target, into, await exported(source, from, { includeHistory: true })));
  const back = ok(
    await target.post(`/api/v1/projects/${into}/secrets/rollback`, {
      environment: "qa",
      secretPath: "/",
      recursive: true,
      at: before,
    }),
  );
  assert.deepEqual(
    back.changes.map(
      (one: Record<string, unknown>) => `${one["change"] as string} ${one["secretKey"] as string}`,
    ),
    ["delete KEY"],
  );
});

test("an import that was made from the target itself becomes its own, and what would import itself is left out", async () => {
  const tenant = await house.newTenant();
  const [one, two] = [await aProject(tenant), await aProject(tenant)];
  const add = (environment: string) =>
    tenant.post("/api/v2/secret-imports", {
      projectId: one.id,
      environment: "dev",
      import: { sourceProjectId: two.id, environment, path: "/" },
    });
  ok(await add("dev"));
  ok(await add("prod"));
  const file = await exported(tenant, one.id);
  const done = ok(await taken(tenant, two.id, file));
  assert.deepEqual(done.imports.created, ["dev:/ ← prod:/"]);
  assert.deepEqual(done.imports.unresolved, ["dev:/ ← dev:/"]);
  const again = ok(await taken(tenant, two.id, file));
  assert.deepEqual([again.imports.created, again.imports.unchanged], [[], 1]);
});

// Any project into any other: the dry run changes nothing, the import does exactly what it said, and then nothing is left to do.
const place = fc.constantFrom("dev:/", "dev:/x", "prod:/", "prod:/x/y", "qa:/");
const world = fc.record({
  secrets: fc.array(
    fc.record({
      place,
      key: fc.constantFrom("A", "B"),
      value: fc.constantFrom("1", "2"),
      comment: fc.constantFrom("", "c"),
      isTagged: fc.boolean(),
      days: fc.constantFrom(null, 3),
    }),
    { maxLength: 5 },
  ),
  imports: fc.array(fc.record({ into: place, from: place }), { maxLength: 4 }),
  color: fc.constantFrom("red", "blue"),
  describe: fc.boolean(),
});
type World = typeof world extends fc.Arbitrary<infer T> ? T : never;

async function build(tenant: Tenant, { secrets, imports, color, describe }: World): Promise<string> {
  const { id } = await aProject(tenant);
  const spot = (text: string) => {
    const [environment = "", path = "/"] = text.split(":");
    return { environment, path };
  };
  const used: string[] = [
    ...secrets.map((one) => one.place),
    ...imports.flatMap((one) => [one.into, one.from]),
  ];
  if (used.some((text) => text.startsWith("qa")))
    ok(await tenant.post(`/api/v1/projects/${id}/environments`, { name: "Quality", slug: "qa" }));
  const { tag } = ok(await tenant.post(`/api/v1/projects/${id}/tags`, { slug: "t", color }));
  for (const [environment, path, name] of [
    ["dev", "/", "x"],
    ["prod", "/x", "y"],
  ] as const)
    if (used.includes(`${environment}:${path === "/" ? "" : path}/${name}`))
      ok(
        await tenant.post("/api/v2/folders", {
          projectId: id,
          environment,
          path,
          name,
          ...(describe ? { description: "d" } : {}),
        }),
      );
  for (const { key, value, comment, isTagged, days, place: at } of secrets) {
    const { environment, path } = spot(at);
    await tenant.post(`/api/v4/secrets/${key}`, {
      projectId: id,
      environment,
      secretPath: path,
      secretValue: value,
      secretComment: comment,
      tagIds: isTagged ? [tag.id] : [],
      secretReminderRepeatDays: days,
    });
  }
  for (const { into, from } of imports)
    await tenant.post("/api/v2/secret-imports", { projectId: id, ...spot(into), import: spot(from) });
  return id;
}

test("an import does exactly what its dry run said, whatever is in the file and whatever was there", async () => {
  const tenant = await house.newTenant();
  await fc.assert(
    fc.asyncProperty(world, world, fc.boolean(), async (one, other, includeHistory) => {
      const [from, into] = [await build(tenant, one), await build(tenant, other)];
      const file = await exported(tenant, from, { includeHistory });
      const [source, before] = [await told(tenant, from), await told(tenant, into)];
      const dry = ok(await taken(tenant, into, file, { dryRun: true }));
      assert.deepEqual(await told(tenant, into), before, "a dry run changes nothing");
      const done = ok(await taken(tenant, into, file));
      assert.deepEqual(done, { ...dry, dryRun: false });
      const now = await told(tenant, into);

      const placeOf = (secret: { environment: string; path: string; key: string }) =>
        `${secret.environment}:${secret.path}:${secret.key}`;
      const index = (list: typeof now.secrets) => new Map(list.map((secret) => [placeOf(secret), secret]));
      const [was, is] = [index(before.secrets), index(now.secrets)];
      assert.deepEqual(
        [...is.keys()].filter((name) => !was.has(name)).sort(),
        [...dry.secrets.created].sort(),
        "created is what is new",
      );
      const isOther = (name: string) => JSON.stringify(was.get(name)) !== JSON.stringify(is.get(name));
      assert.deepEqual(
        [...was.keys()].filter(isOther).sort(),
        [...dry.secrets.updated].sort(),
        "updated is what is different",
      );
      for (const secret of source.secrets) assert.deepEqual(is.get(placeOf(secret)), secret);
      const folders = (list: typeof now.folders) =>
        list.map((folder) => `${folder.environment}:${folder.path}`);
      // Of a new environment the root came with it.
      const made = folders(now.folders).filter((name) => !folders(before.folders).includes(name));
      assert.deepEqual(made.filter((name) => !name.endsWith(":/")).sort(), [...dry.folders.created].sort());
      const importsAt = (list: typeof now.imports, environment: string, path: string) =>
        list
          .filter((each) => each.environment === environment && each.path === path)
          .map((each) => `${each.sourceEnvironment}:${each.sourcePath}`);
      for (const { environment, path } of source.folders) {
        const wanted = importsAt(source.imports, environment, path);
        assert.deepEqual(importsAt(now.imports, environment, path).slice(0, wanted.length), wanted);
      }
      const again = ok(await taken(tenant, into, file, { dryRun: true }));
      for (const kind of ["environments", "tags", "folders", "secrets", "imports", "roles"])
        assert.deepEqual(
          [again[kind].created, again[kind].updated],
          [[], []],
          `nothing is left to do: ${kind}`,
        );
    }),
    { numRuns: sized(1, 5) },
  );
});

test("environments travel alone when they are asked for alone", async () => {
  const tenant = await house.newTenant();
  const { id } = await aProject(tenant);
  for (const environment of ["dev", "prod"])
    ok(await tenant.post("/api/v4/secrets/A", { projectId: id, environment, secretValue: environment }));
  const file = await openArchive(await exported(tenant, id, { environments: ["prod"] }), passphrase);
  assert.deepEqual(
    [file.environments.map(({ slug }) => slug), file.secrets.map(({ value }) => value)],
    [["prod"], ["prod"]],
  );
  const unknown = await tenant.post(`/api/v1/projects/${id}/export`, { passphrase, environments: ["none"] });
  assert.equal(unknown.status, 404);
});

test("a file's imports are planned in a time that grows with their number", async () => {
  const imports = Array.from({ length: 60_000 }, (_, n) => ({
    environment: "dev",
    path: "/",
    sourceProject: null,
    sourceEnvironment: "dev",
    sourcePath: `/f${n}`,
    isReplication: false,
  }));
  const nothing = { environments: [], tags: [], folders: [], secrets: [], roles: [] };
  const file = { ...nothing, project: { name: "p", slug: "p" }, imports };
  const started = process.cpuUsage();
  const plan = await planImport(file, { ...nothing, imports: imports.toReversed() }, () => true);
  const { user } = process.cpuUsage(started);
  assert.deepEqual([plan.imports.created.length, plan.imports.unresolved.length], [0, 0]);
  assert.ok(plan.imports.updated.length > 59_000);
  assert.ok(user < 10_000_000, `${user} µs`);
});
