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
  return { token, ...(await seedSecrets(call)), ...(await seedCertificates(call)) };
}

async function seedSecrets(call) {
  const { project } = await call("POST", "/api/v1/projects", { projectName: "Payments", slug: "payments" });
  const { identity } = await call("POST", `/api/v1/projects/${project.id}/identities`, {
    name: "deploy-bot",
    roles: [{ role: "member" }],
    metadata: [{ key: "team", value: "core" }],
  });
  const auth = `/api/v1/auth/universal-auth/identities/${identity.id}`;
  const { identityUniversalAuth } = await call("POST", auth, {
    accessTokenTTL: 3600,
    accessTokenMaxTTL: 86_400,
  });
  const { clientSecret } = await call("POST", `${auth}/client-secrets`, { description: "demo" });
  const place = { projectId: project.id, environment: "dev" };
  const secrets = {
    DB_HOST: "db.internal",
    DB_URL: "postgres://app@${DB_HOST}/payments",
    API_KEY: "demo-not-a-real-key",
  };
  for (const [name, secretValue] of Object.entries(secrets)) {
    await call("POST", `/api/v4/secrets/${name}`, { ...place, secretPath: "/", secretValue });
  }
  return {
    projectId: project.id,
    projectSlug: project.slug,
    identityId: identity.id,
    clientId: identityUniversalAuth.clientId,
    clientSecret,
  };
}

async function seedCertificates(call) {
  const cm = "/api/v1/cert-manager";
  const { project } = await call("POST", "/api/v1/projects", {
    projectName: "Certificates",
    slug: "certificates",
    type: "cert-manager",
  });
  const projectId = project.id;
  const authority = (name, configuration) =>
    call("POST", `${cm}/ca/internal`, {
      projectId,
      name,
      status: "active",
      configuration: { keyAlgorithm: "EC_prime256v1", ...configuration },
    });
  const root = await authority("root", { type: "root", commonName: "Demo Root" });
  const issuing = await authority("issuing", {
    type: "intermediate",
    commonName: "Demo Issuing CA",
    parentCaId: root.id,
  });
  const { certificatePolicy } = await call("POST", `${cm}/certificate-policies`, {
    projectId,
    name: "servers",
    sans: [{ type: "dns_name", allowed: ["*.example.com"] }],
    validity: { max: "90d" },
  });
  const { certificateProfile } = await call("POST", `${cm}/certificate-profiles`, {
    projectId,
    caId: issuing.id,
    certificatePolicyId: certificatePolicy.id,
    slug: "web-servers",
    defaults: { ttlDays: 30 },
  });
  const profileId = certificateProfile.id;
  const { alert } = await call("POST", `${cm}/alerts`, {
    projectId,
    name: "Server certificates run out",
    eventType: "expiration",
    alertBefore: "30d",
    filters: [{ value: "example.com" }],
    channels: [{ config: { recipients: ["ops@example.com"] } }],
  });
  const issue = (name, validity) =>
    call("POST", `${cm}/certificates`, {
      profileId,
      attributes: { commonName: name, altNames: [{ type: "dns_name", value: name }], ...validity },
    });
  const active = await issue("web.example.com", { ttl: "20d" });
  const revoked = await issue("old.example.com", { ttl: "60d" });
  await call("POST", `${cm}/certificates/${revoked.certificate.certificateId}/revoke`, {
    revocationReason: "SUPERSEDED",
  });
  // Runs out while you read this, so that all three states are there.
  await issue("brief.example.com", { notAfter: new Date(Date.now() + 3000).toISOString() });
  return { profileId, alertId: alert.id, certificateId: active.certificate.certificateId };
}

export async function curlLines(base, c) {
  const token = '-H "authorization: Bearer $TOKEN"';
  const json = "-H 'content-type: application/json'";
  return `
Keyward runs at ${base}. Documentation of the interface: ${base}/api/docs
Log in as a person: ${OWNER.email} / ${OWNER.password}

  # The admin's token, for the lines below
  export TOKEN='${c.token}'

  # 1. List the certificates of a profile: one active, one revoked, one expired
  curl -s "${base}/api/v1/cert-manager/certificate-profiles/${c.profileId}/certificates" ${token}
  curl -s "${base}/api/v1/cert-manager/certificate-profiles/${c.profileId}/certificates?status=active&search=web" ${token}

  # Look at the certificate and its chain with OpenSSL
  curl -s "${base}/api/v1/cert-manager/certificates/${c.certificateId}/bundle" ${token} \\
    | node -pe 'JSON.parse(require("fs").readFileSync(0)).certificate' | openssl x509 -noout -text

  # 2. Create a machine identity in the project ${c.projectSlug}
  curl -s -X POST ${base}/api/v1/projects/${c.projectSlug}/identities ${token} ${json} \\
    -d '{"name":"my-bot","roles":[{"role":"viewer"}],"metadata":[{"key":"team","value":"core"}]}'

  # Log in as the identity deploy-bot, which the demo made
  curl -s -X POST ${base}/api/v1/auth/universal-auth/login ${json} \\
    -d '{"clientId":"${c.clientId}","clientSecret":"${c.clientSecret}"}'

  # 3. Create a certificate alert; its mail goes to the demo's own mailbox and is printed here
  curl -s -X POST ${base}/api/v1/cert-manager/alerts ${token} ${json} \\
    -d '{"name":"Anything of example.com","eventType":"issuance","filters":[{"value":"example.com"}],"channels":[{"config":{"recipients":["ops@example.com"]}}]}'
  curl -s -X POST ${base}/api/v1/cert-manager/alerts/${c.alertId}/test ${token}

  # 4. Hear of every secret change, in one terminal …
  curl -sN -X POST ${base}/api/v1/events/subscribe/project-events ${token} ${json} -d '{"projectId":"${c.projectSlug}"}'
  # … and change one in another
  curl -s -X PATCH ${base}/api/v4/secrets/API_KEY ${token} ${json} \\
    -d '{"projectId":"${c.projectId}","environment":"dev","secretPath":"/","secretValue":"another"}'

  # Read the secrets of dev; DB_URL refers to DB_HOST
  curl -s "${base}/api/v4/secrets?projectId=${c.projectId}&environment=dev&secretPath=/" ${token}

  # What happened so far
  curl -s "${base}/api/v1/organization/audit-logs?limit=5" ${token}

Ctrl-C stops the server. The data stays in the demo's folder.
`;
}
