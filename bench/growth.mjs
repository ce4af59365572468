// Cost against how much is already there. Things are put straight into the tables, because a million requests would
// take an hour; what is measured goes through the door. A curve that is not level, or logarithmic, is a finding.
import { load } from "./load.mjs";
import { openWorld } from "./world.mjs";

const SEEDS = {
  secrets: `INSERT INTO secrets (id, project_id, folder_id, key, version, key_id, value, created_at, updated_at)
    SELECT gen_random_uuid(), s.project_id, $2, 'SEED_' || g, 1, s.key_id, s.value, now(), now() FROM secrets s, generate_series($3::int, $4::int) g WHERE s.id = $1`,
  identities: `WITH made AS (
      INSERT INTO identities (id, org_id, project_id, name, metadata, created_at, updated_at)
      SELECT gen_random_uuid(), i.org_id, i.project_id, 'seed-' || g, '[]', now(), now() FROM identities i, generate_series($2::int, $3::int) g WHERE i.id = $1 RETURNING id, org_id, project_id
    ), places AS (
      INSERT INTO memberships (id, org_id, project_id, identity_id, created_at, updated_at)
      SELECT gen_random_uuid(), org_id, project_id, id, now(), now() FROM made RETURNING id
    ) INSERT INTO membership_roles (id, membership_id, role) SELECT gen_random_uuid(), id, 'no-access' FROM places`,
  alerts: `INSERT INTO alerts (id, org_id, project_id, name, description, event_type, alert_before, filters, enabled, is_daily, gathered_at, created_at, updated_at)
    SELECT gen_random_uuid(), a.org_id, a.project_id, 'seed-' || g, '', 'expiration', '30d', '[]', false, false, now(), now(), now() FROM alerts a, generate_series($2::int, $3::int) g WHERE a.id = $1`,
};

async function secretCurve(world) {
  const { project } = await world.call("POST", "/api/v1/projects", { projectName: "Growth of secrets" });
  const at = { projectId: project.id, environment: "dev" };
  const { folder } = await world.call("POST", "/api/v2/folders", { ...at, path: "/", name: "crowd" });
  for (const key of ["ONE", "TWO"])
    await world.call("POST", `/api/v4/secrets/${key}`, { ...at, secretPath: "/", secretValue: "value" });
  const { secret } = await world.call("POST", "/api/v4/secrets/MODEL", {
    ...at,
    secretPath: "/crowd",
    secretValue: "value",
  });
  const query = `projectId=${project.id}&environment=dev`;
  return {
    table: "secrets",
    first: [secret.id, folder.id],
    requests: {
      "read a secret": () => ({ method: "GET", path: `/api/v4/secrets/ONE?${query}` }),
      "create a secret among the crowd": (n) => ({
        method: "POST",
        path: `/api/v4/secrets/NEW_${n}_${Date.now()}`,
        body: { ...at, secretPath: "/crowd", secretValue: "value" },
      }),
    },
  };
}

async function identityCurve(world) {
  const { project } = await world.call("POST", "/api/v1/projects", { projectName: "Growth of identities" });
  const path = `/api/v1/projects/${project.id}/identities`;
  const { identity } = await world.call("POST", path, { name: "model" });
  return {
    table: "identities",
    first: [identity.id],
    requests: {
      "create an identity": (n) => ({ method: "POST", path, body: { name: `new-${n}` } }),
      "first page of identities": () => ({ method: "GET", path: `${path}?limit=20` }),
    },
  };
}

async function alertCurve(world) {
  const { project } = await world.call("POST", "/api/v1/projects", {
    projectName: "Growth of alerts",
    type: "cert-manager",
  });
  const path = "/api/v1/cert-manager/alerts";
  const body = (name) => ({
    projectId: project.id,
    name,
    eventType: "expiration",
    alertBefore: "30d",
    filters: [],
    channels: [{ config: { recipients: ["ops@example.com"] } }],
  });
  const { alert } = await world.call("POST", path, body("model"));
  return {
    table: "alerts",
    first: [alert.id],
    requests: {
      "create an alert": (n) => ({ method: "POST", path, body: body(`new-${n}-${Date.now()}`) }),
      "first page of alerts": () => ({ method: "GET", path: `${path}?projectId=${project.id}&limit=20` }),
    },
  };
}

/** For each kind of thing: seed up to a size, measure its requests one at a time, go on to the next size. */
export async function growthCurves({ sizes, seconds }) {
  const curves = new Map();
  const world = await openWorld();
  try {
    for (const open of [secretCurve, identityCurve, alertCurve]) {
      const { table, first, requests } = await open(world);
      let there = 0;
      for (const size of sizes) {
        await world.database.query(SEEDS[table], [...first, there + 1, size]);
        await world.database.query(`ANALYZE ${table}`);
        there = size;
        for (const [name, request] of Object.entries(requests)) {
          const next = (n) => ({ ...request(n), headers: world.headers });
          const { p50, p99, rate, statuses } = await load(world.keyward.base, next, {
            connections: 1,
            seconds,
            warmup: 0.5,
          });
          if (Object.keys(statuses).some((status) => status !== "200"))
            throw new Error(`${name}: ${JSON.stringify(statuses)}`);
          curves.set(name, [...(curves.get(name) ?? []), { size, p50, p99, rate }]);
        }
      }
    }
  } finally {
    await world.close();
  }
  return [...curves].map(([name, points]) => ({ name, points }));
}
