// Login and POST …/identities against their limit, and what checking a token adds to a request.
import { openWorld } from "../world.mjs";

/** An identity that can log in. */
async function loginOf(world, projectId) {
  const { identity } = await world.call("POST", `/api/v1/projects/${projectId}/identities`, {
    name: "bench",
    roles: [{ role: "viewer" }],
  });
  const path = `/api/v1/auth/universal-auth/identities/${identity.id}`;
  const auth = await world.call("POST", path, {});
  const secret = await world.call("POST", `${path}/client-secrets`, {});
  const credentials = { clientId: auth.identityUniversalAuth.clientId, clientSecret: secret.clientSecret };
  const login = await world.call("POST", "/api/v1/auth/universal-auth/login", credentials);
  return { identityId: identity.id, credentials, login };
}

export async function prepare({ against } = {}) {
  const world = await openWorld(against);
  const { project } = await world.call("POST", "/api/v1/projects", { projectName: `Bench ${Date.now()}` });
  const { identityId, credentials, login } = await loginOf(world, project.id);
  const path = `/api/v1/projects/${project.id}/identities`;
  const created = await world.call("POST", path, { name: "shape" });
  const limit = await world.startLimit({
    projectId: project.id,
    identityId,
    clientId: credentials.clientId,
    answers: { login: login.text, identity: created.text, nothing: '{"message":"Authenticated"}' },
  });
  const json = (address, body) => ({ method: "POST", path: address, body });
  const bearer = { authorization: `Bearer ${login.accessToken}` };
  return {
    ...world,
    limit,
    cases: [
      {
        name: "login",
        keyward: () => json("/api/v1/auth/universal-auth/login", credentials),
        limit: () => json("/login", credentials),
      },
      {
        name: "create identity",
        keyward: (n) => ({ ...json(path, { name: `id-${n}` }), headers: world.headers }),
        limit: (n) => json("/identity", { name: `id-${n}` }),
      },
      {
        name: "checked request (token, no database)",
        keyward: () => ({ method: "POST", path: "/api/v1/auth/checkAuth", headers: bearer }),
        limit: () => ({ method: "POST", path: "/nothing", headers: bearer }),
      },
    ],
  };
}
