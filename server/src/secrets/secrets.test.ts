import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, anIdentity, aRole } from "../../test/builders.ts";
import { clientOf, openTestHouse, type Client, type TestHouse } from "../../test/harness.ts";
import type { NumberedFact } from "../platform/outbox/index.ts";

let house: TestHouse;
let facts: NumberedFact[] = [];
before(async () => {
  house = await openTestHouse();
  house.house.tail.onFacts((more) => void facts.push(...more));
});
after(() => house.close());

const at = (projectId: string, more: Record<string, unknown> = {}) => ({
  projectId,
  environment: "dev",
  secretPath: "/",
  ...more,
});
const list = (projectId: string, more = "") =>
  `/api/v4/secrets?projectId=${projectId}&environment=dev${more}`;

async function settled(): Promise<NumberedFact[]> {
  // The tail delivers facts in order: once a later one has arrived, all before it have.
  const marker = await aProject(house.owner);
  for (;;) {
    if (facts.some((fact) => (fact.data as { projectId?: string }).projectId === marker.id)) break;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const seen = facts;
  facts = [];
  return seen;
}

const changesOf = (seen: readonly NumberedFact[], projectId: string) =>
  seen
    .filter(
      (fact) =>
        fact.name.startsWith("secrets.") && (fact.data as { projectId: string }).projectId === projectId,
    )
    .map((fact) => {
      const data = fact.data as { environment: string; path: string; change?: string; keys?: string[] };
      return `${data.change ?? "import"} ${data.environment}${data.path} ${(data.keys ?? []).join(",")}`.trim();
    });

test("a secret is created, read, changed, renamed and deleted, and keeps its id until then", async () => {
  const { id: projectId } = await aProject(house.owner);
  const created = await house.owner.post(
    "/api/v4/secrets/DB_URL",
    at(projectId, {
      secretValue: "postgres://",
      secretComment: "main",
      secretMetadata: [
        { key: "team", value: "core" },
        { key: "pin", value: "1234", isEncrypted: true },
      ],
      secretReminderNote: "rotate",
      secretReminderRepeatDays: 30,
    }),
  );
  assert.equal(created.status, 200, JSON.stringify(created.body));
  const { secret } = created.body;
  assert.equal(secret.version, 1);
  const read = await house.owner.get(`/api/v4/secrets/DB_URL?projectId=${projectId}&environment=dev`);
  assert.equal(read.status, 200, JSON.stringify(read.body));
  assert.equal(read.body.secret.secretValue, "postgres://");
  assert.deepEqual(read.body.secret.secretMetadata, [
    { key: "team", value: "core", isEncrypted: false },
    { key: "pin", value: "1234", isEncrypted: true },
  ]);
  const renamed = await house.owner.patch(
    "/api/v4/secrets/DB_URL",
    at(projectId, { newSecretName: "DATABASE_URL", secretValue: "p2" }),
  );
  assert.equal(renamed.status, 200, JSON.stringify(renamed.body));
  assert.equal(renamed.body.secret.id, secret.id);
  assert.equal(renamed.body.secret.version, 2);
  assert.equal(renamed.body.secret.secretComment, "main");
  assert.equal(
    (await house.owner.get(`/api/v4/secrets/DB_URL?projectId=${projectId}&environment=dev`)).status,
    404,
  );
  const byId = await house.owner.get(`/api/v3/secrets/raw/id/${secret.id}`);
  assert.equal(byId.body.secret.secretKey, "DATABASE_URL");
  const old = await house.owner.get(
    `/api/v4/secrets/DATABASE_URL?projectId=${projectId}&environment=dev&version=1`,
  );
  assert.equal(old.body.secret.secretValue, "postgres://");
  const gone = await house.owner.delete("/api/v4/secrets/DATABASE_URL", at(projectId));
  assert.equal(gone.status, 200, JSON.stringify(gone.body));
  assert.equal(gone.body.secret.id, secret.id);
  assert.equal(
    (await house.owner.get(`/api/v4/secrets/DATABASE_URL?projectId=${projectId}&environment=dev`)).status,
    404,
  );
  assert.deepEqual(changesOf(await settled(), projectId), [
    "create dev/ DB_URL",
    "delete dev/ DB_URL",
    "create dev/ DATABASE_URL",
    "delete dev/ DATABASE_URL",
  ]);
});

test("a name that is taken is refused with 400, an unknown one with 404", async () => {
  const { id: projectId } = await aProject(house.owner);
  const body = at(projectId, { secretValue: "x" });
  assert.equal((await house.owner.post("/api/v4/secrets/A", body)).status, 200);
  assert.equal((await house.owner.post("/api/v4/secrets/A", body)).status, 400);
  assert.equal((await house.owner.patch("/api/v4/secrets/B", body)).status, 404);
  assert.equal((await house.owner.delete("/api/v4/secrets/B", at(projectId))).status, 404);
  assert.equal(
    (await house.owner.post("/api/v4/secrets/B", at(projectId, { secretValue: "x", secretPath: "/nowhere" })))
      .status,
    404,
  );
  assert.equal(
    (await house.owner.post("/api/v4/secrets/B", at(projectId, { secretValue: "x", environment: "moon" })))
      .status,
    404,
  );
  assert.equal((await house.owner.get(list(projectId, "&secretPath=/nowhere"))).status, 404);
});

test("a batch is all or nothing", async () => {
  const { id: projectId } = await aProject(house.owner);
  const made = await house.owner.post(
    "/api/v4/secrets/batch",
    at(projectId, {
      secrets: [
        { secretKey: "A", secretValue: "1" },
        { secretKey: "B", secretValue: "2" },
      ],
    }),
  );
  assert.equal(made.status, 200, JSON.stringify(made.body));
  const clash = await house.owner.post(
    "/api/v4/secrets/batch",
    at(projectId, {
      secrets: [
        { secretKey: "C", secretValue: "1" },
        { secretKey: "B", secretValue: "2" },
      ],
    }),
  );
  assert.equal(clash.status, 400);
  const keys = async () =>
    (await house.owner.get(list(projectId))).body.secrets.map(
      (s: { secretKey: string; secretValue: string }) => `${s.secretKey}=${s.secretValue}`,
    );
  assert.deepEqual(await keys(), ["A=1", "B=2"]);
  const changed = await house.owner.patch(
    "/api/v4/secrets/batch",
    at(projectId, {
      mode: "upsert",
      secrets: [
        { secretKey: "A", secretValue: "10" },
        { secretKey: "D", secretValue: "4" },
      ],
    }),
  );
  assert.equal(changed.status, 200, JSON.stringify(changed.body));
  assert.deepEqual(await keys(), ["A=10", "B=2", "D=4"]);
  const gone = await house.owner.delete(
    "/api/v4/secrets/batch",
    at(projectId, { secrets: [{ secretKey: "A" }, { secretKey: "D" }] }),
  );
  assert.equal(gone.status, 200, JSON.stringify(gone.body));
  assert.deepEqual(await keys(), ["B=2"]);
  assert.deepEqual(changesOf(await settled(), projectId), [
    "create dev/ A,B",
    "create dev/ D",
    "update dev/ A",
    "delete dev/ A,D",
  ]);
});

test("moving keeps the id, copying makes a new one; both say what happened where", async () => {
  const { id: projectId } = await aProject(house.owner);
  const { secret } = (await house.owner.post("/api/v4/secrets/A", at(projectId, { secretValue: "1" }))).body;
  const trip = {
    projectId,
    sourceEnvironment: "dev",
    destinationEnvironment: "prod",
    secretIds: [secret.id],
  };
  const copied = await house.owner.post("/api/v4/secrets/copy", trip);
  assert.equal(copied.status, 200, JSON.stringify(copied.body));
  const inProd = `/api/v4/secrets/A?projectId=${projectId}&environment=prod`;
  assert.notEqual((await house.owner.get(inProd)).body.secret.id, secret.id);
  assert.equal((await house.owner.post("/api/v4/secrets/move", trip)).status, 400);
  assert.equal(
    (await house.owner.post("/api/v4/secrets/move", { ...trip, destinationEnvironment: "staging" })).status,
    200,
  );
  assert.equal(
    (await house.owner.get(`/api/v4/secrets/A?projectId=${projectId}&environment=staging`)).body.secret.id,
    secret.id,
  );
  assert.deepEqual(changesOf(await settled(), projectId), [
    "create dev/ A",
    "create prod/ A",
    "delete dev/ A",
    "create staging/ A",
  ]);
});

test("a personal override is its owner's alone and is announced to nobody", async () => {
  const { id: projectId } = await aProject(house.owner);
  const other = await anIdentity(house.owner, house.base, projectId, { roles: [{ role: "member" }] });
  await house.owner.post("/api/v4/secrets/A", at(projectId, { secretValue: "shared" }));
  const made = await other.client.post(
    "/api/v4/secrets/A",
    at(projectId, { secretValue: "mine", type: "personal" }),
  );
  assert.equal(made.status, 200, JSON.stringify(made.body));
  const values = async (client: Client) =>
    (await client.get(list(projectId, "&includePersonalOverrides=true"))).body.secrets.map(
      (s: { type: string; secretValue: string }) => `${s.type}:${s.secretValue}`,
    );
  assert.deepEqual(await values(other.client), ["shared:shared", "personal:mine"]);
  assert.deepEqual(await values(house.owner), ["shared:shared"]);
  const byId = `/api/v4/secrets/id/${made.body.secret.id}`;
  assert.equal((await other.client.get(byId)).body.secret.secretValue, "mine");
  const refused = await house.owner.get(byId);
  assert.equal(refused.status, 404, "not by its id either, not even to an administrator");
  assert.ok(!JSON.stringify(refused.body).includes("mine"));
  assert.equal((await house.owner.delete("/api/v4/secrets/A", at(projectId))).status, 200);
  assert.deepEqual(await values(other.client), []);
  assert.deepEqual(changesOf(await settled(), projectId), ["create dev/ A", "delete dev/ A"]);
});

test("a reader sees only what its rules allow: not the names, not the values, not whether there is more", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name: "closed" });
  for (const [key, path] of [
    ["OPEN_A", "/"],
    ["SHUT_B", "/"],
    ["X", "/closed"],
  ]) {
    assert.equal(
      (
        await house.owner.post(
          `/api/v4/secrets/${key}`,
          at(projectId, { secretPath: path, secretValue: key }),
        )
      ).status,
      200,
    );
  }
  const role = await aRole(house.owner, projectId, [
    {
      subject: "secrets",
      action: ["describeSecret", "readValue"],
      conditions: { environment: { $eq: "dev" }, secretName: { $glob: "OPEN_*" } },
    },
    { subject: "secrets", action: ["describeSecret"], conditions: { environment: { $eq: "staging" } } },
  ]);
  const reader = await anIdentity(house.owner, house.base, projectId, { roles: [{ role }] });
  const seen = await reader.client.get(list(projectId));
  assert.deepEqual(
    seen.body.secrets.map((s: { secretKey: string }) => s.secretKey),
    ["OPEN_A"],
  );
  for (const key of ["SHUT_B", "SHUT_UNKNOWN"])
    assert.equal(
      (await reader.client.get(`/api/v4/secrets/${key}?projectId=${projectId}&environment=dev`)).status,
      403,
    );
  for (const path of ["/closed", "/unknown"])
    assert.equal((await reader.client.get(list(projectId, `&secretPath=${path}`))).status, 403);
  await house.owner.post("/api/v4/secrets/S", at(projectId, { environment: "staging", secretValue: "hush" }));
  const hidden = await reader.client.get(`/api/v4/secrets/S?projectId=${projectId}&environment=staging`);
  assert.equal(hidden.body.secret.secretValueHidden, true);
  assert.notEqual(hidden.body.secret.secretValue, "hush");
});

test("folders are created with their parents, renamed and moved with what is in them, and deleted", async () => {
  const { id: projectId } = await aProject(house.owner);
  const made = await house.owner.post("/api/v2/folders", {
    projectId,
    environment: "dev",
    path: "/a/b",
    name: "c",
  });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  assert.equal(made.body.folder.path, "/a/b/c");
  await house.owner.post("/api/v4/secrets/K", at(projectId, { secretPath: "/a/b/c", secretValue: "v" }));
  const folders = await house.owner.get(
    `/api/v2/folders?projectId=${projectId}&environment=dev&path=/&recursive=True`,
  );
  assert.deepEqual(
    folders.body.folders.map((f: { path: string }) => f.path),
    ["/a", "/a/b", "/a/b/c"],
  );
  const b = folders.body.folders[1];
  const renamed = await house.owner.patch(`/api/v2/folders/${b.id}`, {
    projectId,
    environment: "dev",
    name: "x",
  });
  assert.equal(renamed.status, 200, JSON.stringify(renamed.body));
  assert.equal(
    (await house.owner.get(list(projectId, "&secretPath=/a/x/c"))).body.secrets[0].secretValue,
    "v",
  );
  const moved = await house.owner.post(`/api/v2/folders/${b.id}/move`, {
    projectId,
    destinationEnvironment: "prod",
  });
  assert.equal(moved.status, 200, JSON.stringify(moved.body));
  assert.equal(
    (await house.owner.get(`/api/v4/secrets/K?projectId=${projectId}&environment=prod&secretPath=/x/c`)).body
      .secret.secretValue,
    "v",
  );
  assert.equal(
    (await house.owner.delete(`/api/v2/folders/x`, { projectId, environment: "prod" })).status,
    400,
  );
  assert.equal(
    (await house.owner.delete(`/api/v2/folders/x`, { projectId, environment: "prod", forceDelete: true }))
      .status,
    200,
  );
  assert.deepEqual(changesOf(await settled(), projectId), [
    "create dev/a/b/c K",
    "delete dev/a/b/c K",
    "create dev/a/x/c K",
    "delete dev/a/x/c K",
    "create prod/x/c K",
    "delete prod/x/c K",
  ]);
});

test("every spelling of a path means the same folder or is refused", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name: "a" });
  await house.owner.post("/api/v4/secrets/K", at(projectId, { secretPath: "/a", secretValue: "v" }));
  for (const path of ["/a", "a", "/a/", "//a", "%2Fa"])
    assert.equal(
      (await house.owner.get(list(projectId, `&secretPath=${path}`))).body.secrets?.length,
      1,
      path,
    );
  for (const path of [
    "/a/..",
    "/./a",
    "/a%00",
    "/%252e%252e",
    "/a%5Cb",
    "/\u0430",
    "/a%2f..%2f..",
    `/${"a/".repeat(300)}`,
  ]) {
    assert.equal((await house.owner.get(list(projectId, `&secretPath=${path}`))).status, 422, path);
  }
});

test("tags are made, put on secrets, filtered by and taken away", async () => {
  const { id: projectId } = await aProject(house.owner);
  const { tag } = (await house.owner.post(`/api/v1/projects/${projectId}/tags`, { slug: "db", color: "" }))
    .body;
  assert.equal(
    (await house.owner.get(`/api/v1/workspace/${projectId}/tags/slug/db`)).body.workspaceTag.id,
    tag.id,
  );
  assert.equal((await house.owner.get(`/api/v1/projects/${projectId}/tags/slug/none`)).status, 404);
  await house.owner.post("/api/v4/secrets/A", at(projectId, { secretValue: "1", tagIds: [tag.id] }));
  await house.owner.post("/api/v4/secrets/B", at(projectId, { secretValue: "2" }));
  assert.deepEqual(
    (await house.owner.get(list(projectId, "&tagSlugs=db"))).body.secrets.map(
      (s: { secretKey: string }) => s.secretKey,
    ),
    ["A"],
  );
  const role = await aRole(house.owner, projectId, [
    { subject: "secrets", action: ["read", "edit"], conditions: { secretTags: { $in: ["db"] } } },
  ]);
  const reader = await anIdentity(house.owner, house.base, projectId, { roles: [{ role }] });
  assert.deepEqual(
    (await reader.client.get(list(projectId))).body.secrets.map((s: { secretKey: string }) => s.secretKey),
    ["A"],
  );
  assert.equal(
    (await reader.client.patch("/api/v4/secrets/B", at(projectId, { tagIds: [tag.id] }))).status,
    403,
  );
  assert.equal((await house.owner.delete(`/api/v1/projects/${projectId}/tags/${tag.id}`)).status, 200);
  assert.deepEqual(
    (await house.owner.get(list(projectId))).body.secrets.map((s: { tags: unknown[] }) => s.tags.length),
    [0, 0],
  );
});

test("reading a value leaves an audit row", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v4/secrets/A", at(projectId, { secretValue: "1" }));
  await house.owner.get(`/api/v4/secrets/A?projectId=${projectId}&environment=dev`);
  await house.owner.get(list(projectId));
  await house.house.secrets.flush();
  const { rows } = await withDatabase((query) =>
    query("SELECT event, metadata FROM audit_log WHERE project_id = $1 ORDER BY id", [projectId]),
  );
  assert.deepEqual(
    rows.map((row) => row["event"]),
    ["create-project", "create-secret", "get-secret", "get-secrets"],
  );
  assert.ok(!JSON.stringify(rows).includes('"1"'));
});

test("a ciphertext that was moved to another row cannot be decrypted", async () => {
  const { id: projectId } = await aProject(house.owner);
  for (const key of ["A", "B"])
    await house.owner.post(`/api/v4/secrets/${key}`, at(projectId, { secretValue: `value of ${key}` }));
  await withDatabase((query) =>
    query(
      "UPDATE secrets s SET value = o.value FROM secrets o WHERE s.project_id = $1 AND o.project_id = $1 AND s.id <> o.id",
      [projectId],
    ),
  );
  const read = await house.owner.get(`/api/v4/secrets/A?projectId=${projectId}&environment=dev`);
  assert.equal(read.status, 500);
  assert.ok(!JSON.stringify(read.body).includes("value of"));
});

test("nothing of a secret is readable in the database", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post(
    "/api/v4/secrets/A",
    at(projectId, {
      secretValue: "canary-value",
      secretComment: "canary-comment",
      secretMetadata: [{ key: "k", value: "canary-meta", isEncrypted: true }],
    }),
  );
  const { rows } = await withDatabase((query) =>
    query(
      "SELECT s::text AS a, v::text AS b FROM secrets s JOIN secret_versions v ON v.secret_id = s.id WHERE s.project_id = $1",
      [projectId],
    ),
  );
  assert.equal(rows.length, 1);
  assert.ok(!JSON.stringify(rows).includes("canary"));
  assert.ok(!JSON.stringify(rows).includes(Buffer.from("canary").toString("hex")));
});

async function withDatabase<T>(
  work: (
    query: (text: string, values: unknown[]) => Promise<{ rows: Record<string, unknown>[] }>,
  ) => Promise<T>,
): Promise<T> {
  const client = await house.house.database.connect();
  try {
    return await work((text, values) => client.query(text, values));
  } finally {
    await client.end();
  }
}

test("S-28 nobody makes a value readable for themselves by moving, copying, renaming or importing it", async () => {
  const { id: projectId } = await aProject(house.owner);
  for (const name of ["open", "closed"])
    await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name });
  const { secret } = (
    await house.owner.post("/api/v4/secrets/K", at(projectId, { secretPath: "/closed", secretValue: "hush" }))
  ).body;
  const everything = ["create", "edit", "delete", "describeSecret"];
  const role = await aRole(house.owner, projectId, [
    { subject: "secrets", action: everything },
    { subject: "secrets", action: "readValue", conditions: { secretPath: { $eq: "/open" } } },
    { subject: "secrets", action: "readValue", conditions: { secretName: { $glob: "OPEN_*" } } },
    { subject: ["secret-folders", "secret-imports"], action: ["read", "create", "edit", "delete"] },
  ]);
  const thief = (await anIdentity(house.owner, house.base, projectId, { roles: [{ role }] })).client;
  const trip = {
    projectId,
    sourceEnvironment: "dev",
    sourceSecretPath: "/closed",
    destinationEnvironment: "dev",
    destinationSecretPath: "/open",
    secretIds: [secret.id],
  };
  const closed = (
    await house.owner.get(`/api/v2/folders?projectId=${projectId}&environment=dev&path=/`)
  ).body.folders.find((f: { name: string }) => f.name === "closed");
  const attempts = [
    () => thief.post("/api/v4/secrets/move", trip),
    () => thief.post("/api/v4/secrets/copy", trip),
    () => thief.patch("/api/v4/secrets/K", at(projectId, { secretPath: "/closed", newSecretName: "OPEN_K" })),
    () =>
      thief.post("/api/v2/secret-imports", {
        projectId,
        environment: "dev",
        path: "/open",
        import: { environment: "dev", path: "/closed" },
      }),
    async () => {
      const gone = (
        await house.owner.get(`/api/v2/folders?projectId=${projectId}&environment=dev&path=/`)
      ).body.folders.find((f: { name: string }) => f.name === "open");
      await house.owner.delete(`/api/v2/folders/${gone.id}`, { projectId, environment: "dev" });
      return thief.patch(`/api/v2/folders/${closed.id}`, { projectId, environment: "dev", name: "open" });
    },
  ];
  for (const attempt of attempts) assert.equal((await attempt()).status, 403);
});

test("S-31 unknown and internal fields are ignored, and a prototype is not a name for one", async () => {
  const { id: projectId } = await aProject(house.owner);
  const raw = JSON.stringify(
    at(projectId, { secretValue: "v", id: "x", version: 9, orgId: "x", ownerId: "x" }),
  ).replace("{", '{"__proto__":{"type":"personal"},');
  const made = await house.owner.call("POST", "/api/v4/secrets/constructor", {
    rawBody: raw,
    headers: { "content-type": "application/json" },
  });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  assert.deepEqual(
    [made.body.secret.version, made.body.secret.type, made.body.secret.secretKey],
    [1, "shared", "constructor"],
  );
  const read = await house.owner.get(`/api/v4/secrets/constructor?projectId=${projectId}&environment=dev`);
  assert.equal(read.body.secret.secretValue, "v");
});

test("the older shapes of requests reach the same secrets", async () => {
  const { id: projectId, slug } = await aProject(house.owner);
  const made = await house.owner.post("/api/v3/secrets/raw/A/", {
    workspaceId: projectId,
    environment: "dev",
    secretValue: "1",
    secretName: "A",
  });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  const bySlug = await house.owner.get(
    `/api/v3/secrets/raw?workspaceId=&workspaceSlug=${slug}&environment=dev&secretPath=&include_imports=True`,
  );
  assert.deepEqual(
    bySlug.body.secrets.map((s: { secretKey: string; _id: string; workspace: string }) => [
      s.secretKey,
      s._id,
      s.workspace,
    ]),
    [["A", made.body.secret.id, projectId]],
  );
  assert.equal(
    (
      await house.owner.patch("/api/v3/secrets/raw/A", {
        projectSlug: slug,
        environment: "dev",
        tagIds: [],
        secretReminderNote: null,
      })
    ).body.secret.version,
    2,
  );
  assert.equal(
    (
      await house.owner.post("/api/v3/secrets/batch/raw", {
        workspaceId: projectId,
        environment: "dev",
        secrets: [{ secretKey: "B", secretValue: "2" }],
      })
    ).status,
    200,
  );
  assert.equal(
    (
      await house.owner.delete("/api/v3/secrets/raw/A", {
        workspaceId: projectId,
        environment: "dev",
        type: "personal",
      })
    ).status,
    404,
  );
  assert.equal(
    (await house.owner.delete("/api/v3/secrets/raw/A", { workspaceId: projectId, environment: "dev" }))
      .status,
    200,
  );
  assert.equal((await house.owner.get("/api/v3/secrets/raw?environment=dev")).status, 422);
  const folder = await house.owner.post("/api/v1/folders", {
    workspaceId: projectId,
    environment: "dev",
    name: "f",
    directory: "/",
  });
  assert.equal(folder.body.folder.path, "/f");
  assert.equal(
    (await house.owner.get(`/api/v1/folders/${folder.body.folder.id}`)).body.folder.environment.envSlug,
    "dev",
  );
  assert.equal(
    (await house.owner.get(`/api/v1/folders?workspaceId=${projectId}&environment=dev&directory=/`)).body
      .folders.length,
    1,
  );
  assert.equal(
    (
      await house.owner.delete("/api/v1/folders/f", {
        workspaceId: projectId,
        environment: "dev",
        directory: "/",
        folderName: "f",
      })
    ).status,
    200,
  );
});

test("two writers of one secret at once both succeed, one after the other", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v4/secrets/A", at(projectId, { secretValue: "0" }));
  const second = await house.openNode();
  const other = { ...house.owner, patch: clientOf(second.base, house.owner.token).patch };
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      (n % 2 ? house.owner : other).patch("/api/v4/secrets/A", at(projectId, { secretValue: String(n) })),
    ),
  );
  assert.deepEqual(
    answers.map((answer) => answer.body.secret.version).sort((a, b) => a - b),
    Array.from({ length: 20 }, (_, n) => n + 2),
  );
  const created = await Promise.all(
    Array.from({ length: 8 }, () =>
      house.owner.post("/api/v4/secrets/B", at(projectId, { secretValue: "x" })),
    ),
  );
  assert.deepEqual(created.map((answer) => answer.status).sort(), [200, 400, 400, 400, 400, 400, 400, 400]);
});

test("S-25 a denial of something narrower holds in every list, file and history", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v2/folders", { projectId, environment: "dev", path: "/closed", name: "deep" });
  const put = (key: string, secretPath: string) =>
    house.owner.post(`/api/v4/secrets/${key}`, at(projectId, { secretPath, secretValue: `value-${key}` }));
  const hidden = (await put("HIDDEN", "/closed/deep")).body.secret;
  await put("SHOWN", "/");
  await put("REFERS", "/");
  await house.owner.patch(
    "/api/v4/secrets/REFERS",
    at(projectId, { secretValue: "${dev.closed.deep.HIDDEN}" }),
  );
  const role = await aRole(house.owner, projectId, [
    { subject: "secrets", action: "read" },
    { subject: ["secret-folders", "secret-rollback", "tags"], action: "read" },
    {
      subject: "secrets",
      action: "read",
      inverted: true,
      conditions: { secretPath: { $glob: "/closed/**" } },
    },
  ]);
  const { client } = await anIdentity(house.owner, house.base, projectId, { roles: [{ role }] });
  const answers = [
    await client.get(list(projectId, "&recursive=true")),
    await client.get(list(projectId, "&secretPath=/closed/deep")),
    await client.get(`/api/v3/secrets/raw/id/${hidden.id}`),
    await client.get(`/api/v4/secrets/id/${hidden.id}/versions`),
    await client.get(`/api/v1/projects/${projectId}/secrets/export?environment=dev&format=json`),
    await client.post(`/api/v1/projects/${projectId}/export`, { passphrase: "correct horse battery" }),
    await client.get(`/api/v4/secrets/HIDDEN?projectId=${projectId}&environment=dev&secretPath=/closed/deep`),
  ];
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [200, 403, 403, 403, 200, 403, 403],
  );
  for (const { body } of answers) assert.ok(!JSON.stringify(body).includes("value-HIDDEN"));
  assert.deepEqual(
    answers[0]?.body.secrets.map((s: { secretKey: string }) => s.secretKey),
    ["REFERS", "SHOWN"],
  );
});
