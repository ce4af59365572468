import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import pg from "pg";
import { aProject, anIdentity, aRole } from "../../../test/builders.ts";
import { openTestHouse, type Client, type TestHouse } from "../../../test/harness.ts";
import type { NumberedFact } from "../../platform/outbox/index.ts";

let house: TestHouse;
let facts: NumberedFact[] = [];
before(async () => {
  house = await openTestHouse();
  house.house.tail.onFacts((more) => void facts.push(...more));
});
after(() => house.close());

async function settled(): Promise<string[]> {
  const marker = await aProject(house.owner);
  while (!facts.some((fact) => (fact.data as { projectId?: string }).projectId === marker.id))
    await new Promise((resolve) => setTimeout(resolve, 5));
  const seen = facts
    .filter((fact) => fact.name === "secrets.import-mutated")
    .map((fact) => fact.data as { projectId: string; environment: string; path: string });
  facts = [];
  return seen.map((data) => `${data.environment}${data.path}`).sort();
}

async function put(
  client: Client,
  projectId: string,
  place: string,
  [key, secretValue]: [string, string],
): Promise<void> {
  const [environment = "", ...names] = place.split("/").filter((name) => name !== "");
  const secretPath = `/${names.join("/")}`;
  if (names.length > 0)
    await client.post("/api/v2/folders", {
      projectId,
      environment,
      path: `/${names.slice(0, -1).join("/")}`,
      name: names.at(-1),
    });
  const made = await client.post(`/api/v4/secrets/${key}`, {
    projectId,
    environment,
    secretPath,
    secretValue,
  });
  if (made.status === 400) {
    const changed = await client.patch(`/api/v4/secrets/${key}`, {
      projectId,
      environment,
      secretPath,
      secretValue,
    });
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
  } else assert.equal(made.status, 200, JSON.stringify(made.body));
}

async function addImport(projectId: string, into: string, from: string, sourceProjectId?: string) {
  const place = (text: string) => ({
    environment: text.split("/")[0],
    path: `/${text.split("/").slice(1).join("/")}`,
  });
  const made = await house.owner.post("/api/v2/secret-imports", {
    projectId,
    ...place(into),
    import: { ...place(from), ...(sourceProjectId ? { sourceProjectId } : {}) },
  });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  return made.body.secretImport;
}

const listAt = (projectId: string, environment: string, path = "/") =>
  `/api/v4/secrets?projectId=${projectId}&environment=${environment}&secretPath=${path}`;
const values = (secrets: { secretKey: string; secretValue: string }[]) =>
  Object.fromEntries(secrets.map((s) => [s.secretKey, s.secretValue]));

test("references are followed across folders and environments; a missing one leaves its text", async () => {
  const { id } = await aProject(house.owner);
  await put(house.owner, id, "dev", ["HOST", "db.local"]);
  await put(house.owner, id, "prod/api/v1", ["PASSWORD", "p-${USER}"]);
  await put(house.owner, id, "prod/api/v1", ["USER", "root"]);
  await put(house.owner, id, "dev", [
    "URL",
    "pg://${prod.api.v1.PASSWORD}@${HOST}/${MISSING}${nowhere.KEY}${}${a..b}",
  ]);
  const { secrets } = (await house.owner.get(listAt(id, "dev"))).body;
  assert.equal(values(secrets)["URL"], "pg://p-root@db.local/${MISSING}${nowhere.KEY}${}${a..b}");
  const plain = (await house.owner.get(`${listAt(id, "dev")}&expandSecretReferences=false`)).body.secrets;
  assert.match(values(plain)["URL"] ?? "", /\$\{HOST\}/);
  const one = await house.owner.get(`/api/v4/secrets/URL?projectId=${id}&environment=dev`);
  assert.match(one.body.secret.secretValue, /p-root@db\.local/);
});

test("cycles of references end", async () => {
  const { id } = await aProject(house.owner);
  await put(house.owner, id, "dev", ["A", "a${B}"]);
  await put(house.owner, id, "dev", ["B", "b${A}"]);
  await put(house.owner, id, "dev", ["SELF", "s${SELF}"]);
  const { secrets } = (await house.owner.get(listAt(id, "dev"))).body;
  assert.deepEqual(values(secrets), { A: "ab${A}", B: "ba${B}", SELF: "s${SELF}" });
});

test("imports are nested, ordered and safe in loops; the first one that has a key wins and alone carries it", async () => {
  const { id } = await aProject(house.owner);
  await put(house.owner, id, "dev", ["OWN", "dev"]);
  await put(house.owner, id, "staging", ["BOTH", "staging"]);
  await put(house.owner, id, "staging", ["OWN", "staging"]);
  await put(house.owner, id, "prod", ["BOTH", "prod"]);
  await put(house.owner, id, "prod/deep", ["DEEP", "deep"]);
  await addImport(id, "dev/", "staging/");
  const second = await addImport(id, "dev/", "prod/");
  await addImport(id, "prod/", "prod/deep");
  await addImport(id, "prod/deep", "dev/");
  const blocks = async () =>
    (await house.owner.get(listAt(id, "dev"))).body.imports.map(
      (b: { environment: string; secrets: { secretKey: string }[] }) =>
        `${b.environment}:${b.secrets.map((s) => s.secretKey).join(",")}`,
    );
  assert.deepEqual(await blocks(), ["staging:BOTH,OWN", "prod:DEEP"]);
  assert.equal(
    (await house.owner.get(`/api/v4/secrets/BOTH?projectId=${id}&environment=dev`)).body.secret.secretValue,
    "staging",
  );
  await house.owner.patch(`/api/v2/secret-imports/${second.id}`, {
    projectId: id,
    environment: "dev",
    import: { position: 1 },
  });
  assert.deepEqual(await blocks(), ["prod:BOTH,DEEP", "staging:OWN"]);
  assert.equal(
    (await house.owner.get(`/api/v4/secrets/BOTH?projectId=${id}&environment=dev`)).body.secret.secretValue,
    "prod",
  );
  const raw = await house.owner.get(`/api/v3/secrets/raw?workspaceId=${id}&environment=dev&workspaceSlug=`);
  assert.deepEqual(raw.body.imports, []);
});

test("a reader sees nothing through an import or a reference that it could not read directly", async () => {
  const { id } = await aProject(house.owner);
  await put(house.owner, id, "prod", ["PRIVATE", "hush"]);
  await put(house.owner, id, "prod", ["PUBLIC", "hello"]);
  await put(house.owner, id, "staging", ["VIA", "${prod.PRIVATE}-${prod.PUBLIC}"]);
  await put(house.owner, id, "dev", ["TWICE", "${staging.VIA}"]);
  await addImport(id, "dev/", "prod/");
  const role = await aRole(house.owner, id, [
    { subject: "secrets", action: "read", conditions: { environment: { $in: ["dev", "staging"] } } },
    {
      subject: "secrets",
      action: "read",
      conditions: { environment: { $eq: "prod" }, secretName: { $eq: "PUBLIC" } },
    },
  ]);
  const reader = await anIdentity(house.owner, house.base, id, { roles: [{ role }] });
  const seen = await reader.client.get(listAt(id, "dev"));
  assert.ok(!JSON.stringify(seen.body).includes("hush"));
  assert.equal(values(seen.body.secrets)["TWICE"], "${prod.PRIVATE}-hello");
  assert.deepEqual(
    seen.body.imports[0].secrets.map((s: { secretKey: string }) => s.secretKey),
    ["PUBLIC"],
  );
  assert.equal(
    (await reader.client.get(`/api/v4/secrets/PRIVATE?projectId=${id}&environment=dev`)).status,
    404,
  );
  assert.equal((await house.owner.get(listAt(id, "dev"))).body.secrets[0].secretValue, "hush-hello");
});

test("an import from another project is checked by the rights in that project, and its changes count", async () => {
  const [a, b] = [await aProject(house.owner), await aProject(house.owner)];
  await put(house.owner, b.id, "dev", ["FROM_B", "${INNER}"]);
  await put(house.owner, b.id, "dev", ["INNER", "b"]);
  await addImport(a.id, "dev/", "dev/", b.id);
  const outsider = await anIdentity(house.owner, house.base, a.id, { roles: [{ role: "admin" }] });
  const tags: (string | null)[] = [];
  const look = async (client: Client) => {
    const answer = await client.get(listAt(a.id, "dev"));
    tags.push(answer.headers.get("etag"));
    return values(answer.body.imports[0].secrets);
  };
  assert.deepEqual(await look(house.owner), { FROM_B: "b", INNER: "b" });
  assert.deepEqual(await look(outsider.client), {});
  await put(house.owner, b.id, "dev", ["INNER", "b2"]);
  assert.deepEqual(await look(house.owner), { FROM_B: "b2", INNER: "b2" });
  assert.equal(new Set(tags).size, 3);
  const other = await house.newTenant();
  const foreign = await other.post("/api/v2/secret-imports", {
    projectId: (await aProject(other)).id,
    environment: "dev",
    import: { sourceProjectId: b.id, environment: "dev", path: "/" },
  });
  assert.equal(foreign.status, 404);
});

test("the tag of an answer changes with everything that changes the answer, and only a current one is a 304", async () => {
  const { id } = await aProject(house.owner);
  await put(house.owner, id, "prod", ["P", "1"]);
  await put(house.owner, id, "staging", ["S", "${prod.P}"]);
  await put(house.owner, id, "dev", ["D", "${staging.S}"]);
  const url = listAt(id, "dev");
  let held = (await house.owner.get(url)).headers.get("etag") ?? "";
  const unchanged = await house.owner.get(url, { headers: { "if-none-match": held } });
  assert.equal(unchanged.status, 304);
  assert.equal(unchanged.body, "");
  const steps: [string, () => Promise<unknown>][] = [
    ["a referred value", () => put(house.owner, id, "prod", ["P", "2"])],
    ["a new import", () => addImport(id, "dev/", "prod/")],
    ["an imported value", () => put(house.owner, id, "prod", ["Q", "x"])],
    [
      "a folder",
      () => house.owner.post("/api/v2/folders", { projectId: id, environment: "prod", name: "x" }),
    ],
    ["a deletion", () => house.owner.delete("/api/v4/secrets/P", { projectId: id, environment: "prod" })],
  ];
  for (const [what, step] of steps) {
    await step();
    const again = await house.owner.get(url, { headers: { "if-none-match": `"other", W/${held}` } });
    assert.equal(again.status, 200, what);
    held = again.headers.get("etag") ?? "";
    assert.equal((await house.owner.get(url, { headers: { "if-none-match": held } })).status, 304, what);
  }
  const viewer = await anIdentity(house.owner, house.base, id, { roles: [{ role: "viewer" }] });
  assert.equal(
    (await viewer.client.get(url, { headers: { "if-none-match": held } })).status,
    200,
    "another reader's tag",
  );
  const one = `/api/v4/secrets/D?projectId=${id}&environment=dev`;
  const tag = (await house.owner.get(one)).headers.get("etag") ?? "";
  assert.equal((await house.owner.get(one, { headers: { "if-none-match": tag } })).status, 304);
  assert.equal(
    (await house.owner.get(`${one}&viewSecretValue=false`, { headers: { "if-none-match": tag } })).status,
    200,
  );
});

test("a folder that shows a changed secret through imports or references, at any depth, is announced once", async () => {
  const { id } = await aProject(house.owner);
  const other = await aProject(house.owner);
  await put(house.owner, id, "prod/base", ["K", "1"]);
  await put(house.owner, id, "prod/base", ["UNRELATED", "1"]);
  await put(house.owner, id, "prod/refers", ["R", "${prod.base.K}"]);
  await put(house.owner, id, "prod/refers-twice", ["RR", "${prod.refers.R}"]);
  await put(house.owner, id, "prod/local", ["L", "${K}"]);
  await put(house.owner, id, "prod/local-again", ["M", "${prod.local.L}"]);
  await addImport(id, "prod/local", "prod/base");
  await addImport(id, "dev/", "prod/local");
  await addImport(other.id, "staging/", "dev/", id);
  await addImport(id, "prod/base", "prod/local");
  await settled();
  await put(house.owner, id, "prod/base", ["K", "2"]);
  assert.deepEqual(await settled(), [
    "dev/",
    "prod/local",
    "prod/local-again",
    "prod/refers",
    "prod/refers-twice",
    "staging/",
  ]);
  await put(house.owner, id, "prod/base", ["UNRELATED", "2"]);
  assert.deepEqual(await settled(), ["dev/", "prod/local", "staging/"]);
  await put(house.owner, id, "prod/refers-twice", ["RR", "plain"]);
  await settled();
  await put(house.owner, id, "prod/base", ["K", "3"]);
  assert.ok(!(await settled()).includes("prod/refers-twice"));
});

async function inDatabase(text: string, values: unknown[]): Promise<unknown[]> {
  const database = new pg.Client(house.database.connection);
  await database.connect();
  const { rows } = await database.query(text, values);
  await database.end();
  return rows;
}

test("an answer grows by a bounded amount, however many secrets refer to a large one; references beyond that stay as written", async () => {
  const { id } = await aProject(house.owner);
  const big = "x".repeat(900_000);
  await put(house.owner, id, "dev", ["BIG", big]);
  const made = await house.owner.post("/api/v4/secrets/batch", {
    projectId: id,
    environment: "dev",
    secretPath: "/",
    secrets: Array.from({ length: 1500 }, (_, n) => ({ secretKey: `R${n}`, secretValue: "${BIG}" })),
  });
  assert.equal(made.status, 200);
  const { status, body } = await house.owner.get(listAt(id, "dev"));
  assert.equal(status, 200);
  const seen = Object.values<string>(values(body.secrets));
  assert.equal(seen.length, 1501);
  const expanded = seen.filter((text) => text === big).length;
  assert.ok(expanded > 2 && expanded < 25, String(expanded));
  assert.equal(seen.filter((text) => text === "${BIG}").length, 1501 - expanded);
});

test("what is too large for one answer is refused before it is loaded; names, and single secrets by name, can still be read", async () => {
  const { id } = await aProject(house.owner);
  const secrets = Array.from({ length: 70 }, (_, n) => ({ secretKey: `H${n}`, secretValue: "" }));
  await house.owner.post("/api/v4/secrets/batch", {
    projectId: id,
    environment: "staging",
    secretPath: "/",
    secrets,
  });
  // None of this can be decrypted: it must not come so far.
  await inDatabase(
    "UPDATE secrets SET value = convert_to(repeat('x', 1024 * 1024), 'UTF8') WHERE project_id = $1",
    [id],
  );
  await put(house.owner, id, "staging", ["SMALL", "small"]);
  await put(house.owner, id, "dev", ["OWN", "${staging.SMALL}"]);
  await addImport(id, "dev/", "staging/");
  for (const url of [
    listAt(id, "staging"),
    `${listAt(id, "staging")}&recursive=true`,
    `${listAt(id, "dev")}&includeImports=true`,
  ]) {
    const refused = await house.owner.get(url);
    assert.equal(refused.status, 400, url);
    assert.match(refused.body.message, /larger than 64 MiB together.*by name/);
  }
  const names = await house.owner.get(`${listAt(id, "staging")}&viewSecretValue=false`);
  assert.equal(names.status, 200, JSON.stringify(names.body).slice(0, 500));
  assert.equal(names.body.secrets.length, 71);
  const alone = await house.owner.get(`${listAt(id, "dev")}&includeImports=false`);
  assert.deepEqual(values(alone.body.secrets), { OWN: "small" });
  const imported = await house.owner.get(`/api/v4/secrets/SMALL?projectId=${id}&environment=dev`);
  assert.equal(imported.body.secret?.secretValue, "small", JSON.stringify(imported.body).slice(0, 500));
  const closed = await aRole(house.owner, id, [
    { subject: "secrets", action: "read", conditions: { environment: { $eq: "dev" } } },
  ]);
  const reader = await anIdentity(house.owner, house.base, id, { roles: [{ role: closed }] });
  assert.equal((await reader.client.get(listAt(id, "staging"))).status, 403);
  assert.equal((await reader.client.get(listAt(id, "dev"))).status, 200);
});

test("each import is checked with the tags of its own secrets, also where several folders of a project have tags", async () => {
  const { id } = await aProject(house.owner);
  await put(house.owner, id, "dev", ["OWN", "own"]);
  for (const [environment, slug] of [
    ["staging", "closed"],
    ["prod", "other"],
  ] as const) {
    const { tag } = (await house.owner.post(`/api/v1/projects/${id}/tags`, { slug, color: "red" })).body;
    const made = await house.owner.post(`/api/v4/secrets/FROM_${environment}`, {
      projectId: id,
      environment,
      secretValue: `value of ${environment}`,
      tagIds: [tag.id],
    });
    assert.equal(made.status, 200, JSON.stringify(made.body));
    await addImport(id, "dev/", `${environment}/`);
  }
  const role = await aRole(house.owner, id, [
    { subject: "secrets", action: "read" },
    {
      subject: "secrets",
      action: ["read", "describeSecret", "readValue"],
      inverted: true,
      conditions: { secretTags: { $in: ["closed"] } },
    },
  ]);
  const reader = await anIdentity(house.owner, house.base, id, { roles: [{ role }] });
  for (const client of [house.owner, reader.client]) {
    const { status, body } = await client.get(`${listAt(id, "dev")}&includeImports=true`);
    assert.equal(status, 200, JSON.stringify(body));
    const seen = body.imports.flatMap((block: { secrets: { secretKey: string; tags: unknown[] }[] }) =>
      block.secrets.map((one) => `${one.secretKey} ${one.tags.length}`),
    );
    assert.deepEqual(seen, client === house.owner ? ["FROM_staging 1", "FROM_prod 1"] : ["FROM_prod 1"]);
  }
});

test("a value may mention a secret as often as it likes and a thousand different ones; the index holds each once", async () => {
  const { id } = await aProject(house.owner);
  const write = (key: string, secretValue: string) =>
    house.owner.post(`/api/v4/secrets/${key}`, { projectId: id, environment: "dev", secretValue });
  const mention = (count: number) => Array.from({ length: count }, (_, n) => `\${K${n}}`).join("");
  assert.equal((await write("OFTEN", "${A}".repeat(200_000))).status, 200);
  assert.equal((await write("MANY", mention(1000))).status, 200);
  const [refused, other] = await Promise.all([write("TOO_MANY", mention(1001)), write("OTHER", "x")]);
  assert.equal(refused.status, 400);
  assert.match(refused.body.message, /"TOO_MANY" refers to more than 1000 different secrets/);
  assert.equal(other.status, 200);
  const batch = await house.owner.post("/api/v4/secrets/batch", {
    projectId: id,
    environment: "dev",
    secretPath: "/",
    secrets: Array.from({ length: 26 }, (_, n) => ({ secretKey: `B${n}`, secretValue: mention(1000) })),
  });
  assert.equal(batch.status, 400);
  assert.match(batch.body.message, /at most 25000 references together; these hold 26000/);
  const rows = await inDatabase(
    "SELECT secret_key, count(*)::int AS count FROM secret_references WHERE project_id = $1 GROUP BY 1 ORDER BY 1",
    [id],
  );
  assert.deepEqual(rows, [
    { secret_key: "MANY", count: 1000 },
    { secret_key: "OFTEN", count: 1 },
  ]);
});
