/** A whole project in one file: who may export and import what. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, anIdentity, aRole } from "../../test/builders.ts";
import { openTestHouse, type Client, type Tenant, type TestHouse } from "../../test/harness.ts";
import {
  aFullProject,
  exported as exportedFrom,
  ok,
  passphrase,
  taken,
  told as toldFrom,
} from "../../test/project-files.ts";
import { sealArchive } from "./service/seal-archive.ts";
import { sized } from "../../test/full-size.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const exported = (tenant: Tenant, id: string, more: Record<string, unknown> = {}) =>
  exportedFrom(house.base, tenant, id, more);
const told = (tenant: Tenant, id: string) => toldFrom(house.base, tenant, id);

test("a caller who lacks a right for any of it changes nothing at all, and the dry run says so too", async () => {
  const source = await house.newTenant();
  const from = await aFullProject(house, source);
  const file = await exported(source, from, { includeRoles: true, includeHistory: true });
  const { id: into } = await aProject(source);
  const all = { action: ["read", "create", "edit", "delete"] };
  const role = await aRole(source, into, [
    { subject: "secrets", action: ["read", "create", "edit"] },
    { subject: "secret-folders", ...all },
    { subject: "environments", ...all },
    { subject: "tags", ...all },
    { subject: "role", ...all },
  ]);
  const helper = await anIdentity(source, house.base, into, { roles: [{ role }] });
  const before = await told(source, into);
  for (const dryRun of [true, false])
    assert.equal((await taken(helper.client, into, file, { dryRun })).status, 403, `dry: ${dryRun}`);
  assert.deepEqual(await told(source, into), before);
});

test("a dry run tells nobody of folders and imports that they may not see", async () => {
  const { id: into } = await aProject(house.owner);
  const at = { projectId: into, environment: "dev" };
  for (const name of ["hidden", "source"]) ok(await house.owner.post("/api/v2/folders", { ...at, name }));
  const source = { environment: "dev", path: "/source" };
  ok(await house.owner.post("/api/v2/secret-imports", { ...at, path: "/hidden", import: source }));
  const rules = (action: readonly string[]) => [
    { subject: "secrets", action: ["describeSecret", "create"] },
    { subject: "secrets", action: "readValue", conditions: { secretPath: { $eq: "/guess" } } },
    { subject: "tags", action: "read" },
    { subject: ["secret-folders", "secret-imports"], action: [...action, "create", "edit"] },
  ];
  const someone = async (action: readonly string[]) => {
    const role = await aRole(house.owner, into, rules(action));
    return (await anIdentity(house.owner, house.base, into, { roles: [{ role }] })).client;
  };
  const content = {
    project: { name: "p", slug: "p" },
    environments: [{ slug: "dev", name: "Development" }],
    tags: [],
    folders: ["/hidden", "/guess"].map((path) => ({ environment: "dev", path, description: null })),
    secrets: [],
    imports: ["/source", "/nothing"].map((sourcePath) => ({
      environment: "dev",
      path: "/hidden",
      sourceProject: null,
      sourceEnvironment: "dev",
      sourcePath,
      isReplication: false,
    })),
    roles: [],
  };
  const file = await sealArchive(content, passphrase);
  const blind = ok(await taken(await someone([]), into, file, { dryRun: true }));
  assert.deepEqual([...blind.folders.created].sort(), ["dev:/guess", "dev:/hidden"]);
  assert.deepEqual([...blind.imports.unresolved].sort(), [
    "dev:/hidden ← dev:/nothing",
    "dev:/hidden ← dev:/source",
  ]);
  const seeing = ok(await taken(await someone(["read"]), into, file, { dryRun: true }));
  assert.deepEqual(seeing.folders.created, ["dev:/guess"]);
});

test("history and roles leave only with somebody who may read them, and an old name that is closed stays closed", async () => {
  const tenant = await house.newTenant();
  const from = await aFullProject(house, tenant);
  const plain = [
    { subject: "secrets", action: "read" },
    { subject: "secret-folders", action: "read" },
    { subject: "secret-imports", action: "read" },
    { subject: "tags", action: "read" },
  ];
  const status = async (rules: readonly unknown[], more: Record<string, unknown>) => {
    const role = await aRole(tenant, from, rules);
    const { client } = await anIdentity(tenant, house.base, from, { roles: [{ role }] });
    return (await client.post(`/api/v1/projects/${from}/export`, { passphrase, ...more })).status;
  };
  assert.equal(await status(plain, {}), 200);
  assert.equal(await status(plain, { includeRoles: true }), 403);
  assert.equal(await status(plain, { includeHistory: true }), 403);
  const withHistory = [...plain, { subject: "secret-rollback", action: "read" }];
  assert.equal(await status(withHistory, { includeHistory: true }), 200);
  const closed = {
    subject: "secrets",
    action: "readValue",
    inverted: true,
    conditions: { secretName: { $eq: "OLD_NAME" } },
  };
  assert.equal(await status([...withHistory, closed], {}), 200);
  assert.equal(await status([...withHistory, closed], { includeHistory: true }), 403);
});

test("a project that others are writing to is exported by a caller who may read all of it", async () => {
  const tenant = await house.newTenant();
  const { id } = await aProject(tenant);
  let isOver = false;
  const write = async (name: string) => {
    for (let n = 0; !isOver; n += 1)
      ok(
        await tenant.post(`/api/v4/secrets/${name}_${n}`, {
          projectId: id,
          environment: "dev",
          secretValue: "1",
        }),
      );
  };
  const writers = ["A", "B", "C", "D"].map(write);
  try {
    for (let n = 0; n < sized(4, 20); n += 1) await exported(tenant, id);
  } finally {
    isOver = true;
    await Promise.all(writers);
  }
});

test("history is exported only by a caller who may read it where it was written", async () => {
  const tenant = await house.newTenant();
  const { id } = await aProject(tenant);
  for (const name of ["closed", "open"])
    ok(await tenant.post("/api/v2/folders", { projectId: id, environment: "dev", name }));
  const at = { projectId: id, environment: "dev" };
  const { secret } = ok(
    await tenant.post("/api/v4/secrets/A", { ...at, secretPath: "/closed", secretValue: "old-canary" }),
  );
  ok(
    await tenant.post("/api/v4/secrets/move", {
      projectId: id,
      sourceEnvironment: "dev",
      sourceSecretPath: "/closed",
      destinationEnvironment: "dev",
      destinationSecretPath: "/open",
      secretIds: [secret.id],
    }),
  );
  ok(await tenant.patch("/api/v4/secrets/A", { ...at, secretPath: "/open", secretValue: "new" }));
  const role = await aRole(tenant, id, [
    { subject: "secrets", action: "read" },
    { subject: "secret-folders", action: "read" },
    { subject: "secret-imports", action: "read" },
    { subject: "tags", action: "read" },
    { subject: "secret-rollback", action: "read" },
    {
      subject: "secrets",
      action: "readValue",
      inverted: true,
      conditions: { secretPath: { $glob: "/closed/**" } },
    },
  ]);
  const { client } = await anIdentity(tenant, house.base, id, { roles: [{ role }] });
  const carry = (includeHistory: boolean) =>
    client.post(`/api/v1/projects/${id}/export`, { passphrase, includeHistory });
  assert.equal((await carry(false)).status, 200);
  assert.equal((await carry(true)).status, 403);
});

test("folders and imports are exported only by a caller who may read them", async () => {
  const tenant = await house.newTenant();
  const { id } = await aProject(tenant);
  ok(await tenant.post("/api/v4/secrets/A", { projectId: id, environment: "dev", secretValue: "1" }));
  for (const environment of ["staging", "prod"])
    ok(await tenant.post("/api/v4/secrets/A", { projectId: id, environment, secretValue: "1" }));
  const reading = (subject: string) => ({ subject, action: "read" });
  const exporter = async (...subjects: string[]) => {
    const role = await aRole(tenant, id, subjects.map(reading));
    return (await anIdentity(tenant, house.base, id, { roles: [{ role }] })).client;
  };
  const carry = async (client: Client) =>
    (await client.post(`/api/v1/projects/${id}/export`, { passphrase })).status;
  const few = await exporter("secrets", "tags", "secret-folders");
  assert.equal(await carry(few), 200);
  assert.equal(await carry(await exporter("secrets", "tags")), 403);
  ok(
    await tenant.post("/api/v2/secret-imports", {
      projectId: id,
      environment: "dev",
      import: { environment: "prod", path: "/" },
    }),
  );
  assert.equal(await carry(few), 403);
  assert.equal(await carry(await exporter("secrets", "tags", "secret-folders", "secret-imports")), 200);
});
