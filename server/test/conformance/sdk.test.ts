/**
 * The published Node SDK of the API family, unmodified, against a real server: every public method that is about
 * authentication, projects, environments, folders and secrets.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { InfisicalSDK, type Secret } from "@infisical/sdk";
import { aProject, anIdentity } from "../builders.ts";
import { openTestHouse, type TestHouse } from "../harness.ts";

type CreateOptions = Parameters<ReturnType<InfisicalSDK["secrets"]>["createSecret"]>[1];

let house: TestHouse;
let sdk: InfisicalSDK;
let projectId: string;
let credentials: { clientId: string; clientSecret: string };

before(async () => {
  house = await openTestHouse();
  projectId = (await aProject(house.owner)).id;
  credentials = await anIdentity(house.owner, house.base, projectId, { roles: [{ role: "admin" }] });
  sdk = new InfisicalSDK({ siteUrl: house.base });
  await sdk.auth().universalAuth.login(credentials);
});
after(() => house.close());

const dev = () => ({ projectId, environment: "dev" });
const keysOf = (secrets: readonly Secret[]) => secrets.map((secret) => secret.secretKey);

describe("the Node SDK", () => {
  test("logs in, renews and takes a token", async () => {
    const client = new InfisicalSDK({ siteUrl: house.base });
    await client.auth().universalAuth.login(credentials);
    const first = client.auth().getAccessToken();
    assert.ok(first);
    await client.auth().universalAuth.renew();
    const token = client.auth().getAccessToken() ?? "";
    assert.ok(token.split(".").length === 3);
    const other = new InfisicalSDK({ siteUrl: house.base }).auth().accessToken(token);
    assert.deepEqual((await other.secrets().listSecrets({ ...dev() })).secrets, []);
  });

  test("refuses wrong credentials with the server's words", async () => {
    const client = new InfisicalSDK({ siteUrl: house.base });
    await assert.rejects(client.auth().universalAuth.login({ ...credentials, clientSecret: "wrong" }), /401/);
  });

  test("creates, gets, updates, renames and deletes a secret", async () => {
    const { secret: created } = await sdk.secrets().createSecret("API_KEY", {
      ...dev(),
      secretValue: "one",
      secretComment: "why",
      secretReminderNote: "soon",
      secretReminderRepeatDays: 7,
    });
    assert.equal(created.secretKey, "API_KEY");
    const read = await sdk.secrets().getSecret({ ...dev(), secretName: "API_KEY" });
    assert.deepEqual(
      [read.secretValue, read.secretComment, read.id, read.environment],
      ["one", "why", created.id, "dev"],
    );
    const { secret: updated } = await sdk.secrets().updateSecret("API_KEY", {
      ...dev(),
      secretValue: "two",
      newSecretName: "NEW_KEY",
      metadata: { team: "core" },
    });
    assert.deepEqual([updated.id, updated.secretKey, updated.version], [created.id, "NEW_KEY", 2]);
    await assert.rejects(sdk.secrets().getSecret({ ...dev(), secretName: "API_KEY" }), /404/);
    const { secret: gone } = await sdk.secrets().deleteSecret("NEW_KEY", dev());
    assert.equal(gone.id, created.id);
    await assert.rejects(sdk.secrets().deleteSecret("NEW_KEY", dev()), /404/);
  });

  test("a name that needs encoding in an address survives", async () => {
    await sdk.secrets().createSecret("A B+C%&=ü", { ...dev(), secretValue: "v" });
    assert.equal((await sdk.secrets().getSecret({ ...dev(), secretName: "A B+C%&=ü" })).secretValue, "v");
    await sdk.secrets().deleteSecret("A B+C%&=ü", dev());
  });

  test("creates folders and lists them", async () => {
    const folder = await sdk.folders().create({ ...dev(), name: "api", path: "/", description: "the API" });
    assert.equal(folder.name, "api");
    const folders = await sdk.folders().listFolders({ ...dev(), path: "/", recursive: true });
    assert.deepEqual(
      folders.map((one) => one.name),
      ["api"],
    );
  });

  test("lists secrets, expands references, merges imports and fills the environment", async () => {
    await sdk.secrets().createSecret("HOST", { ...dev(), secretPath: "/api", secretValue: "db" });
    await sdk.secrets().createSecret("URL", { ...dev(), secretPath: "/api", secretValue: "pg://${HOST}" });
    await sdk.secrets().createSecret("ROOT_ONLY", { ...dev(), secretValue: "root" });
    const listed = await sdk.secrets().listSecrets({ ...dev(), secretPath: "/api" });
    assert.deepEqual(keysOf(listed.secrets), ["HOST", "URL"]);
    assert.equal(listed.secrets[1]?.secretValue, "pg://db");
    assert.deepEqual(keysOf((await sdk.secrets().listSecrets({ ...dev(), recursive: true })).secrets), [
      "ROOT_ONLY",
      "HOST",
      "URL",
    ]);
    const raw = await sdk.secrets().listSecrets({
      ...dev(),
      secretPath: "/api",
      expandSecretReferences: false,
      attachToProcessEnv: false,
    });
    assert.equal(raw.secrets[1]?.secretValue, "pg://${HOST}");
    const imported = await house.owner.post("/api/v1/secret-imports", {
      workspaceId: projectId,
      environment: "dev",
      path: "/",
      import: { environment: "dev", path: "/api" },
    });
    assert.equal(imported.status, 200, JSON.stringify(imported.body));
    const merged = await sdk.secrets().listSecretsWithImports({ ...dev(), attachToProcessEnv: false });
    assert.deepEqual(keysOf(merged).sort(), ["HOST", "ROOT_ONLY", "URL"]);
    assert.equal(
      (await sdk.secrets().getSecret({ ...dev(), secretName: "HOST", includeImports: true })).secretValue,
      "db",
    );
    assert.equal(
      (
        await sdk
          .secrets()
          .getSecret({ ...dev(), secretPath: "/api", secretName: "HOST", viewSecretValue: false })
      ).secretValueHidden,
      true,
    );
  });

  test("creates a project and an environment", async () => {
    const owner = new InfisicalSDK({ siteUrl: house.base }).auth().accessToken(house.owner.token);
    const project = await owner.projects().create({ projectName: "Made by the SDK", type: "secret-manager" });
    assert.ok(project.id);
    const environment = await owner
      .environments()
      .create({ projectId: project.id, name: "Quality", slug: "qa", position: 1 });
    assert.equal(environment.slug, "qa");
    await owner
      .secrets()
      .createSecret("IN_QA", { projectId: project.id, environment: "qa", secretValue: "v" });
    assert.deepEqual(
      keysOf((await owner.secrets().listSecrets({ projectId: project.id, environment: "qa" })).secrets),
      ["IN_QA"],
    );
  });

  test("filters by tag, shows no values on demand, and fills the environment unless told not to", async () => {
    const { tag } = (
      await house.owner.post(`/api/v1/projects/${projectId}/tags`, { slug: "sdk", color: "#123456" })
    ).body;
    const made = await sdk.secrets().createSecret("SDK_TAGGED", {
      ...dev(),
      secretValue: "tagged",
      tagIds: [tag.id],
      skipMultilineEncoding: true,
      type: "shared" as NonNullable<CreateOptions["type"]>,
    });
    assert.equal(made.secret.secretKey, "SDK_TAGGED");
    const tagged = await sdk.secrets().listSecrets({ ...dev(), tagSlugs: ["sdk"] });
    assert.deepEqual(keysOf(tagged.secrets), ["SDK_TAGGED"]);
    const hidden = await sdk.secrets().listSecrets({ ...dev(), tagSlugs: ["sdk"], viewSecretValue: false });
    assert.deepEqual(
      hidden.secrets.map((one) => [one.secretValueHidden, one.secretValue === "tagged"]),
      [[true, false]],
    );
    delete process.env["SDK_TAGGED"];
    await sdk.secrets().listSecrets({ ...dev(), attachToProcessEnv: true });
    assert.equal(process.env["SDK_TAGGED"], "tagged");
    delete process.env["SDK_TAGGED"];
    await sdk.secrets().listSecretsWithImports({ ...dev(), attachToProcessEnv: true });
    assert.equal(process.env["SDK_TAGGED"], "tagged");
    delete process.env["SDK_TAGGED"];
  });

  test("reads a version, and keeps a personal override to its owner", async () => {
    const personal = "personal" as NonNullable<CreateOptions["type"]>;
    await sdk.secrets().createSecret("MINE", { ...dev(), secretValue: "ours" });
    await sdk.secrets().createSecret("MINE", { ...dev(), secretValue: "mine", type: personal });
    await sdk.secrets().updateSecret("MINE", { ...dev(), secretValue: "ours too" });
    await sdk.secrets().updateSecret("MINE", { ...dev(), secretValue: "mine too", type: personal });
    const get = (more: Record<string, unknown>) =>
      sdk.secrets().getSecret({ ...dev(), secretName: "MINE", ...more });
    assert.equal((await get({})).secretValue, "ours too");
    assert.equal((await get({ version: 1 })).secretValue, "ours");
    assert.equal((await get({ type: personal })).secretValue, "mine too");
    const other = new InfisicalSDK({ siteUrl: house.base }).auth().accessToken(house.owner.token);
    await assert.rejects(other.secrets().getSecret({ ...dev(), secretName: "MINE", type: personal }), /404/);
    const { secret } = await sdk.secrets().deleteSecret("MINE", { ...dev(), type: personal });
    assert.equal(secret.type, "personal");
    assert.equal((await get({})).secretValue, "ours too");
  });

  test("lists only the folders in which something changed since a moment", async () => {
    await sdk.folders().create({ ...dev(), name: "quiet", path: "/" });
    const since = new Date(house.clock.millis() + 1000).toISOString();
    house.clock.advance(2000);
    await sdk.folders().create({ ...dev(), name: "busy", path: "/" });
    await sdk.secrets().createSecret("X", { ...dev(), secretPath: "/busy", secretValue: "v" });
    const folders = await sdk.folders().listFolders({ ...dev(), path: "/", lastSecretModified: since });
    assert.deepEqual(
      folders.map((one) => one.name),
      ["busy"],
    );
  });

  test("renews whichever way it logged in; a way that the server does not have is refused in plain words", async () => {
    const client = new InfisicalSDK({ siteUrl: house.base });
    await client.auth().universalAuth.login(credentials);
    const first = client.auth().getAccessToken();
    house.clock.advance(2000);
    await client.auth().awsIamAuth.renew();
    assert.notEqual(client.auth().getAccessToken(), first);
    assert.ok((client.auth().getAccessToken() ?? "").split(".").length === 3);
    const environment = { AWS_REGION: "eu-central-1", AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "key" };
    const before = { ...process.env };
    Object.assign(process.env, environment);
    try {
      await assert.rejects(client.auth().awsIamAuth.login({ identityId: "x" }), /404/);
    } finally {
      for (const name of Object.keys(environment)) delete process.env[name];
      Object.assign(process.env, before);
    }
  });

  test("has no method about authentication, projects, environments, folders and secrets besides those tried here", () => {
    const methods = (thing: object) =>
      [
        ...Object.entries(thing)
          .filter(([, value]) => typeof value === "function")
          .map(([name]) => name),
        ...Object.getOwnPropertyNames(Object.getPrototypeOf(thing) as object),
      ]
        .filter((name) => name !== "constructor")
        .sort();
    assert.deepEqual(methods(sdk.secrets()), [
      "createSecret",
      "deleteSecret",
      "getSecret",
      "listSecrets",
      "listSecretsWithImports",
      "updateSecret",
    ]);
    assert.deepEqual(methods(sdk.folders()), ["create", "listFolders"]);
    assert.deepEqual(methods(sdk.environments()), ["create"]);
    assert.deepEqual(methods(sdk.projects()), ["create", "inviteMembers"]);
    const auth = sdk.auth();
    // Private in its types, a field like any other in what runs.
    const isPublic = (name: string) => name !== "sdkAuthenticator";
    assert.deepEqual(methods(auth).filter(isPublic), ["accessToken", "getAccessToken"]);
    for (const way of [auth.universalAuth, auth.awsIamAuth])
      assert.deepEqual(Object.keys(way).sort(), ["login", "renew"]);
  });

  test("invites people to a project", async () => {
    const owner = new InfisicalSDK({ siteUrl: house.base }).auth().accessToken(house.owner.token);
    const memberships = await owner
      .projects()
      .inviteMembers({ projectId, emails: [house.ownerUser.email], roleSlugs: ["viewer"] });
    assert.deepEqual(
      memberships.map((membership) => membership.userId),
      [house.ownerUser.id],
    );
    const { id } = await aProject(house.owner);
    const named = await owner
      .projects()
      .inviteMembers({ projectId: id, usernames: [house.ownerUser.email], roleSlugs: ["viewer"] });
    assert.equal(named[0]?.userId, house.ownerUser.id);
    await assert.rejects(
      owner.projects().inviteMembers({ projectId: id, emails: [], roleSlugs: ["viewer"] }),
    );
  });
});
