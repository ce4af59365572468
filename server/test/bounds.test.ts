/** Whatever a tenant can make has a bound that the answer names. Full by SQL, then asked for one more. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, anIdentity, unique } from "./builders.ts";
import { aPki, issue } from "./certificates.ts";
import { openTestHouse, type Answer, type TestHouse } from "./harness.ts";
import { withClient } from "./postgres.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const CM = "/api/v1/cert-manager";
const fill = (text: string, values: unknown[]) =>
  withClient(house.database.server, house.database.connection.database, (client) =>
    client.query(text, values),
  );

/** `ask` is refused while it is full, in words that name the bound, and goes through after `makeRoom`. */
async function holds(
  bound: RegExp,
  ask: () => Promise<Answer>,
  makeRoom: () => Promise<unknown>,
): Promise<void> {
  const full = await ask();
  assert.equal(full.status, 400, JSON.stringify(full.body));
  assert.match(full.body.message, bound);
  await makeRoom();
  // That there was no room is remembered for a moment where counting is dear.
  let fits = await ask();
  for (let tries = 0; fits.status === 400 && tries < 50; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    fits = await ask();
  }
  assert.equal(fits.status, 200, JSON.stringify(fits.body));
}

test("folders of a project", async () => {
  const { id: projectId, environments } = await aProject(house.owner);
  const [{ id: environmentId } = { id: "" }] = environments;
  await fill(
    `INSERT INTO folders (id, project_id, environment_id, parent_id, name, path, created_at, updated_at)
     SELECT gen_random_uuid(), $1, $2, r.id, 'f' || n, '/f' || n, now(), now()
     FROM generate_series(1, 100000) n, (SELECT id FROM folders WHERE environment_id = $2 AND path = '/') r`,
    [projectId, environmentId],
  );
  await holds(
    /at most 100,000 folders/,
    () => house.owner.post("/api/v2/folders", { projectId, environment: "dev", path: "/", name: "more" }),
    () => fill("DELETE FROM folders WHERE project_id = $1 AND path LIKE '/f9999%'", [projectId]),
  );
});

const imported = `
  INSERT INTO secret_imports (id, project_id, folder_id, source_project_id, source_environment_id, source_path, position, created_at, updated_at)
  SELECT gen_random_uuid(), $1, f.id, $1, s.id, '/s' || n, n, now(), now()
  FROM generate_series(1, $2::int) n, folders f JOIN environments e ON e.id = f.environment_id JOIN environments s ON s.project_id = e.project_id
  WHERE f.project_id = $1 AND e.slug = $3 AND f.path = '/' AND s.slug = 'prod'`;
const addImport = (projectId: string) => () =>
  house.owner.post("/api/v2/secret-imports", {
    projectId,
    environment: "dev",
    import: { environment: "prod", path: "/" },
  });

test("imports of a folder", async () => {
  const { id } = await aProject(house.owner);
  await fill(imported, [id, 1000, "dev"]);
  await holds(/at most 1,000 imports/, addImport(id), () =>
    fill("DELETE FROM secret_imports WHERE project_id = $1 AND position = 7", [id]),
  );
});

test("imports of a project", async () => {
  const { id } = await aProject(house.owner);
  await fill(imported, [id, 100_000, "staging"]);
  await holds(/at most 100,000 imports/, addImport(id), () =>
    fill("DELETE FROM secret_imports WHERE project_id = $1 AND position = 7", [id]),
  );
});

test("many at once get exactly what room there is: client secrets, policies, folders, environments", async () => {
  const { id: projectId } = await aProject(house.owner);
  const { id } = await anIdentity(house.owner, house.base, projectId);
  const { project } = await aPki(house);
  await fill(
    `INSERT INTO client_secrets (id, universal_auth_id, digest, prefix, description, uses_limit, ttl, created_at, updated_at)
     SELECT gen_random_uuid(), u.id, sha256((random() || u.id::text || n)::bytea), 'x', '', 0, 0, now(), now()
     FROM universal_auths u, generate_series(1, 993 - (SELECT count(*) FROM client_secrets c JOIN universal_auths a ON a.id = c.universal_auth_id WHERE a.identity_id = $1)) n
     WHERE u.identity_id = $1`,
    [id],
  );
  await fill(
    `INSERT INTO certificate_policies (id, project_id, name, rules, created_at, updated_at)
     SELECT gen_random_uuid(), $1, 'x' || n, '{}', now(), now()
     FROM generate_series(1, 9993 - (SELECT count(*) FROM certificate_policies WHERE project_id = $1)) n`,
    [project.id],
  );
  await fill(
    `INSERT INTO environments (id, project_id, name, slug, position, created_at, updated_at)
     SELECT gen_random_uuid(), $1, 'n' || n, 'env-' || n, 10 + n, now(), now()
     FROM generate_series(1, 993 - (SELECT count(*) FROM environments WHERE project_id = $1)) n`,
    [projectId],
  );
  await fill(
    `INSERT INTO folders (id, project_id, environment_id, parent_id, name, path, created_at, updated_at)
     SELECT gen_random_uuid(), $1, r.environment_id, r.id, 'f' || n, '/f' || n, now(), now()
     FROM generate_series(1, 99993 - (SELECT count(*) FROM folders WHERE project_id = $1)) n,
       (SELECT f.id, f.environment_id FROM folders f JOIN environments e ON e.id = f.environment_id WHERE f.project_id = $1 AND e.slug = 'dev' AND f.path = '/') r`,
    [projectId],
  );
  for (const make of [
    () => house.owner.post(`/api/v1/auth/universal-auth/identities/${id}/client-secrets`, {}),
    () => house.owner.post(`${CM}/certificate-policies`, { projectId: project.id, name: unique("more") }),
    (n: number) =>
      house.owner.post("/api/v2/folders", { projectId, environment: "dev", path: "/", name: `more-${n}` }),
    (n: number) =>
      house.owner.post(`/api/v1/projects/${projectId}/environments`, {
        name: `Last ${n}`,
        slug: `last-${n}`,
      }),
  ]) {
    const answers = await Promise.all(Array.from({ length: 30 }, (_none, n) => make(n)));
    const made = answers.filter(({ status }) => status === 200).length;
    assert.equal(made, 7, `${make.toString()}: ${JSON.stringify(answers.at(-1)?.body)}`);
  }
});

test("projects of an organisation", async () => {
  const tenant = await house.newTenant();
  await fill(
    `INSERT INTO projects (id, org_id, name, slug, type, created_at, updated_at)
     SELECT gen_random_uuid(), $1, 'p', 'p-' || n, 'secret-manager', now(), now() FROM generate_series(1, 10000) n`,
    [tenant.orgId],
  );
  await holds(
    /at most 10,000 projects/,
    () => tenant.post("/api/v1/projects", { projectName: unique("more") }),
    () => fill("DELETE FROM projects WHERE org_id = $1 AND slug = 'p-7'", [tenant.orgId]),
  );
});

test("client secrets of an identity; revoked ones do not count and are forgotten in time", async () => {
  const { id: projectId } = await aProject(house.owner);
  const { id } = await anIdentity(house.owner, house.base, projectId);
  const make = (isRevoked: boolean) =>
    fill(
      `INSERT INTO client_secrets (id, universal_auth_id, digest, prefix, description, uses_limit, ttl, is_revoked, created_at, updated_at)
       SELECT gen_random_uuid(), u.id, sha256((random() || u.id::text || n)::bytea), 'x', '', 0, 0, $2, now() - interval '1 year', now()
       FROM generate_series(1, 1000) n, universal_auths u WHERE u.identity_id = $1`,
      [id, isRevoked],
    );
  await make(true);
  await make(true);
  await make(false);
  const ask = () => house.owner.post(`/api/v1/auth/universal-auth/identities/${id}/client-secrets`, {});
  await holds(/at most 1,000 client secrets/, ask, () =>
    fill(
      `DELETE FROM client_secrets WHERE id IN (SELECT c.id FROM client_secrets c JOIN universal_auths u ON u.id = c.universal_auth_id
       WHERE u.identity_id = $1 AND NOT c.is_revoked LIMIT 20)`,
      [id],
    ),
  );
  const listed = async () =>
    (await house.owner.get(`/api/v1/auth/universal-auth/identities/${id}/client-secrets`)).body
      .clientSecretData.length as number;
  const before = await listed();
  assert.equal((await ask()).status, 200);
  assert.ok((await listed()) < before, "older revoked ones go when new ones come");
});

test("client secrets that are over do not count; the oldest of them are forgotten, but not those whose tokens live", async () => {
  const { id: projectId } = await aProject(house.owner);
  const { id } = await anIdentity(house.owner, house.base, projectId);
  const make = (usesLimit: number, expiresAt: Date | null) =>
    fill(
      `INSERT INTO client_secrets (id, universal_auth_id, digest, prefix, description, uses, uses_limit, ttl, expires_at, created_at, updated_at)
       SELECT gen_random_uuid(), u.id, sha256((random() || u.id::text || n)::bytea), 'x', '', 1, $2, 0, $3, now() - interval '1 year' + make_interval(secs => n), now()
       FROM generate_series(1, 1000) n, universal_auths u WHERE u.identity_id = $1`,
      [id, usesLimit, expiresAt],
    );
  await make(1, null);
  await make(0, new Date(house.clock.millis() - 1000));
  const path = `/api/v1/auth/universal-auth/identities/${id}/client-secrets`;
  const oldest = await fill(
    `INSERT INTO access_tokens (id, identity_id, auth_method, client_secret_id, ttl, max_ttl, period, uses_limit, expires_at, created_at, updated_at)
     SELECT gen_random_uuid(), $1, 'universal-auth', c.id, 60, 60, 0, 0, $2, now(), now() FROM client_secrets c JOIN universal_auths u ON u.id = c.universal_auth_id
     WHERE u.identity_id = $1 ORDER BY c.created_at, c.id LIMIT 1 RETURNING client_secret_id AS id`,
    [id, new Date(house.clock.millis() + 3_600_000)],
  );
  const made = await house.owner.post(path, {});
  assert.equal(made.status, 200, JSON.stringify(made.body));
  const listed = (await house.owner.get(path)).body.clientSecretData as { id: string }[];
  assert.ok(listed.length < 2001, "older ones go when new ones come");
  assert.ok(
    listed.some((one) => one.id === oldest.rows[0].id),
    "a secret stays while a token that it gave lives",
  );
});

test("authorities of a project; deleted ones do not count", async () => {
  const { project } = await aPki(house);
  const make = (name: string, deletedAt: string | null) =>
    fill(
      `INSERT INTO certificate_authorities (id, project_id, name, kind, status, key_algorithm, subject, active_key_id, created_at, updated_at, deleted_at)
       SELECT gen_random_uuid(), $1, $2 || n, 'root', 'disabled', 'EC_prime256v1', '{}', gen_random_uuid(), now(), now(), $3
       FROM generate_series(1, 1000) n`,
      [project.id, name, deletedAt],
    );
  await make("gone", "2020-01-01T00:00:00Z");
  await make("there", null);
  await holds(
    /at most 1,000 certificate authorities/,
    () =>
      house.owner.post(`${CM}/ca/internal`, {
        projectId: project.id,
        name: unique("root"),
        status: "active",
        configuration: {
          type: "root",
          friendlyName: "Root",
          commonName: "Root",
          keyAlgorithm: "EC_prime256v1",
          notAfter: "2040-01-01T00:00:00Z",
        },
      }),
    () =>
      fill("DELETE FROM certificate_authorities WHERE project_id = $1 AND name LIKE 'there9%'", [project.id]),
  );
});

test("certificates of an authority; older ones that nothing needs make room", async () => {
  const { root, profile } = await aPki(house);
  const leaf = await issue(house.owner, profile.id);
  await fill(
    `INSERT INTO authority_certificates (id, authority_id, key_id, version, serial_number, not_before, not_after, der, chain, created_at)
     SELECT gen_random_uuid(), authority_id, key_id, n, serial_number, not_before, not_after, der, chain, created_at
     FROM generate_series(2, 1000) n, authority_certificates WHERE authority_id = $1 AND version = 1`,
    [root.id],
  );
  await holds(
    /at most 1,000 certificates/,
    () =>
      house.owner.post(`${CM}/ca/internal/${root.id}/renew`, {
        type: "existing",
        notAfter: "2039-01-01T00:00:00Z",
      }),
    () =>
      fill(
        `WITH old AS (UPDATE authority_certificates SET created_at = created_at - interval '2 days' WHERE authority_id = $1 AND version IN (6, 7) RETURNING id, version)
         UPDATE certificates SET authority_certificate_id = (SELECT id FROM old WHERE version = 6) WHERE id = $2`,
        [root.id, leaf.certificateId],
      ),
  );
  const path = `${CM}/ca/internal/${root.id}/ca-certificates`;
  const versions = ((await house.owner.get(path)).body as { version: number }[]).map((one) => one.version);
  assert.deepEqual([versions.length, versions.includes(7), versions.includes(1001)], [1000, false, true]);
  assert.ok(versions.includes(6), "one stays while something lives that it has certified");
});

test("policies, profiles and applications of a project", async () => {
  const { project, profile, root } = await aPki(house);
  const projectId = project.id;
  await fill(
    `INSERT INTO certificate_policies (id, project_id, name, rules, created_at, updated_at)
     SELECT gen_random_uuid(), $1, 'x' || n, '{}', now(), now() FROM generate_series(1, 10000) n`,
    [projectId],
  );
  await holds(
    /at most 10,000 certificate policies/,
    () => house.owner.post(`${CM}/certificate-policies`, { projectId, name: unique("more") }),
    () => fill("DELETE FROM certificate_policies WHERE project_id = $1 AND name LIKE 'x9%'", [projectId]),
  );
  const { certificatePolicyId } = profile;
  await fill(
    `INSERT INTO certificate_profiles (id, project_id, policy_id, slug, issuer_type, enrollment_type, created_at, updated_at)
     SELECT gen_random_uuid(), $1, $2, 'x' || n, 'self-signed', 'api', now(), now() FROM generate_series(1, 10000) n`,
    [projectId, certificatePolicyId],
  );
  await holds(
    /at most 10,000 certificate profiles/,
    () =>
      house.owner.post(`${CM}/certificate-profiles`, {
        projectId,
        caId: root.id,
        certificatePolicyId,
        slug: unique("more"),
      }),
    () => fill("DELETE FROM certificate_profiles WHERE project_id = $1 AND slug LIKE 'x9%'", [projectId]),
  );
  await fill(
    `INSERT INTO pki_applications (id, project_id, name, created_at, updated_at)
     SELECT gen_random_uuid(), $1, 'x' || n, now(), now() FROM generate_series(1, 10000) n`,
    [projectId],
  );
  await holds(
    /at most 10,000 applications/,
    () => house.owner.post(`${CM}/applications`, { projectId, name: unique("more") }),
    () => fill("DELETE FROM pki_applications WHERE project_id = $1 AND name LIKE 'x9%'", [projectId]),
  );
});

test("invitations and members of an organisation", async () => {
  const tenant = await house.newTenant();
  const ask = () =>
    tenant.post("/api/v1/organization/invitations", {
      email: `${unique("new")}@example.com`,
      role: "member",
    });
  await fill(
    `INSERT INTO invitations (id, org_id, email, first_name, last_name, role, projects, inviter_kind, inviter_id, digest, expires_at, created_at)
     SELECT gen_random_uuid(), $1::uuid, 'a' || n || '@example.com', '', '', 'member', '[]', 'identity', $2, sha256((n || $1::uuid::text)::bytea), $3, now()
     FROM generate_series(1, 10000) n`,
    [tenant.orgId, tenant.identityId, new Date(house.clock.millis() + 86_400_000)],
  );
  const again = await tenant.post("/api/v1/organization/invitations", {
    email: "a7@example.com",
    role: "member",
  });
  assert.equal(again.status, 200, "one that takes the place of an earlier one needs no room");
  await holds(/at most 10,000 open invitations/, ask, () =>
    fill("DELETE FROM invitations WHERE org_id = $1", [tenant.orgId]),
  );
  const other = await house.newTenant();
  await fill(
    `WITH made AS (INSERT INTO users (id, email, created_at, updated_at)
       SELECT gen_random_uuid(), 'm' || n || '@example.com', now(), now() FROM generate_series(1, 100000) n RETURNING id)
     INSERT INTO memberships (id, org_id, user_id, created_at, updated_at) SELECT gen_random_uuid(), $1, id, now(), now() FROM made`,
    [other.orgId],
  );
  await holds(
    /at most 100,000 members/,
    () =>
      other.post("/api/v1/organization/invitations", {
        email: `${unique("new")}@example.com`,
        role: "member",
      }),
    () => fill("DELETE FROM memberships WHERE org_id = $1 AND user_id IS NOT NULL", [other.orgId]),
  );
});
