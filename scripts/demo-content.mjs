// What the demo shows. Everything goes through the public interface, as a user would do it.

export function clientOf(base, token) {
  return async (method, path, body) => {
    const response = await fetch(base + path, {
      method,
      headers: {
        ...(token ? { authorization: `Bearer ${token}` } : {}),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  };
}

export const OWNER = { email: "demo@example.com", password: "keyward-demo-password", organization: "Demo" };

export async function seed(base) {
  const booted = await clientOf(base)("POST", "/api/v1/admin/bootstrap", OWNER);
  const token = booted.identity.credentials.token;
  const call = clientOf(base, token);
  const { project } = await call("POST", "/api/v1/projects", { projectName: "Payments", slug: "payments" });
  const { identity } = await call("POST", `/api/v1/projects/${project.id}/identities`, {
    name: "deploy-bot",
    roles: [{ role: "member" }],
    metadata: [{ key: "team", value: "core" }],
  });
  const { identityUniversalAuth } = await call(
    "POST",
    `/api/v1/auth/universal-auth/identities/${identity.id}`,
    { accessTokenTTL: 3600, accessTokenMaxTTL: 86_400 },
  );
  const { clientSecret } = await call(
    "POST",
    `/api/v1/auth/universal-auth/identities/${identity.id}/client-secrets`,
    { description: "demo" },
  );
  return {
    token,
    projectId: project.id,
    projectSlug: project.slug,
    identityId: identity.id,
    clientId: identityUniversalAuth.clientId,
    clientSecret,
  };
}

export async function curlLines(base, c) {
  return `
Keyward runs at ${base}. Documentation of the interface: ${base}/api/docs
Log in as a person: ${OWNER.email} / ${OWNER.password}

  # The admin's token, for the lines below
  export TOKEN='${c.token}'

  # Create a machine identity in the project ${c.projectSlug}
  curl -s -X POST ${base}/api/v1/projects/${c.projectSlug}/identities -H "authorization: Bearer $TOKEN" \\
    -H 'content-type: application/json' -d '{"name":"my-bot","roles":[{"role":"viewer"}],"metadata":[{"key":"team","value":"core"}]}'

  # List the identities of the project
  curl -s ${base}/api/v1/projects/${c.projectSlug}/identities -H "authorization: Bearer $TOKEN"

  # Log in as the identity deploy-bot, which the demo made
  curl -s -X POST ${base}/api/v1/auth/universal-auth/login -H 'content-type: application/json' \\
    -d '{"clientId":"${c.clientId}","clientSecret":"${c.clientSecret}"}'

  # What happened so far
  curl -s "${base}/api/v1/organization/audit-logs?limit=5" -H "authorization: Bearer $TOKEN"

Ctrl-C stops the server. The data stays in the demo's folder.`;
}
