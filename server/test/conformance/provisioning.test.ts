import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { InfisicalSDK } from "@infisical/sdk";
import { clientOf, openTestHouse, OWNER, type TestHouse } from "../harness.ts";
import { createTestDatabase } from "../postgres.ts";
import { startServer } from "../process.ts";
import { randomBytes } from "node:crypto";

const claimsOf = (token: string) =>
  JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as Record<string, unknown>;

describe("the provisioning sequence of external-secrets' end-to-end tests", () => {
  it("leads from an empty server to a logged-in SDK client", async () => {
    const database = await createTestDatabase();
    const { host, port, user } = database.server;
    const server = await startServer({
      DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
      KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
    });
    const anonymous = clientOf(server.base);
    const status = await anonymous.get("/api/status");
    assert.deepEqual([status.status, status.body.message], [200, "Ok"]);
    const booted = await anonymous.post("/api/v1/admin/bootstrap", {
      ...OWNER,
      organization: "eso",
      domain: "ignored",
    });
    assert.equal(booted.status, 200);
    assert.equal(booted.body.user.email, OWNER.email);
    const { organization, identity } = booted.body;
    const admin = clientOf(server.base, identity.credentials.token);
    const project = await admin.post("/api/v1/projects", {
      projectName: "eso",
      slug: "eso-project",
      type: "secret-manager",
      shouldCreateDefaultEnvs: true,
    });
    assert.equal(project.status, 200);
    assert.deepEqual(
      project.body.project.environments.map((e: { slug: string }) => e.slug),
      ["dev", "staging", "prod"],
    );
    const made = await admin.post("/api/v1/identities", {
      name: "eso",
      organizationId: organization.id,
      role: "member",
    });
    assert.equal(made.status, 200);
    const id = made.body.identity.id as string;
    const joined = await admin.post(
      `/api/v2/workspace/${project.body.project.id}/identity-memberships/${id}`,
      { role: "admin" },
    );
    assert.equal(joined.status, 200);
    assert.equal(joined.body.identityMembership.identityId, id);
    const auth = await admin.post(`/api/v1/auth/universal-auth/identities/${id}`, {
      accessTokenTTL: 2_592_000,
      accessTokenMaxTTL: 2_592_000,
      accessTokenNumUsesLimit: 0,
      clientSecretTrustedIps: [{ ipAddress: "0.0.0.0/0" }, { ipAddress: "::/0" }],
      accessTokenTrustedIps: [{ ipAddress: "0.0.0.0/0" }, { ipAddress: "::/0" }],
    });
    assert.equal(auth.status, 200);
    const secret = await admin.post(`/api/v1/auth/universal-auth/identities/${id}/client-secrets`, {
      description: "",
      numUsesLimit: 0,
      ttl: 0,
    });
    assert.equal(secret.status, 200);
    const sdk = new InfisicalSDK({ siteUrl: server.base });
    await sdk.auth().universalAuth.login({
      clientId: auth.body.identityUniversalAuth.clientId,
      clientSecret: secret.body.clientSecret,
    });
    const token = sdk.auth().getAccessToken() as string;
    assert.equal(
      (await clientOf(server.base, token).get("/api/v1/projects/slug/eso-project")).body.id,
      project.body.project.id,
    );
    assert.equal((await anonymous.post("/api/v1/auth/token/revoke", { accessToken: token })).status, 200);
    assert.equal((await clientOf(server.base, token).get("/api/v1/projects/slug/eso-project")).status, 401);
    await server.stop();
    await database.drop();
  });
});

describe("the published Node SDK", () => {
  let house: TestHouse;
  let credentials: { clientId: string; clientSecret: string };
  before(async () => {
    house = await openTestHouse();
    const { body } = await house.owner.post("/api/v1/identities", { name: "sdk", role: "admin" });
    const path = `/api/v1/auth/universal-auth/identities/${body.identity.id}`;
    const auth = await house.owner.post(path, { accessTokenTTL: 600, accessTokenMaxTTL: 86_400 });
    const secret = await house.owner.post(`${path}/client-secrets`, {});
    credentials = {
      clientId: auth.body.identityUniversalAuth.clientId,
      clientSecret: secret.body.clientSecret,
    };
  });
  after(() => house.close());

  it("logs in with universal auth and gets a token with the claims that command lines read", async () => {
    const sdk = new InfisicalSDK({ siteUrl: house.base });
    await sdk.auth().universalAuth.login(credentials);
    const claims = claimsOf(sdk.auth().getAccessToken() as string);
    assert.deepEqual(
      [claims["authTokenType"], claims["identityName"], claims["authMethod"], claims["orgId"]],
      ["identityAccessToken", "sdk", "universal-auth", house.owner.orgId],
    );
    assert.equal(typeof claims["exp"], "number");
  });

  it("renews, and the new token lives longer", async () => {
    const sdk = new InfisicalSDK({ siteUrl: house.base });
    await sdk.auth().universalAuth.login(credentials);
    const before = claimsOf(sdk.auth().getAccessToken() as string)["exp"] as number;
    house.clock.advance(300_000);
    await sdk.auth().universalAuth.renew();
    const after = claimsOf(sdk.auth().getAccessToken() as string)["exp"] as number;
    assert.ok(after >= before + 299, `${after} is not about 300 s after ${before}`);
  });

  it("shows the person a refusal in our words", async () => {
    const sdk = new InfisicalSDK({ siteUrl: house.base });
    await assert.rejects(
      sdk.auth().universalAuth.login({ ...credentials, clientSecret: "wrong" }),
      /Invalid credentials/,
    );
  });

  it("creates projects and environments", async () => {
    const sdk = new InfisicalSDK({ siteUrl: house.base });
    await sdk.auth().universalAuth.login(credentials);
    const project = await sdk.projects().create({ projectName: "From the SDK", type: "secret-manager" });
    assert.ok(project.id);
    const environment = await sdk
      .environments()
      .create({ name: "QA", slug: "qa", position: 1, projectId: project.id });
    assert.deepEqual([environment.slug, environment.position], ["qa", 1]);
  });
});
