/** Files in and out, through the door. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, anIdentity, aRole } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const values = async (projectId: string, environment = "dev") =>
  Object.fromEntries(
    (
      await house.owner.get(
        `/api/v4/secrets?projectId=${projectId}&environment=${environment}&recursive=true&expandSecretReferences=false`,
      )
    ).body.secrets.map((s: { secretPath: string; secretKey: string; secretValue: string }) => [
      `${s.secretPath} ${s.secretKey}`,
      s.secretValue,
    ]),
  );

test("a folder leaves as a file and comes back as it was, in each format", async () => {
  const { id } = await aProject(house.owner);
  const nasty = {
    A: "plain",
    B: 'it\'s "x" $(id) `id` \\ # y',
    C: "two\nlines\r\n",
    D: "",
    E: " spaces ",
    F: "ü€😀",
  };
  for (const [key, secretValue] of Object.entries(nasty))
    await house.owner.post(`/api/v4/secrets/${key}`, { projectId: id, environment: "dev", secretValue });
  for (const format of ["dotenv", "json", "yaml"]) {
    const file = await house.owner.get(
      `/api/v1/projects/${id}/secrets/export?environment=dev&format=${format}`,
    );
    assert.equal(file.status, 200, JSON.stringify(file.body));
    assert.match(file.headers.get("content-disposition") ?? "", /^attachment; filename="secrets\.\w+"$/);
    const content = typeof file.body === "string" ? file.body : JSON.stringify(file.body);
    const { id: other } = await aProject(house.owner);
    const dry = await house.owner.post(`/api/v1/projects/${other}/secrets/import`, {
      environment: "dev",
      format,
      content,
      dryRun: true,
    });
    assert.deepEqual(dry.body.created, ["A", "B", "C", "D", "E", "F"], format);
    assert.deepEqual(await values(other), {});
    const done = await house.owner.post(`/api/v1/projects/${other}/secrets/import`, {
      environment: "dev",
      format,
      content,
    });
    assert.equal(done.status, 200, JSON.stringify(done.body));
    assert.deepEqual(
      await values(other),
      Object.fromEntries(Object.entries(nasty).map(([key, value]) => [`/ ${key}`, value])),
      format,
    );
    const again = await house.owner.post(`/api/v1/projects/${other}/secrets/import`, {
      environment: "dev",
      format,
      content,
    });
    assert.equal(again.body.unchanged.length, 6);
  }
  const bad = await house.owner.post(`/api/v1/projects/${id}/secrets/import`, {
    environment: "dev",
    content: "A='hunter2",
  });
  assert.equal(bad.status, 422);
  assert.ok(!JSON.stringify(bad.body).includes("hunter2"));
});

test("a file brings as many secrets at once as a batch may, and not one more", async () => {
  const { id } = await aProject(house.owner);
  const bring = (count: number, value: string) =>
    house.owner.post(`/api/v1/projects/${id}/secrets/import`, {
      environment: "dev",
      format: "dotenv",
      content: Array.from({ length: count }, (_, n) => `K${n}=${value}`).join("\n"),
    });
  for (const count of [5001, 20_000]) {
    const refused = await bring(count, "1");
    assert.equal(refused.status, 422);
    assert.match(JSON.stringify(refused.body), /holds more than 5000 secrets/);
  }
  assert.deepEqual(await values(id), {});
  assert.equal((await bring(5000, "1")).body.created.length, 5000);
  assert.equal((await bring(5000, "2")).body.updated.length, 5000);
  const seen = await values(id);
  assert.equal(Object.keys(seen).length, 5000);
  assert.ok(Object.values(seen).every((value) => value === "2"));
});

test("a project is exported to one encrypted file and imported elsewhere; a dry run only says what would happen", async () => {
  const { id } = await aProject(house.owner);
  await house.owner.post(`/api/v1/projects/${id}/environments`, { name: "Quality", slug: "qa" });
  const { tag } = (await house.owner.post(`/api/v1/projects/${id}/tags`, { slug: "db", color: "red" })).body;
  await house.owner.post("/api/v2/folders", {
    projectId: id,
    environment: "qa",
    path: "/a",
    name: "b",
    description: "deep",
  });
  await house.owner.post("/api/v4/secrets/K", {
    projectId: id,
    environment: "qa",
    secretPath: "/a/b",
    secretValue: "${dev.H}",
    secretComment: "c",
    tagIds: [tag.id],
  });
  await house.owner.post("/api/v4/secrets/H", { projectId: id, environment: "dev", secretValue: "host" });
  await house.owner.post("/api/v2/secret-imports", {
    projectId: id,
    environment: "dev",
    import: { environment: "qa", path: "/a/b" },
  });
  const passphrase = "correct horse battery";
  const response = await fetch(`${house.base}/api/v1/projects/${id}/export`, {
    method: "POST",
    headers: { authorization: `Bearer ${house.owner.token}`, "content-type": "application/json" },
    body: JSON.stringify({ passphrase }),
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  assert.ok(!bytes.includes("host"));
  const other = await house.newTenant();
  const { id: target } = await aProject(other);
  const send = (file: Buffer, more: Record<string, unknown> = {}) =>
    other.post(`/api/v1/projects/${target}/import`, { passphrase, file: file.toString("base64"), ...more });
  for (const at of [0, 20, 60, bytes.length - 1]) {
    const torn = Buffer.from(bytes);
    torn[at] = (torn[at] ?? 0) ^ 1;
    assert.equal((await send(torn)).status, 400, `a flipped bit at ${at}`);
  }
  assert.equal((await send(bytes.subarray(0, -1))).status, 400);
  assert.equal((await send(bytes, { passphrase: "another passphrase" })).status, 400);
  const dry = await send(bytes, { dryRun: true });
  assert.equal(dry.status, 200, JSON.stringify(dry.body));
  assert.deepEqual(
    [dry.body.environments.created, dry.body.secrets.created],
    [["qa"], ["dev:/:H", "qa:/a/b:K"]],
  );
  assert.equal((await other.get(`/api/v4/secrets?projectId=${target}&environment=qa`)).status, 404);
  const done = await send(bytes);
  assert.equal(done.status, 200, JSON.stringify(done.body));
  const seen = (await other.get(`/api/v4/secrets?projectId=${target}&environment=dev`)).body;
  assert.equal(seen.imports[0].secrets[0].secretValue, "host");
  assert.equal(seen.imports[0].secrets[0].tags[0].slug, "db");
  const again = await send(bytes);
  assert.deepEqual(
    [again.body.secrets.unchanged, again.body.imports.unchanged, again.body.secrets.created],
    [2, 1, []],
  );
});

test("a caller who cannot read everything cannot export the project", async () => {
  const { id } = await aProject(house.owner);
  await house.owner.post("/api/v4/secrets/A", { projectId: id, environment: "prod", secretValue: "hush" });
  const role = await aRole(house.owner, id, [
    { subject: "secrets", action: "read", conditions: { environment: { $ne: "prod" } } },
    { subject: "tags", action: "read" },
  ]);
  const reader = await anIdentity(house.owner, house.base, id, { roles: [{ role }] });
  assert.equal(
    (await reader.client.post(`/api/v1/projects/${id}/export`, { passphrase: "correct horse battery" }))
      .status,
    403,
  );
});

test("what the door refuses in a request is refused in a file", async () => {
  const { id: projectId } = await aProject(house.owner);
  for (const content of ['{"A\\ud800":"1"}', '{"A":"\\ud800"}', '{"A":"${\\u0000}"}']) {
    const taken = await house.owner.post(`/api/v1/projects/${projectId}/secrets/import`, {
      environment: "dev",
      format: "json",
      content,
    });
    assert.equal(taken.status, 422, `${content}: ${JSON.stringify(taken.body)}`);
  }
});

test("a refusal never sends back what it refuses, however long that is", async () => {
  const { id } = await aProject(house.owner);
  const long = "N".repeat(3_000_000);
  const files = [
    ["dotenv", `${long}=1\n${long}=2\n`],
    ["dotenv", `${long}=1\n`],
    ["json", JSON.stringify({ [long]: "1" })],
    ["json", JSON.stringify({ [long]: {} })],
    ["yaml", `${long}: "1"\n`],
  ] as const;
  for (const [format, content] of files) {
    const answer = await house.owner.post(`/api/v1/projects/${id}/secrets/import`, {
      environment: "dev",
      format,
      content,
    });
    assert.equal(answer.status, 422, format);
    assert.ok(JSON.stringify(answer.body).length < 1000, `${format}: ${JSON.stringify(answer.body).length}`);
  }
  // Keys of an object whose names are anybody's are part of the path.
  const conditions = { ["c".repeat(100_000)]: "x" };
  const role = await house.owner.post(`/api/v1/projects/${id}/roles`, {
    slug: "r",
    name: "R",
    permissions: [{ subject: "secrets", action: "readValue", conditions }],
  });
  assert.equal(role.status, 422);
  assert.ok(JSON.stringify(role.body).length < 1000, `${JSON.stringify(role.body).length}`);
});

test("whoever is no member hears of no fault in a file: the project is unknown, whatever the file holds", async () => {
  const { id } = await aProject(house.owner);
  const stranger = await house.newTenant();
  const ask = (projectId: string, format: string, content: string) =>
    stranger.post(`/api/v1/projects/${projectId}/secrets/import`, { environment: "dev", format, content });
  for (const [format, content] of [
    ["yaml", "{{{"],
    ["yaml", "A: 1\n"],
    ["json", "{"],
    ["dotenv", "no pair"],
  ] as const)
    assert.equal((await ask(id, format, content)).status, 404, `${format} ${content}`);
});
