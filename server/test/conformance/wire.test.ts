/**
 * What existing clients of this API family send and need back, statement by statement, against the server as its users
 * run it. The rules that cut across all routes carry their number (W1 …); the rest goes route by route.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { aProject, credentials, login } from "../builders.ts";
import { clientOf, OWNER, type Answer, type Client } from "../harness.ts";
import { createTestDatabase, stopOwnPostgres, type TestDatabase } from "../postgres.ts";
import { startServer, type ServerProcess } from "../process.ts";

type Project = Awaited<ReturnType<typeof aProject>>;

let database: TestDatabase;
let server: ServerProcess;
let owner: Client;
let orgId = "";
let project: Project;
let at: { workspaceId: string; environment: string };

before(async () => {
  database = await createTestDatabase();
  const { host, port, user } = database.server;
  server = await startServer({
    DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
    KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
  });
  const { body } = await clientOf(server.base).post("/api/v1/admin/bootstrap", {
    ...OWNER,
    organization: "Wire",
    domain: "W5: ignored",
  });
  orgId = body.organization.id;
  owner = clientOf(server.base, body.identity.credentials.token as string);
  project = await aProject(owner);
  at = { workspaceId: project.id, environment: "dev" };
});
after(async () => {
  await server.stop();
  await database.drop();
  await stopOwnPostgres();
});

const ok = (answer: Answer) => {
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  assert.match(answer.headers.get("content-type") ?? "", /^application\/json/, "W7");
  return answer.body;
};
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const has = (thing: Record<string, unknown>, ...fields: readonly string[]) => {
  for (const field of fields) assert.ok(field in thing, `${field} is missing in ${JSON.stringify(thing)}`);
  for (const field of ["createdAt", "updatedAt"])
    if (field in thing) assert.match(String(thing[field]), ISO, `W8 ${field}`);
  for (const field of ["version", "position"])
    if (field in thing) assert.ok(Number.isInteger(thing[field]), `W9 ${field}`);
};
const RAW = [
  "id,_id,workspace,environment,version,type,secretKey,secretValue,secretComment,secretPath,secretValueHidden",
  "secretMetadata,tags,skipMultilineEncoding,secretReminderNote,secretReminderRepeatDays,createdAt,updatedAt",
  "actor,isRotatedSecret,rotationId",
].flatMap((line) => line.split(","));
const list = (more = "") =>
  `/api/v3/secrets/raw?workspaceId=${project.id}&environment=dev&secretPath=%2F${more}`;
const put = async (name: string, more: Record<string, unknown> = {}) =>
  ok(await owner.post(`/api/v3/secrets/raw/${name}`, { ...at, secretValue: "v", ...more })).secret;
const folder = async (name: string, more: Record<string, unknown> = {}) =>
  ok(await owner.post("/api/v1/folders", { ...at, name, path: "/", ...more })).folder;

test("W1 W21 W22 one slash behind, capital booleans and a needless token are forgiven", async () => {
  const { identity } = ok(await owner.post("/api/v1/identities", { name: "w1", organizationId: orgId }));
  const { clientId, clientSecret } = await credentials(owner, identity.id);
  const noise = clientOf(server.base, "not-a-token");
  const { accessToken } = ok(
    await noise.post("/api/v1/auth/universal-auth/login/", { clientId, clientSecret }),
  );
  ok(await noise.post("/api/v1/auth/token/renew", { accessToken }));
  ok(await owner.get(`/api/v4/secrets/?projectId=${project.id}&environment=dev&recursive=False`));
  ok(await owner.get(`/api/v2/folders?projectId=${project.id}&environment=dev&recursive=True`));
});

test("W2 W16 a login may come as a form, and its answer never lets a client loop or think that it never expires", async () => {
  const { identity } = ok(await owner.post("/api/v1/identities", { name: "w2", organizationId: orgId }));
  for (const [settings, least] of [
    [{ accessTokenTTL: 600, accessTokenMaxTTL: 0 }, 600],
    [{ accessTokenTTL: 900, accessTokenMaxTTL: 900 }, 900],
  ] as const) {
    const path = `/api/v1/auth/universal-auth/identities/${identity.id}`;
    await owner.delete(path);
    const { clientId, clientSecret } = await credentials(owner, identity.id, settings);
    const answer = ok(
      await clientOf(server.base).call("POST", "/api/v1/auth/universal-auth/login", {
        rawBody: new URLSearchParams({ clientId, clientSecret }).toString(),
        headers: { "content-type": "application/x-www-form-urlencoded" },
      }),
    );
    assert.equal(answer.tokenType, "Bearer");
    assert.ok(Number.isInteger(answer.expiresIn) && answer.expiresIn > 0, "W9");
    assert.ok(Number.isInteger(answer.accessTokenMaxTTL) && answer.accessTokenMaxTTL >= least);
    assert.ok(answer.accessTokenMaxTTL >= answer.expiresIn);
  }
});

test("W3 W4 deleting with a body and without one, posting without one", async () => {
  await put("W3");
  ok(await owner.delete("/api/v3/secrets/raw/W3", { ...at, secretName: "W3", type: "shared" }));
  const { id } = await aProject(owner);
  ok(await owner.call("DELETE", `/api/v1/projects/${id}`));
  const session = ok(await clientOf(server.base).post("/api/v3/auth/login", OWNER));
  ok(await clientOf(server.base, session.accessToken).call("POST", "/api/v1/auth/checkAuth"));
  const { identity } = ok(await owner.post("/api/v1/identities", { name: "w4", organizationId: orgId }));
  const { clientSecretId } = await credentials(owner, identity.id);
  ok(
    await owner.call(
      "POST",
      `/api/v1/auth/universal-auth/identities/${identity.id}/client-secrets/${clientSecretId}/revoke`,
    ),
  );
  ok(await owner.post(`/api/v1/auth/token-auth/identities/${identity.id}`, {}));
  const { tokenData } = ok(await owner.post(`/api/v1/auth/token-auth/identities/${identity.id}/tokens`, {}));
  ok(await owner.call("POST", `/api/v1/auth/token-auth/tokens/${tokenData.id}/revoke`));
});

test("W5 W6 what is not known is ignored, and what is empty is absent", async () => {
  const secret = await put("W5", { secretName: "W5", id: "x", organizationSlug: "x", projectId: project.id });
  ok(await owner.get(`/api/v3/secrets/raw/W5?workspaceId=${project.id}&environment=dev&secretName=W5&x=1`));
  const both = ok(await owner.get(`${list()}&workspaceSlug=`)).secrets;
  assert.ok(both.some((one: { id: string }) => one.id === secret.id));
  ok(
    await owner.get(
      `/api/v3/secrets/raw?workspaceId=&workspaceSlug=${project.slug}&environment=dev&secretPath=&tagSlugs=&metadataFilter=`,
    ),
  );
  ok(await owner.get(`/api/v4/secrets?projectId=${project.id}&environment=dev&secretPath=&tagSlugs=`));
});

test("W10 W11 a refusal is one envelope with words in it, and whatever is missing is a 404", async () => {
  const unknown = "00000000-0000-4000-8000-0000000000aa";
  const missing = [
    `/api/v3/secrets/raw/NOPE?workspaceId=${project.id}&environment=dev`,
    `/api/v3/secrets/raw?workspaceId=${project.id}&environment=nope`,
    `/api/v3/secrets/raw?workspaceId=${project.id}&environment=dev&secretPath=/nope`,
    `/api/v3/secrets/raw?workspaceId=${unknown}&environment=dev`,
    "/api/v3/secrets/raw?workspaceSlug=no-such-project&environment=dev",
    `/api/v3/secrets/raw/id/${unknown}`,
    `/api/v4/secrets/NOPE?projectId=${project.id}&environment=dev`,
    `/api/v1/folders/${unknown}`,
    `/api/v1/folders/${project.id}/dev/${encodeURIComponent("/nope")}`,
    `/api/v1/secret-imports/${unknown}`,
    `/api/v1/workspace/${unknown}`,
    "/api/v2/workspace/no-such-project",
    "/api/v1/projects/slug/no-such-project",
    `/api/v1/workspace/environments/${unknown}`,
    `/api/v1/projects/${project.id}/environments/slug/nope`,
    `/api/v1/projects/${project.id}/tags/slug/nope`,
    `/api/v1/workspace/${project.id}/tags/slug/nope`,
    `/api/v1/workspace/${project.id}/tags/${unknown}`,
    `/api/v1/identities/${unknown}`,
    `/api/v2/workspace/${project.id}/identity-memberships/${unknown}`,
  ];
  for (const path of missing) {
    const { status, body, headers } = await owner.get(path);
    assert.equal(status, 404, `${path}: ${JSON.stringify(body)}`);
    assert.match(headers.get("content-type") ?? "", /^application\/json/);
    assert.deepEqual(Object.keys(body).sort(), ["error", "message", "reqId", "statusCode"]);
    assert.deepEqual([body.error, body.statusCode, typeof body.message], ["NotFound", 404, "string"]);
  }
  for (const [method, path] of [
    ["PATCH", "/api/v3/secrets/raw/NOPE"],
    ["DELETE", "/api/v3/secrets/raw/NOPE"],
    ["DELETE", "/api/v1/folders/nope"],
  ] as const)
    assert.equal((await owner.call(method, path, { body: at })).status, 404, `${method} ${path}`);
  const invalid = await owner.get("/api/v3/secrets/raw");
  assert.deepEqual([invalid.status, invalid.body.error], [422, "ValidationFailure"]);
  assert.ok(Array.isArray(invalid.body.message));
  assert.equal((await clientOf(server.base).get(list())).status, 401);
});

test("W14 W20 lists and single secrets carry a tag that changes with the value, and an id that stays through everything", async () => {
  const { id } = await put("W14");
  const paths = [
    list(),
    `/api/v4/secrets?projectId=${project.id}&environment=dev`,
    `/api/v3/secrets/raw/W14?workspaceId=${project.id}&environment=dev`,
    `/api/v4/secrets/W14?projectId=${project.id}&environment=dev&type=shared&includeImports=true&expandSecretReferences=true`,
  ];
  const tags = new Map<string, string>();
  for (const path of paths) {
    const answer = await owner.get(path);
    ok(answer);
    const etag = answer.headers.get("etag") ?? "";
    tags.set(path, etag);
    const again = await owner.get(path, { headers: { "if-none-match": etag } });
    assert.deepEqual([again.status, again.body, again.headers.get("etag")], [304, "", etag], path);
  }
  const patched = ok(
    await owner.patch("/api/v3/secrets/raw/W14", { ...at, secretValue: "w", secretComment: "c" }),
  ).secret;
  for (const path of paths)
    assert.equal((await owner.get(path, { headers: { "if-none-match": tags.get(path) ?? "" } })).status, 200);
  const renamed = ok(await owner.patch("/api/v3/secrets/raw/W14", { ...at, newSecretName: "W20" })).secret;
  const got = ok(await owner.get(`/api/v3/secrets/raw/id/${id}`)).secret;
  assert.deepEqual([patched.id, renamed.id, got.id, got.secretKey], [id, id, id, "W20"]);
});

test("W19 a name arrives plain or percent-encoded; a slash inside one is refused, never taken for a path", async () => {
  for (const name of ["PLAIN.NAME-1_x:y@z", "ü and spaces", "100%", "a+b"]) {
    const secret = await put(encodeURIComponent(name));
    assert.equal(secret.secretKey, name);
    const path = `/api/v3/secrets/raw/${encodeURIComponent(name)}?workspaceId=${project.id}&environment=dev`;
    assert.equal(ok(await owner.get(path)).secret.id, secret.id);
  }
  const slash = await owner.post("/api/v3/secrets/raw/a%2Fb", { ...at, secretValue: "v" });
  assert.equal(slash.status, 422, JSON.stringify(slash.body));
});

test("every answer about a secret has every field that some client reads", async () => {
  const { tag } = ok(await owner.post(`/api/v1/projects/${project.id}/tags`, { slug: "shape", color: "" }));
  const full = {
    secretValue: "one",
    type: "shared",
    secretComment: "why",
    skipMultilineEncoding: true,
    tagIds: [tag.id],
    secretMetadata: [{ key: "a", value: "b" }],
    secretReminderNote: "soon",
    secretReminderRepeatDays: 3,
  };
  const made = await put("SHAPE", full);
  has(made, ...RAW);
  assert.equal((await owner.post("/api/v3/secrets/raw/SHAPE", { ...at, ...full })).status, 400, "taken");
  const read = ok(await owner.get(`/api/v3/secrets/raw/SHAPE?workspaceSlug=${project.slug}&environment=dev`));
  has(read.secret, ...RAW);
  assert.deepEqual(
    [read.secret._id, read.secret.workspace, read.secret.secretPath, read.secret.type],
    [made.id, project.id, "/", "shared"],
  );
  has(read.secret.tags[0], "id", "slug", "name", "color");
  assert.deepEqual(read.secret.secretMetadata, [{ key: "a", value: "b", isEncrypted: false }]);
  const bare = await put("BARE", { projectSlug: project.slug, workspaceId: undefined });
  assert.deepEqual([bare.secretComment, bare.tags, bare.skipMultilineEncoding], ["", [], null]);
  const cleared = ok(
    await owner.patch("/api/v3/secrets/raw/SHAPE", {
      projectSlug: project.slug,
      environment: "dev",
      tagIds: [],
      skipMultilineEncoding: false,
      metadata: { team: "x" },
    }),
  ).secret;
  has(cleared, ...RAW);
  assert.deepEqual([cleared.tags, cleared.secretValue, cleared.secretMetadata[0].key], [[], "one", "team"]);
  const hidden = ok(
    await owner.get(
      `/api/v3/secrets/raw/SHAPE?workspaceId=${project.id}&environment=dev&viewSecretValue=false`,
    ),
  ).secret;
  assert.equal(hidden.secretValueHidden, true);
  const old = ok(
    await owner.get(`/api/v3/secrets/raw/SHAPE?workspaceId=${project.id}&environment=dev&version=1`),
  ).secret;
  assert.deepEqual([old.version, old.secretComment], [1, "why"]);
  // The command line deletes personal secrets unless told otherwise, and finds none.
  assert.equal((await owner.delete("/api/v3/secrets/raw/SHAPE", { ...at, type: "personal" })).status, 404);
  has(ok(await owner.delete("/api/v3/secrets/raw/SHAPE", { ...at, type: "shared" })).secret, ...RAW);
  const batch = ok(
    await owner.post("/api/v3/secrets/batch/raw", {
      ...at,
      secretPath: "/",
      secrets: [
        { secretKey: "B1", secretValue: "1", secretComment: "", tagIds: [], secretMetadata: [] },
        { secretKey: "B2", secretValue: "2", skipMultilineEncoding: false },
      ],
    }),
  ).secrets;
  for (const one of batch) has(one, ...RAW);
});

test("defaults of the older and the newer list: references, imports, folders below", async () => {
  await folder("defaults");
  const inside = { secretPath: "/defaults" };
  await put("BASE", { ...inside, secretValue: "base" });
  await put("REFERS", { secretValue: "${dev.defaults.BASE}" });
  ok(
    await owner.post("/api/v1/secret-imports", {
      ...at,
      path: "/",
      isReplication: false,
      import: { environment: "dev", path: "/defaults" },
    }),
  );
  const valueOf = (body: { secrets: { secretKey: string; secretValue: string }[] }) =>
    body.secrets.find(({ secretKey }) => secretKey === "REFERS")?.secretValue;
  const older = ok(await owner.get(list()));
  assert.deepEqual([valueOf(older), older.imports ?? []], ["${dev.defaults.BASE}", []]);
  const newer = ok(await owner.get(`/api/v4/secrets?projectId=${project.id}&environment=dev`));
  assert.equal(valueOf(newer), "base");
  has(newer.imports[0], "secretPath", "environment", "folderId", "secrets");
  has(newer.imports[0].secrets[0], "id", "workspace", "environment", "version", "type", "secretKey");
  const asked = ok(
    await owner.get(list("&include_imports=true&expandSecretReferences=true&recursive=false")),
  );
  assert.deepEqual([valueOf(asked), asked.imports.length], ["base", 1]);
  for (const flag of ["include_imports=true", "includeImports=true"])
    assert.equal(
      ok(await owner.get(`/api/v3/secrets/raw/BASE?workspaceId=${project.id}&environment=dev&${flag}`)).secret
        .secretValue,
      "base",
      flag,
    );
  const deep = ok(await owner.get(list("&recursive=true"))).secrets;
  assert.ok(deep.some((one: { secretPath: string }) => one.secretPath === "/defaults"));
});

test("folders, at both versions of their routes and with both words for a path", async () => {
  const made = await folder("api", { description: "d" });
  has(made, "id", "name", "envId", "path", "description", "createdAt", "updatedAt", "version");
  const { folder: inner } = ok(
    await owner.post("/api/v1/folders", { ...at, name: "inner", directory: "/api" }),
  );
  assert.equal(inner.path, "/api/inner");
  for (const word of ["path", "directory"]) {
    const { folders } = ok(
      await owner.get(`/api/v1/folders?workspaceId=${project.id}&environment=dev&${word}=/api`),
    );
    assert.deepEqual(
      folders.map((one: { name: string }) => one.name),
      ["inner"],
      word,
    );
    has(folders[0], "id", "name", "version", "createdAt", "envId", "parentId", "isReserved", "description");
  }
  const got = ok(await owner.get(`/api/v1/folders/${made.id}`)).folder;
  has(got, "id", "name", "envId", "projectId", "path", "description", "environment");
  has(got.environment, "envId", "envName", "envSlug");
  const byPath = await owner.get(`/api/v1/folders/${project.id}/dev/${encodeURIComponent("/api/inner")}`);
  assert.equal(ok(byPath).folder.id, inner.id);
  const patched = ok(
    await owner.patch(`/api/v1/folders/${made.id}`, { ...at, name: "api2", path: "/", description: "e" }),
  ).folder;
  assert.deepEqual([patched.name, patched.path, patched.description], ["api2", "/api2", "e"]);
  const gone = ok(
    await owner.delete("/api/v1/folders/inner", { ...at, directory: "/api2", folderName: "inner" }),
  );
  assert.equal(gone.folder.id, inner.id);
  const v2 = { projectId: project.id, environment: "dev" };
  const second = ok(await owner.post("/api/v2/folders", { ...v2, name: "v2", path: "/" })).folder;
  has(second, "id", "name", "createdAt", "updatedAt", "envId", "path");
  const since = new Date(Date.now() - 60_000).toISOString();
  ok(await owner.get(`/api/v2/folders?projectId=${project.id}&environment=dev&lastSecretModified=${since}`));
  has(ok(await owner.get(`/api/v2/folders/${second.id}`)).folder, "projectId", "environment");
  has(ok(await owner.patch(`/api/v2/folders/${second.id}`, { ...v2, name: "v2b" })).folder, "path");
  ok(await owner.delete(`/api/v2/folders/${second.id}`, { ...v2, forceDelete: true }));
});

test("imports as the provider of infrastructure reads them", async () => {
  await folder("source");
  const made = ok(
    await owner.post("/api/v1/secret-imports", {
      ...at,
      environment: "prod",
      path: "/",
      isReplication: false,
      import: { environment: "dev", path: "/source" },
    }),
  ).secretImport;
  has(made, "id", "secretPath", "importPath");
  const got = ok(await owner.get(`/api/v1/secret-imports/${made.id}`)).secretImport;
  has(got, "projectId", "isReplication", "importEnv", "environment", "secretPath", "importPath");
  has(got.importEnv, "id", "name", "slug");
  has(got.environment, "id", "name", "slug");
  const query = `workspaceId=${project.id}&environment=prod&path=/`;
  assert.equal(ok(await owner.get(`/api/v1/secret-imports?${query}`)).secretImports.length, 1);
  const place = { workspaceId: project.id, environment: "prod", path: "/" };
  const moved = ok(
    await owner.patch(`/api/v1/secret-imports/${made.id}`, {
      ...place,
      import: { environment: "staging", path: "/", position: 1 },
    }),
  ).secretImport;
  assert.equal(moved.importEnv.slug, "staging");
  ok(await owner.delete(`/api/v1/secret-imports/${made.id}`, place));
  assert.equal((await owner.get(`/api/v1/secret-imports/${made.id}`)).status, 404);
});

test("environments and projects, wrapped where clients unwrap and plain where they do not", async () => {
  const body = {
    projectName: "Wire two",
    type: "secret-manager",
    slug: "wire-two",
    template: "default",
    kmsKeyId: "x",
  };
  const { project: two } = ok(await owner.post("/api/v2/workspace", { ...body, organizationSlug: "x" }));
  has(
    two,
    "id",
    "_id",
    "name",
    "slug",
    "type",
    "description",
    "orgId",
    "environments",
    "createdAt",
    "version",
  );
  assert.deepEqual(
    two.environments.map((one: { slug: string }) => one.slug),
    ["dev", "staging", "prod"],
  );
  const none = ok(
    await owner.post("/api/v1/projects", { projectName: "No envs", shouldCreateDefaultEnvs: false }),
  );
  assert.deepEqual(none.project.environments, []);
  const environment = ok(
    await owner.post(`/api/v1/workspace/${two.id}/environments`, {
      name: "QA",
      slug: "qa",
      position: 4,
      projectId: two.id,
      workspaceId: two.id,
    }),
  );
  has(environment, "message", "workspace", "environment");
  has(environment.environment, "id", "name", "slug", "position", "projectId", "createdAt", "updatedAt");
  const id = environment.environment.id as string;
  const byId = ok(await owner.get(`/api/v1/workspace/environments/${id}`)).environment;
  has(byId, "id", "name", "slug", "position", "projectId");
  const bySlug = ok(await owner.get(`/api/v1/projects/${two.id}/environments/slug/qa`));
  assert.deepEqual([bySlug.id, bySlug.environment.id], [id, id]);
  ok(
    await owner.patch(`/api/v1/workspace/${two.id}/environments/${id}`, {
      name: "Q",
      slug: "q",
      position: 1,
    }),
  );
  ok(await owner.call("DELETE", `/api/v1/workspace/${two.id}/environments/${id}`));
  for (const path of [
    "/api/v2/workspace/wire-two",
    "/api/v1/projects/slug/wire-two",
    "/api/v1/workspace/slug/wire-two",
  ]) {
    const plain = ok(await owner.get(path));
    has(plain, "id", "name", "slug", "orgId", "environments");
    assert.equal(plain.id, two.id);
  }
  const wrapped = ok(await owner.get(`/api/v1/workspace/${two.id}`)).workspace;
  has(wrapped, "id", "name", "slug", "orgId", "environments", "type", "description", "hasDeleteProtection");
  has(wrapped, "version", "upgradeStatus", "auditLogsRetentionDays", "kmsSecretManagerKeyId");
  const all = ok(await owner.get("/api/v1/workspace")).workspaces;
  has(all[0], "_id", "name", "orgId");
  assert.ok(ok(await owner.get("/api/v1/projects")).projects.length >= 2);
  const patched = ok(
    await owner.patch(`/api/v1/projects/${two.id}`, {
      name: "N",
      description: "D",
      slug: "wire-2b",
      hasDeleteProtection: false,
    }),
  ).project;
  assert.deepEqual([patched.name, patched.slug], ["N", "wire-2b"]);
  const kept = ok(
    await owner.put("/api/v1/workspace/wire-2b/audit-logs-retention", { auditLogsRetentionDays: 7 }),
  );
  assert.equal(kept.workspace.auditLogsRetentionDays, 7);
  ok(await owner.call("DELETE", "/api/v2/workspace/wire-2b"));
  assert.equal((await owner.get("/api/v2/workspace/wire-2b")).status, 404);
});

test("members, and tags under both of their names", async () => {
  const { memberships } = ok(
    await owner.post(`/api/v2/workspace/${project.id}/memberships`, {
      emails: [OWNER.email],
      usernames: [],
      roleSlugs: ["viewer"],
    }),
  );
  has(memberships[0], "id", "userId", "projectId");
  assert.equal((await owner.get(`/api/v1/projects/${project.id}/tags/slug/cli`)).status, 404);
  const { tag } = ok(await owner.post(`/api/v1/projects/${project.id}/tags`, { slug: "cli", color: "" }));
  has(tag, "id", "slug", "name", "color");
  assert.equal(ok(await owner.get(`/api/v1/projects/${project.id}/tags/slug/cli`)).tag.id, tag.id);
  const old = `/api/v1/workspace/${project.id}/tags`;
  const { workspaceTag } = ok(await owner.post(old, { name: "T", color: "#fff", slug: "tf" }));
  has(workspaceTag, "id", "slug", "name", "color", "projectId");
  assert.ok(ok(await owner.get(old)).workspaceTags.length >= 2);
  assert.equal(ok(await owner.get(`${old}/${workspaceTag.id}`)).workspaceTag.slug, "tf");
  assert.equal(ok(await owner.get(`${old}/slug/tf`)).workspaceTag.id, workspaceTag.id);
  assert.equal(ok(await owner.patch(`${old}/${workspaceTag.id}`, { name: "U" })).workspaceTag.name, "U");
  ok(await owner.call("DELETE", `${old}/${workspaceTag.id}`));
});

test("W15 tokens are in the shape that command lines take apart, for machines and for people", async () => {
  const claims = (token: string) =>
    JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as Record<string, unknown>;
  const { identity } = ok(await owner.post("/api/v1/identities", { name: "w15", organizationId: orgId }));
  const { clientId, clientSecret } = await credentials(owner, identity.id);
  const machine = claims(await login(server.base, clientId, clientSecret));
  has(machine, "exp", "authTokenType", "identityId", "identityName", "authMethod", "orgId");
  assert.equal(machine["authTokenType"], "identityAccessToken");
  const { accessToken } = ok(await clientOf(server.base).post("/api/v3/auth/login", OWNER));
  const chosen = ok(
    await clientOf(server.base, accessToken).post("/api/v3/auth/select-organization", {
      organizationId: orgId,
    }),
  );
  const person = claims(chosen.token as string);
  has(person, "exp", "authTokenType", "userId", "organizationId", "tokenVersionId");
  assert.equal(person["authTokenType"], "accessToken");
});
