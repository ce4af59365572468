/** Names and paths that mean harm: what is authorised is what is opened, and nothing means more than it says. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { aProject, anIdentity, aRole } from "../../test/builders.ts";
import { openTestHouse, type Client, type TestHouse } from "../../test/harness.ts";
import { sized } from "../../test/full-size.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const CANARY = "canary-behind-the-door";

/** Somebody who may do everything below /open in dev, and nothing elsewhere. */
async function aPrisoner(): Promise<{ projectId: string; client: Client; closedId: string }> {
  const { id: projectId } = await aProject(house.owner);
  for (const name of ["open", "closed", "open-too"])
    await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name });
  const put = (secretPath: string) =>
    house.owner.post("/api/v4/secrets/K", { projectId, environment: "dev", secretPath, secretValue: CANARY });
  for (const path of ["/", "/closed", "/open-too"]) await put(path);
  const closed = await house.owner.get(`/api/v2/folders?projectId=${projectId}&environment=dev&path=/`);
  const folders = closed.body.folders as { id: string; name: string }[];
  const conditions = { environment: { $eq: "dev" }, secretPath: { $glob: "/open/**" } };
  const role = await aRole(
    house.owner,
    projectId,
    ["secrets", "secret-folders", "secret-imports", "secret-rollback"].map((subject) => ({
      subject,
      action: subject === "secret-rollback" ? ["read", "create"] : ["read", "create", "edit", "delete"],
      conditions,
    })),
  );
  const { client } = await anIdentity(house.owner, house.base, projectId, { roles: [{ role }] });
  return { projectId, client, closedId: folders.find(({ name }) => name === "closed")?.id ?? "" };
}

const PIECES = [
  "open",
  "closed",
  "..",
  ".",
  "",
  "%2e%2e",
  "%2f",
  "%252e",
  "\\",
  "\0",
  "．．",
  "‥",
  "OPEN",
  "*",
  "**",
  "open%00",
];
const hostilePath = fc
  .array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 5 })
  .map((pieces) => `/${pieces.join("/")}`);

test("S-23 no spelling of a path leads anybody to what another spelling of it is closed to them, on any route", async () => {
  const { projectId, client, closedId } = await aPrisoner();
  const state = async () =>
    JSON.stringify(
      (
        await house.owner.get(`/api/v4/secrets?projectId=${projectId}&environment=dev&recursive=true`)
      ).body.secrets.filter(
        ({ secretPath }: { secretPath: string }) => !`${secretPath}/`.startsWith("/open/"),
      ),
    );
  const before = await state();
  const at = { projectId, environment: "dev" };
  const tries = async (path: string) => {
    const query = `projectId=${projectId}&environment=dev`;
    const spelled = [encodeURIComponent(path), encodeURI(path)];
    const answers = [];
    for (const text of spelled) {
      answers.push(
        await client.get(`/api/v4/secrets?${query}&secretPath=${text}&recursive=true`),
        await client.get(`/api/v4/secrets/K?${query}&secretPath=${text}`),
        await client.get(`/api/v2/folders?${query}&path=${text}&recursive=true`),
        await client.get(`/api/v1/folders/${projectId}/dev/${text}`),
        await client.get(`/api/v2/secret-imports?${query}&path=${text}`),
        await client.get(`/api/v1/projects/${projectId}/secrets/export?environment=dev&secretPath=${text}`),
      );
    }
    answers.push(
      await client.post("/api/v4/secrets/PLANTED", { ...at, secretPath: path, secretValue: "x" }),
      await client.patch("/api/v4/secrets/K", { ...at, secretPath: path, secretValue: "x" }),
      await client.delete("/api/v4/secrets/K", { ...at, secretPath: path }),
      await client.post("/api/v2/folders", { ...at, path, name: "planted" }),
      await client.delete("/api/v2/folders/closed", { ...at, path, forceDelete: true }),
      await client.post("/api/v2/secret-imports", {
        ...at,
        path: "/open",
        import: { environment: "dev", path },
      }),
      await client.post(`/api/v1/projects/${projectId}/secrets/rollback`, {
        environment: "dev",
        secretPath: path,
        recursive: true,
        at: new Date(0).toISOString(),
      }),
      await client.post(`/api/v2/folders/${closedId}/move`, {
        projectId,
        destinationEnvironment: "dev",
        destinationPath: path,
      }),
    );
    return answers;
  };
  await fc.assert(
    fc.asyncProperty(hostilePath, async (path) => {
      for (const answer of await tries(path)) {
        assert.ok(answer.status < 500, `${path}: ${answer.status}`);
        assert.ok(
          !JSON.stringify(answer.body).includes(CANARY),
          `${path} shows ${JSON.stringify(answer.body)}`,
        );
      }
      assert.equal(await state(), before, `${path} changed something outside`);
    }),
    {
      numRuns: sized(7, 25),
      examples: [["/open/../closed"], ["/closed"], ["//closed/"], ["/open-too"], ["/"]],
    },
  );
});

test("S-24 names that mean something elsewhere are refused or mean only themselves", async () => {
  const { id: projectId } = await aProject(house.owner);
  const odd = ["..", ".", "*", "", "\u200b", "a\u200bb", "a/b", "a\\b", "\0", "%2e", "ROOT/", "💥"];
  for (const name of odd) {
    const made = await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name });
    assert.equal(made.status, 422, `a folder called ${JSON.stringify(name)}`);
    const environment = await house.owner.post(`/api/v1/projects/${projectId}/environments`, {
      name: "x",
      slug: name,
    });
    assert.equal(environment.status, 422, `an environment called ${JSON.stringify(name)}`);
  }
  for (const name of [
    "root",
    "default",
    "shared",
    "personal",
    "batch",
    "id",
    "null",
    "__proto__",
    "constructor",
  ]) {
    const folder = await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name });
    assert.equal(folder.status, 200, name);
    const at = { projectId, environment: "dev", secretPath: `/${name}`, secretValue: name };
    await house.owner.post("/api/v4/secrets/batch", {
      projectId,
      environment: "dev",
      secretPath: `/${name}`,
      secrets: [{ secretKey: name, secretValue: name }],
    });
    const list = await house.owner.get(
      `/api/v4/secrets?projectId=${projectId}&environment=dev&secretPath=${at.secretPath}`,
    );
    assert.deepEqual(
      list.body.secrets.map((one: Record<string, unknown>) => [one["secretKey"], one["secretValue"]]),
      [[name, name]],
    );
  }
  const root = await house.owner.get(`/api/v4/secrets?projectId=${projectId}&environment=dev`);
  assert.deepEqual(root.body.secrets, []);
  for (const name of ["..", "*", "a b", "ключ"]) {
    const path = `/api/v3/secrets/raw/${encodeURIComponent(name)}`;
    const made = await house.owner.post(path, {
      workspaceId: projectId,
      environment: "dev",
      secretValue: name,
    });
    if (made.status !== 200) continue;
    const other = `/api/v3/secrets/raw/OTHER?workspaceId=${projectId}&environment=dev`;
    assert.equal((await house.owner.get(other)).status, 404, `${name} is not a pattern`);
  }
});

test("S-30 pages of a history are whole numbers within bounds, or refused", async () => {
  const { id: projectId } = await aProject(house.owner);
  const at = { projectId, environment: "dev" };
  const { secret } = (await house.owner.post("/api/v4/secrets/A", { ...at, secretValue: "0" })).body;
  for (const secretValue of ["1", "2"]) await house.owner.patch("/api/v4/secrets/A", { ...at, secretValue });
  const page = (query: string) => house.owner.get(`/api/v4/secrets/id/${secret.id}/versions?${query}`);
  for (const bad of ["0", "-1", "101", "1e9", "NaN", "1.5", "0x1", "1&limit=2", "%20"])
    assert.equal((await page(`limit=${bad}`)).status, 422, bad);
  for (const bad of ["-1", "1e3", "x"]) assert.equal((await page(`offset=${bad}`)).status, 422, bad);
  const numbers = async (query: string) =>
    (await page(query)).body.versions.map(({ version }: { version: number }) => version);
  assert.deepEqual(await numbers("limit=2"), [3, 2]);
  assert.deepEqual(await numbers("limit=2&offset=2"), [1]);
  assert.deepEqual(await numbers("offset=3"), []);
  assert.deepEqual(await numbers("limit=&offset="), [3, 2, 1]);
});

test("S-41 what means something in a statement means nothing in a name, a path or a filter", async () => {
  const { id: projectId } = await aProject(house.owner);
  const at = { projectId, environment: "dev" };
  for (const name of ["a_b", "aXb", "a-b"]) {
    await house.owner.post("/api/v2/folders", { ...at, path: `/${name}`, name: "in" });
    await house.owner.post("/api/v4/secrets/K", { ...at, secretPath: `/${name}/in`, secretValue: name });
  }
  const below = async (path: string) =>
    (
      await house.owner.get(
        `/api/v4/secrets?projectId=${projectId}&environment=dev&secretPath=${path}&recursive=true`,
      )
    ).body.secrets.map(({ secretValue }: { secretValue: string }) => secretValue);
  assert.deepEqual(await below("/a_b"), ["a_b"]);
  const folders = await house.owner.get(
    `/api/v2/folders?projectId=${projectId}&environment=dev&path=/a_b&recursive=true`,
  );
  assert.equal(folders.body.folders.length, 1);
  const hostile = [
    "' OR 1=1 --",
    "%",
    "_",
    "\\",
    "'; DROP TABLE secrets; --",
    "key=a,value=' OR '1",
    "|||",
    ",,",
  ];
  for (const text of hostile) {
    const filter = encodeURIComponent(text);
    for (const name of ["tagSlugs", "metadataFilter"]) {
      const answer = await house.owner.get(
        `/api/v4/secrets?projectId=${projectId}&environment=dev&secretPath=/a_b/in&${name}=${filter}`,
      );
      assert.equal(answer.status, 200, `${name}=${text}`);
      const isVoid = name === "tagSlugs" && text.replaceAll(",", "").trim() === "";
      if (name === "tagSlugs") assert.equal(answer.body.secrets.length, isVoid ? 1 : 0, `${name}=${text}`);
    }
    assert.equal(
      (await house.owner.get(`/api/v4/secrets?projectId=${projectId}&environment=${filter}`)).status,
      404,
    );
  }
  // A tree that is moved or deleted takes nothing along whose name only looks alike.
  const moved = await house.owner.patch("/api/v2/folders/a_b", { ...at, name: "moved" });
  assert.equal(moved.status, 200, JSON.stringify(moved.body));
  assert.deepEqual(
    [await below("/moved"), await below("/aXb"), await below("/a-b")],
    [["a_b"], ["aXb"], ["a-b"]],
  );
  await house.owner.post("/api/v2/folders", { ...at, name: "a_b" });
  await house.owner.delete("/api/v2/folders/a_b", { ...at, forceDelete: true });
  assert.deepEqual([await below("/aXb"), await below("/a-b")], [["aXb"], ["a-b"]]);
});

test("a folder is moved only by somebody who may make each folder below it where it goes", async () => {
  const { id: projectId } = await aProject(house.owner);
  const make = async (name: string, path: string) =>
    (await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name, path })).body.folder
      .id as string;
  const [top] = [await make("src", "/"), await make("sub", "/src"), await make("dst", "/")];
  const everything = ["secrets", "secret-folders", "secret-imports"].map((subject) => ({
    subject,
    action:
      subject === "secrets"
        ? ["readValue", "describeSecret", "create", "edit", "delete"]
        : ["read", "create", "edit", "delete"],
  }));
  const kept = {
    subject: "secret-folders",
    action: "create",
    inverted: true,
    conditions: { secretPath: { $eq: "/dst/src/sub" } },
  };
  const mover = async (rules: readonly unknown[]) => {
    const role = await aRole(house.owner, projectId, rules as Parameters<typeof aRole>[2]);
    return (await anIdentity(house.owner, house.base, projectId, { roles: [{ role }] })).client;
  };
  const move = { projectId, destinationEnvironment: "dev", destinationPath: "/dst" };
  const path = `/api/v2/folders/${top}/move`;
  assert.equal((await (await mover([...everything, kept])).post(path, move)).status, 403);
  assert.equal((await (await mover(everything)).post(path, move)).status, 200);
});
