import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, anIdentity, aRole } from "../../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const at = (projectId: string, more: Record<string, unknown> = {}) => ({
  projectId,
  environment: "dev",
  secretPath: "/",
  ...more,
});
const valueOf = async (projectId: string, key: string, more = "") =>
  (await house.owner.get(`/api/v4/secrets/${key}?projectId=${projectId}&environment=dev${more}`)).body.secret
    ?.secretValue as string | undefined;
const aTag = async (projectId: string, slug: string): Promise<string> =>
  (await house.owner.post(`/api/v1/projects/${projectId}/tags`, { slug, color: "" })).body.tag.id;

test("a batch creates only names that its sender may create, whatever names it searched for", async () => {
  const { id: projectId } = await aProject(house.owner);
  const role = await aRole(house.owner, projectId, [
    { subject: "secrets", action: "describeSecret" },
    {
      subject: "secrets",
      action: ["create", "edit"],
      conditions: { secretName: { $glob: "APP_*" } },
    },
  ]);
  const { client } = await anIdentity(house.owner, house.base, projectId, { roles: [{ role }] });
  const upsert = (secretKey: string, newSecretName?: string) =>
    client.patch(
      "/api/v4/secrets/batch",
      at(projectId, { mode: "upsert", secrets: [{ secretKey, newSecretName, secretValue: "x" }] }),
    );
  assert.equal((await upsert("APP_x", "ADMIN_KEY")).status, 403);
  assert.equal(await valueOf(projectId, "ADMIN_KEY"), undefined);
  assert.equal((await upsert("ADMIN_KEY")).status, 403);
  assert.equal((await upsert("OTHER", "APP_y")).status, 200);
  assert.equal(await valueOf(projectId, "APP_y"), "x");
});

test("a batch that ignores what is missing tells nobody what is missing where they may not write", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v4/secrets/ADMIN_KEY", at(projectId, { secretValue: "v" }));
  const conditions = { secretName: { $glob: "APP_*" } };
  const role = await aRole(house.owner, projectId, [{ subject: "secrets", action: "edit", conditions }]);
  const { client } = await anIdentity(house.owner, house.base, projectId, { roles: [{ role }] });
  const statusFor = async (secretKey: string) =>
    (
      await client.patch(
        "/api/v4/secrets/batch",
        at(projectId, { mode: "ignore", secrets: [{ secretKey, secretValue: "x" }] }),
      )
    ).status;
  assert.deepEqual(
    await Promise.all(["ADMIN_KEY", "ADMIN_NO_KEY", "APP_MISSING"].map(statusFor)),
    [403, 403, 200],
  );
});

test("copying or moving over a secret needs the right to edit that secret, with its own tags", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name: "there" });
  const restricted = await aTag(projectId, "restricted");
  const put = async (key: string, secretPath: string, tagIds: string[] = []): Promise<string> =>
    (
      await house.owner.post(
        `/api/v4/secrets/${key}`,
        at(projectId, { secretPath, secretValue: `${key} of ${secretPath}`, tagIds }),
      )
    ).body.secret.id;
  const [plain, tagged] = [await put("PLAIN", "/"), await put("TAGGED", "/")];
  await put("PLAIN", "/there");
  await put("TAGGED", "/there", [restricted]);
  const clientWith = async (rules: readonly unknown[]) =>
    (
      await anIdentity(house.owner, house.base, projectId, {
        roles: [{ role: await aRole(house.owner, projectId, rules) }],
      })
    ).client;
  const creator = await clientWith([{ subject: "secrets", action: ["read", "create", "delete"] }]);
  const closed = { inverted: true, conditions: { secretTags: { $in: ["restricted"] } } };
  const editor = await clientWith([
    { subject: "secrets", action: ["read", "create", "edit", "delete"] },
    { subject: "secrets", action: "edit", ...closed },
  ]);
  const blind = await clientWith([
    { subject: "secrets", action: ["read", "create", "edit", "delete"] },
    { subject: "secrets", action: "readValue", ...closed },
  ]);
  const trip = (secretId: string) => ({
    projectId,
    sourceEnvironment: "dev",
    sourceSecretPath: "/",
    destinationEnvironment: "dev",
    destinationSecretPath: "/there",
    secretIds: [secretId],
    shouldOverwrite: true,
  });
  for (const how of ["copy", "move"]) {
    assert.equal((await creator.post(`/api/v4/secrets/${how}`, trip(plain))).status, 403);
    for (const client of [creator, editor, blind])
      assert.equal((await client.post(`/api/v4/secrets/${how}`, trip(tagged))).status, 403);
  }
  assert.equal(await valueOf(projectId, "PLAIN", "&secretPath=/there"), "PLAIN of /there");
  assert.equal(await valueOf(projectId, "TAGGED", "&secretPath=/there"), "TAGGED of /there");
  assert.equal((await editor.post("/api/v4/secrets/copy", trip(plain))).status, 200);
  assert.equal(await valueOf(projectId, "PLAIN", "&secretPath=/there"), "PLAIN of /");
});

test("encrypted metadata is opened only together with the value", async () => {
  const { id: projectId } = await aProject(house.owner);
  const secretMetadata = [
    { key: "team", value: "core", isEncrypted: false },
    { key: "pin", value: "pin-1234", isEncrypted: true },
  ];
  const { secret } = (
    await house.owner.post("/api/v4/secrets/A", at(projectId, { secretValue: "1", secretMetadata }))
  ).body;
  const where = `projectId=${projectId}&environment=dev`;
  for (const url of [
    `/api/v4/secrets/A?${where}`,
    `/api/v4/secrets?${where}`,
    `/api/v3/secrets/raw/id/${secret.id}?`,
    `/api/v4/secrets/id/${secret.id}/versions?`,
  ]) {
    const without = await house.owner.get(`${url}&viewSecretValue=false`);
    assert.equal(without.status, 200, JSON.stringify(without.body));
    const text = JSON.stringify(without.body);
    assert.ok(text.includes("core") && !text.includes("pin-1234"), url);
    assert.ok(JSON.stringify((await house.owner.get(url)).body).includes("pin-1234"), url);
  }
});
