/**
 * What imports and references show when their targets change: projects, environments and folders
 * that are deleted, moved or renamed.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { aProject, anIdentity } from "../../test/builders.ts";
import { openTestHouse, type Answer, type TestHouse } from "../../test/harness.ts";
import type { NumberedFact } from "../platform/outbox/index.ts";
import { sized } from "../../test/full-size.ts";

type Project = Awaited<ReturnType<typeof aProject>>;

let house: TestHouse;
let facts: NumberedFact[] = [];
before(async () => {
  house = await openTestHouse();
  house.house.tail.onFacts((more) => void facts.push(...more));
});
after(() => house.close());

interface Told {
  readonly projectId: string;
  readonly environment: string;
  readonly path: string;
  readonly change?: string;
  readonly keys?: readonly string[];
}

/** What was announced about secrets since the last call, once everything until now has been delivered. */
async function heard(): Promise<Told[]> {
  const marker = await aProject(house.owner);
  while (!facts.some((fact) => (fact.data as { projectId?: string }).projectId === marker.id))
    await new Promise((resolve) => setTimeout(resolve, 5));
  const seen = facts.filter((fact) => fact.name.startsWith("secrets.")).map((fact) => fact.data as Told);
  facts = [];
  return seen;
}
const mutated = (told: readonly Told[], projectId: string) =>
  told
    .filter((one) => one.projectId === projectId && one.change === undefined)
    .map((one) => `${one.environment}${one.path}`)
    .sort();
const changed = (told: readonly Told[]) =>
  told
    .filter((one) => one.change !== undefined)
    .map((one) => `${one.change} ${one.environment}${one.path} ${one.keys?.join(",")}`);

const ok = (answer: Answer) => {
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer;
};
const put = async (projectId: string, place: Place, key: string, secretValue: string) => {
  const body = { projectId, environment: place.environment, secretPath: place.path, secretValue };
  const made = await house.owner.post(`/api/v4/secrets/${key}`, body);
  if (made.status !== 200) ok(await house.owner.patch(`/api/v4/secrets/${key}`, body));
};
const addImport = (projectId: string, into: Place, from: Place, sourceProjectId = projectId) =>
  house.owner.post("/api/v2/secret-imports", {
    projectId,
    ...into,
    import: { ...from, sourceProjectId },
  });
const list = (projectId: string, { environment, path }: Place, headers: Record<string, string> = {}) =>
  house.owner.get(`/api/v4/secrets?projectId=${projectId}&environment=${environment}&secretPath=${path}`, {
    headers,
  });
const environmentId = (project: Project, slug: string) =>
  project.environments.find((environment) => environment.slug === slug)?.id ?? "";
const rename = (project: Project, slug: string, newSlug: string) =>
  house.owner.patch(`/api/v1/projects/${project.id}/environments/${environmentId(project, slug)}`, {
    slug: newSlug,
  });

interface Place {
  readonly environment: string;
  readonly path: string;
}
const dev = { environment: "dev", path: "/" };
const prod = { environment: "prod", path: "/" };

/** What a folder shows: every name with its value, own ones first. */
function shown(answer: Answer): Record<string, string> {
  const all: Record<string, string> = {};
  for (const block of [{ secrets: answer.body.secrets }, ...answer.body.imports])
    for (const secret of block.secrets) all[secret.secretKey] ??= secret.secretValue;
  return all;
}

test("when a project is deleted, folders that imported from it, at any depth, are announced and show nothing of it any more", async () => {
  const [near, middle, source] = [
    await aProject(house.owner),
    await aProject(house.owner),
    await aProject(house.owner),
  ];
  await put(source.id, dev, "K", "hush");
  await put(source.id, prod, "UNSEEN", "1");
  ok(await addImport(middle.id, prod, dev, source.id));
  ok(await addImport(near.id, dev, prod, middle.id));
  await put(near.id, dev, "OWN", "a${K}");
  const reader = await anIdentity(house.owner, house.base, near.id, { roles: [{ role: "admin" }] });
  const seen = ok(await list(near.id, dev));
  assert.deepEqual(shown(seen), { OWN: "ahush", K: "hush" });
  const held = { "if-none-match": seen.headers.get("etag") ?? "" };
  assert.equal((await list(near.id, dev, held)).status, 304);
  await heard();

  ok(await house.owner.delete(`/api/v1/projects/${source.id}`));
  const again = ok(await list(near.id, dev, held));
  assert.deepEqual(shown(again), { OWN: "a${K}" });
  const told = await heard();
  assert.deepEqual(mutated(told, middle.id), ["prod/"]);
  assert.deepEqual(mutated(told, near.id), ["dev/"]);
  assert.equal(told.length, 2, "the project's own streams end; nobody else is told of its names");
  assert.deepEqual(ok(await list(middle.id, prod)).body.imports, []);
  const imports = await house.owner.get(
    `/api/v2/secret-imports?projectId=${middle.id}&environment=prod&path=/`,
  );
  assert.deepEqual(ok(imports).body.secretImports, []);
  assert.equal(
    (await reader.client.get(`/api/v4/secrets/K?projectId=${near.id}&environment=dev`)).status,
    404,
  );
  assert.equal((await list(source.id, dev)).status, 404);
});

test("an environment's new slug is a move of its names, and references mean what their text says", async () => {
  const [project, other] = [await aProject(house.owner), await aProject(house.owner)];
  await house.owner.post("/api/v2/folders", { projectId: project.id, environment: "dev", name: "f" });
  await put(project.id, dev, "K", "1");
  await put(project.id, { environment: "dev", path: "/f" }, "L", "2");
  await put(project.id, prod, "OLD", "${dev.f.L}");
  await put(project.id, { environment: "staging", path: "/" }, "NEW", "${qa.f.L}");
  ok(await addImport(other.id, prod, dev, project.id));
  const before = [await list(project.id, prod), await list(other.id, prod)].map(
    (answer) => ok(answer).headers.get("etag") ?? "",
  );
  await heard();

  ok(await rename(project, "dev", "qa"));
  const after = [
    await list(project.id, prod, { "if-none-match": before[0] ?? "" }),
    await list(other.id, prod, { "if-none-match": before[1] ?? "" }),
  ].map(ok);
  assert.deepEqual(after.map(shown), [{ OLD: "${dev.f.L}" }, { K: "1" }]);
  assert.equal(after[1]?.body.imports[0].environment, "qa");
  assert.deepEqual(shown(ok(await list(project.id, { environment: "staging", path: "/" }))), { NEW: "2" });
  assert.equal((await list(project.id, dev)).status, 404);
  const told = await heard();
  assert.deepEqual(changed(told), ["delete dev/ K", "delete dev/f L", "create qa/ K", "create qa/f L"]);
  assert.deepEqual(mutated(told, project.id), ["prod/", "staging/"]);
  assert.deepEqual(mutated(told, other.id), ["prod/"]);

  ok(await rename(project, "dev", "dev"));
  assert.deepEqual(shown(ok(await list(project.id, prod))), { OLD: "2" });
  await heard();
  ok(
    await house.owner.patch(`/api/v1/projects/${project.id}/environments/${environmentId(project, "dev")}`, {
      name: "Only a name",
      slug: "dev",
    }),
  );
  assert.deepEqual(await heard(), [], "a name that nobody refers to is nobody's news");
});

test("an import of a folder that goes brings nothing, and brings its secrets again when the folder is back", async () => {
  const [project, other] = [await aProject(house.owner), await aProject(house.owner)];
  const folder = ok(
    await house.owner.post("/api/v2/folders", { projectId: project.id, environment: "dev", name: "f" }),
  ).body.folder;
  const inFolder = { environment: "dev", path: "/f" };
  await put(project.id, inFolder, "K", "1");
  ok(await addImport(other.id, prod, inFolder, project.id));
  let etag = ok(await list(other.id, prod)).headers.get("etag") ?? "";
  const look = async (expected: Record<string, string>, what: string) => {
    const answer = await list(other.id, prod, { "if-none-match": etag });
    assert.equal(answer.status, 200, `the tag changed: ${what}`);
    assert.deepEqual(shown(answer), expected, what);
    etag = answer.headers.get("etag") ?? "";
    assert.deepEqual(mutated(await heard(), other.id), ["prod/"], what);
  };
  await heard();
  const move = (destinationPath: string) =>
    house.owner.post(`/api/v2/folders/${folder.id}/move`, {
      projectId: project.id,
      destinationEnvironment: "prod",
      destinationPath,
    });
  const moved = await move("/");
  ok(moved);
  await look({}, "moved away");
  ok(
    await house.owner.post(`/api/v2/folders/${folder.id}/move`, {
      projectId: project.id,
      destinationEnvironment: "dev",
      destinationPath: "/",
    }),
  );
  await look({ K: "1" }, "moved back");
  ok(
    await house.owner.delete(`/api/v2/folders/${folder.id}`, {
      projectId: project.id,
      environment: "dev",
      forceDelete: true,
    }),
  );
  await look({}, "deleted");
  ok(await house.owner.post("/api/v2/folders", { projectId: project.id, environment: "dev", name: "f" }));
  await put(project.id, inFolder, "K", "2");
  await look({ K: "2" }, "made anew");
  ok(
    await house.owner.delete(`/api/v1/projects/${project.id}/environments/${environmentId(project, "dev")}`),
  );
  await look({}, "the environment is gone");
});

// Any change at all: a folder that shows something else afterwards has a new ETag and was announced.
const PLACES: readonly Place[] = ["dev", "prod"].flatMap((environment) => [
  { environment, path: "/" },
  { environment, path: "/x" },
]);
const spot = fc.record({ project: fc.nat(1), place: fc.constantFrom(...PLACES) });
const VALUES = ["1", "2", "${K}", "${dev.K}", "${prod.x.L}", "${qa.K}", "${qa.x.L}"];
const world = fc.record({
  secrets: fc.array(
    fc.record({ at: spot, key: fc.constantFrom("K", "L"), value: fc.constantFrom(...VALUES) }),
    {
      minLength: 2,
      maxLength: 8,
    },
  ),
  imports: fc.array(fc.record({ into: spot, from: spot }), { maxLength: 5 }),
});
const mutation = fc.record({
  kind: fc.constantFrom("rename", "drop-environment", "drop-folder", "move-folder", "drop-project", "put"),
  at: spot,
});

type Mutation = typeof mutation extends fc.Arbitrary<infer T> ? T : never;

async function mutate(projects: readonly Project[], { kind, at }: Mutation): Promise<void> {
  const project = projects[at.project] as Project;
  const { environment } = at.place;
  if (kind === "rename") ok(await rename(project, environment, "qa"));
  else if (kind === "drop-environment")
    ok(
      await house.owner.delete(
        `/api/v1/projects/${project.id}/environments/${environmentId(project, environment)}`,
      ),
    );
  else if (kind === "drop-folder")
    ok(
      await house.owner.delete("/api/v2/folders/x", {
        projectId: project.id,
        environment,
        forceDelete: true,
      }),
    );
  else if (kind === "move-folder")
    ok(
      await house.owner.patch("/api/v2/folders/x", {
        projectId: project.id,
        environment,
        path: "/",
        name: "y",
      }),
    );
  else if (kind === "drop-project") ok(await house.owner.delete(`/api/v1/projects/${project.id}`));
  else await put(project.id, at.place, "K", "changed");
}

test("whatever is deleted, moved or renamed: no folder shows something else without a new ETag and an event", async () => {
  const look = async (projects: readonly Project[]) => {
    const seen = new Map<string, { shown: string; hasOwn: boolean; etag: string | null }>();
    for (const { id } of projects)
      for (const environment of ["dev", "prod", "qa"])
        for (const path of ["/", "/x", "/y"]) {
          const answer = await list(id, { environment, path });
          assert.ok([200, 404].includes(answer.status), JSON.stringify(answer.body));
          if (answer.status === 200)
            seen.set(`${id} ${environment}${path}`, {
              shown: JSON.stringify(shown(answer)),
              hasOwn: answer.body.secrets.length > 0,
              etag: answer.headers.get("etag"),
            });
        }
    return seen;
  };
  await fc.assert(
    fc.asyncProperty(world, mutation, async ({ secrets, imports }, change) => {
      const projects = [await aProject(house.owner), await aProject(house.owner)];
      for (const { id } of projects)
        for (const environment of ["dev", "prod"])
          ok(await house.owner.post("/api/v2/folders", { projectId: id, environment, name: "x" }));
      const idOf = (one: { project: number }) => (projects[one.project] as Project).id;
      for (const { at, key, value } of secrets) await put(idOf(at), at.place, key, value);
      // Into itself or twice is refused, which is as good as absent.
      for (const { into, from } of imports) await addImport(idOf(into), into.place, from.place, idOf(from));
      const before = await look(projects);
      await heard();
      await mutate(projects, change);
      const after = await look(projects);
      const told = new Set((await heard()).map((one) => `${one.projectId} ${one.environment}${one.path}`));
      for (const [place, was] of before) {
        const is = after.get(place);
        if (is && is.shown === was.shown) continue;
        if (is) assert.notEqual(is.etag, was.etag, `a new tag at ${place}`);
        // Of a project that is gone, its streams tell by ending; a place without names of its own had none to lose.
        const isGone = change.kind === "drop-project" && place.startsWith(idOf(change.at));
        if (!isGone && (is || was.hasOwn)) assert.ok(told.has(place), `a word about ${place}`);
      }
      for (const [place, is] of after)
        if (!before.has(place) && is.hasOwn) assert.ok(told.has(place), `a word about the new ${place}`);
    }),
    { numRuns: sized(4, 15) },
  );
});

test("an import is not pointed at the folder that it stands in", async () => {
  const { id: projectId } = await aProject(house.owner);
  const at = { projectId, environment: "dev", path: "/" };
  const made = await house.owner.post("/api/v2/secret-imports", {
    ...at,
    import: { environment: "prod", path: "/" },
  });
  const { id } = made.body.secretImport;
  const change = (environment: string) =>
    house.owner.patch(`/api/v2/secret-imports/${id}`, { ...at, import: { environment } });
  assert.equal((await change("dev")).status, 400);
  assert.equal((await change("staging")).status, 200);
});
