// Login and POST …/identities against their limit, and what checking a token adds to a request.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";
import { startKeyward, startLimit, usageOf } from "../processes.mjs";

async function call(base, method, path, body, token) {
  const response = await fetch(base + path, {
    method,
    headers: {
      ...(body ? { "content-type": "application/json" } : {}),
      ...(token ? { authorization: `Bearer ${token}` } : {}),
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return { ...JSON.parse(text), text };
}

export async function prepare() {
  const dataDir = mkdtempSync(join(tmpdir(), "keyward-bench-"));
  const keyward = await startKeyward({ KEYWARD_DATA_DIR: dataDir, KEYWARD_LOG_LEVEL: "info" });
  const idle = usageOf(keyward.pid);
  const booted = await call(keyward.base, "POST", "/api/v1/admin/bootstrap", {
    email: "bench@example.com",
    password: "bench bench bench",
    organization: "Bench",
  });
  const token = booted.identity.credentials.token;
  const { project } = await call(keyward.base, "POST", "/api/v1/projects", { projectName: "Bench" }, token);
  const { identity } = await call(
    keyward.base,
    "POST",
    `/api/v1/projects/${project.id}/identities`,
    { name: "bench", roles: [{ role: "viewer" }] },
    token,
  );
  const auth = await call(
    keyward.base,
    "POST",
    `/api/v1/auth/universal-auth/identities/${identity.id}`,
    {},
    token,
  );
  const secret = await call(
    keyward.base,
    "POST",
    `/api/v1/auth/universal-auth/identities/${identity.id}/client-secrets`,
    {},
    token,
  );
  const credentials = { clientId: auth.identityUniversalAuth.clientId, clientSecret: secret.clientSecret };
  const login = await call(keyward.base, "POST", "/api/v1/auth/universal-auth/login", credentials);
  const created = await call(
    keyward.base,
    "POST",
    `/api/v1/projects/${project.id}/identities`,
    { name: "shape" },
    token,
  );
  const limit = await startLimit("limits.mjs", {
    LIMIT_CONTEXT: JSON.stringify({
      connection: socketOf(dataDir),
      orgId: booted.organization.id,
      projectId: project.id,
      identityId: identity.id,
      clientId: credentials.clientId,
      answers: { login: login.text, identity: created.text, nothing: '{"message":"Authenticated"}' },
    }),
  });
  const json = (path, body) => ({ method: "POST", path, body });
  const bearer = { authorization: `Bearer ${login.accessToken}` };
  return {
    idle,
    cases: [
      {
        name: "login",
        keyward: () => json("/api/v1/auth/universal-auth/login", credentials),
        limit: () => json("/login", credentials),
      },
      {
        name: "create identity",
        keyward: (n) => ({
          ...json(`/api/v1/projects/${project.id}/identities`, { name: `id-${n}` }),
          headers: { authorization: `Bearer ${token}` },
        }),
        limit: (n) => json("/identity", { name: `id-${n}` }),
      },
      {
        name: "checked request (token, no database)",
        keyward: () => ({ method: "POST", path: "/api/v1/auth/checkAuth", headers: bearer }),
        limit: () => ({ method: "POST", path: "/nothing", headers: bearer }),
      },
    ],
    keyward,
    limit,
    async close() {
      await limit.stop();
      await keyward.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** Where the embedded PostgreSQL of a data folder listens: line 4 and 5 of its postmaster.pid. */
function socketOf(dataDir) {
  const [, , , port, host] = readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8").split("\n");
  return {
    host: isAbsolute(host) ? host : join(dataDir, "postgres", host),
    port: Number(port),
    user: "keyward",
    database: "keyward",
    ssl: false,
  };
}
