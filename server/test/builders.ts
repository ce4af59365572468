/** Things that tests need many of, made through the public face. */
import type { Answer, Client } from "./harness.ts";
import { clientOf } from "./harness.ts";

function expectOk(answer: Answer, what: string): Answer["body"] {
  if (answer.status !== 200)
    throw new Error(`${what} failed with ${answer.status}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

let counter = 0;
export const unique = (prefix: string): string =>
  `${prefix}-${(counter += 1)}-${Math.random().toString(36).slice(2, 8)}`;

export async function aProject(
  client: Client,
  more: Record<string, unknown> = {},
): Promise<{ id: string; slug: string; environments: { id: string; slug: string }[] }> {
  return expectOk(
    await client.post("/api/v1/projects", { projectName: unique("project"), ...more }),
    "creating a project",
  ).project;
}

/** A project identity with universal auth, logged in. */
export async function anIdentity(
  client: Client,
  base: string,
  projectId: string,
  more: Record<string, unknown> = {},
): Promise<{ id: string; clientId: string; clientSecret: string; token: string; client: Client }> {
  const { identity } = expectOk(
    await client.post(`/api/v1/projects/${projectId}/identities`, { name: unique("identity"), ...more }),
    "creating an identity",
  );
  const { clientId, clientSecret } = await credentials(client, identity.id);
  const token = await login(base, clientId, clientSecret);
  return { id: identity.id, clientId, clientSecret, token, client: clientOf(base, token) };
}

export async function credentials(
  client: Client,
  identityId: string,
  settings: Record<string, unknown> = {},
): Promise<{ clientId: string; clientSecret: string; clientSecretId: string }> {
  const auth = expectOk(
    await client.post(`/api/v1/auth/universal-auth/identities/${identityId}`, settings),
    "attaching universal auth",
  );
  const secret = expectOk(
    await client.post(`/api/v1/auth/universal-auth/identities/${identityId}/client-secrets`, {}),
    "making a client secret",
  );
  return {
    clientId: auth.identityUniversalAuth.clientId,
    clientSecret: secret.clientSecret,
    clientSecretId: secret.clientSecretData.id,
  };
}

export async function login(base: string, clientId: string, clientSecret: string): Promise<string> {
  return expectOk(
    await clientOf(base).post("/api/v1/auth/universal-auth/login", { clientId, clientSecret }),
    "login",
  ).accessToken;
}

export async function aRole(
  client: Client,
  projectId: string,
  permissions: readonly unknown[],
): Promise<string> {
  return expectOk(
    await client.post(`/api/v1/projects/${projectId}/roles`, {
      slug: unique("role"),
      name: "A role",
      permissions,
    }),
    "creating a role",
  ).role.slug;
}

/** A busy machine is given this long at least. */
const LEAST_PATIENCE_MS = 120_000;

/** Asks again until it holds; for what other nodes are promised within a time, never for what is due at once. */
export async function until(holds: () => Promise<boolean>, milliseconds: number): Promise<void> {
  const deadline = performance.now() + Math.max(milliseconds, LEAST_PATIENCE_MS);
  while (!(await holds())) {
    if (performance.now() > deadline)
      throw new Error(`it did not hold, neither within ${milliseconds} ms nor long after`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
