// Cost against how much is already there. Things are put straight into the tables, because a million requests would
// take an hour; what is measured goes through the door. A curve that is not level, or logarithmic, is a finding.
import {
  openWorld as openCertificateWorld,
  seed as seedCertificates,
  upkeepDone,
} from "./certificates/world.mjs";
import { eventRows } from "./events/index.mjs";
import { load } from "./load.mjs";
import { openWorld } from "./world.mjs";

const SEEDS = {
  secrets: `INSERT INTO secrets (id, project_id, folder_id, key, version, key_id, value, created_at, updated_at)
    SELECT gen_random_uuid(), s.project_id, $2, 'SEED_' || g, 1, s.key_id, s.value, now(), now() FROM secrets s, generate_series($3::int, $4::int) g WHERE s.id = $1`,
  // An hour old, as if they had come one after the other.
  identities: `WITH made AS (
      INSERT INTO identities (id, org_id, project_id, name, metadata, created_at, updated_at)
      SELECT gen_random_uuid(), i.org_id, i.project_id, 'seed-' || g, '[]', now() - interval '1 hour' + g * interval '1 millisecond', now()
      FROM identities i, generate_series($2::int, $3::int) g WHERE i.id = $1 RETURNING id, org_id, project_id, created_at
    ), places AS (
      INSERT INTO memberships (id, org_id, project_id, identity_id, created_at, updated_at)
      SELECT gen_random_uuid(), org_id, project_id, id, created_at, now() FROM made RETURNING id
    ) INSERT INTO membership_roles (id, membership_id, role) SELECT gen_random_uuid(), id, 'no-access' FROM places`,
  alerts: `INSERT INTO alerts (id, org_id, project_id, name, description, event_type, alert_before, filters, enabled, is_daily, gathered_at, created_at, updated_at)
    SELECT gen_random_uuid(), a.org_id, a.project_id, 'seed-' || g, '', 'expiration', '30d', '[]', false, false, now(), now(), now() FROM alerts a, generate_series($2::int, $3::int) g WHERE a.id = $1`,
};

/** One transaction that corrects a kept count for each of a million rows would take longer with every row. */
const BITE = 2000;

/** How to make rows of a table and what to ask when they are there. */
const seeded = (world, table, first, beside = []) => ({
  world,
  async grow(from, to) {
    for (let done = from; done < to; done += BITE)
      await world.database.query(SEEDS[table], [...first, done + 1, Math.min(to, done + BITE)]);
    await world.database.query(`VACUUM ANALYZE ${[table, ...beside].join(", ")}`);
  },
});

async function secretCurves() {
  const world = await openWorld();
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
    ...seeded(world, "secrets", [secret.id, folder.id]),
    requests: () => ({
      "read a secret": () => ({ method: "GET", path: `/api/v4/secrets/ONE?${query}` }),
      "create a secret": (n) => ({
        method: "POST",
        path: `/api/v4/secrets/NEW_${n}_${Date.now()}`,
        body: { ...at, secretPath: "/crowd", secretValue: "value" },
      }),
      "update a secret": (n) => ({
        method: "PATCH",
        path: "/api/v4/secrets/TWO",
        body: { ...at, secretPath: "/", secretValue: `value ${n}` },
      }),
    }),
  };
}

async function identityCurves() {
  const world = await openWorld();
  const { project } = await world.call("POST", "/api/v1/projects", { projectName: "Growth of identities" });
  const path = `/api/v1/projects/${project.id}/identities`;
  const { identity } = await world.call("POST", path, { name: "model" });
  return {
    ...seeded(world, "identities", [identity.id], ["memberships", "membership_roles"]),
    requests: () => ({
      "create an identity": (n) => ({ method: "POST", path, body: { name: `new-${n}` } }),
      "first page of identities": () => ({ method: "GET", path: `${path}?limit=20` }),
      "first page of members": () => ({
        method: "GET",
        path: `/api/v1/projects/${project.id}/memberships/identities?limit=20`,
      }),
    }),
  };
}

async function alertCurves() {
  const world = await openWorld();
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
    ...seeded(world, "alerts", [alert.id]),
    requests: () => ({
      "create an alert": (n) => ({ method: "POST", path, body: body(`new-${n}-${Date.now()}`) }),
      "first page of alerts": () => ({ method: "GET", path: `${path}?projectId=${project.id}&limit=20` }),
    }),
  };
}

const WORTH_WAITING = 100_000;

/** Each size in a profile of its own, beside the smaller ones. */
async function certificateCurves() {
  const world = await openCertificateWorld();
  let profileId;
  return {
    world,
    async grow(_from, to) {
      profileId = await world.profile(`size-${to}`);
      await seedCertificates(world, profileId, to);
      // Or the server reads what was put in behind its back at the very time that is measured.
      if (to >= WORTH_WAITING) await upkeepDone(world);
    },
    requests: () => ({
      "issue a certificate": (n) => ({
        method: "POST",
        path: "/api/v1/cert-manager/certificates",
        body: { profileId, attributes: { commonName: `new-${n}.example.com`, ttl: "30d" } },
      }),
      "first page of certificates": () => ({
        method: "GET",
        path: `/api/v1/cert-manager/certificate-profiles/${profileId}/certificates?limit=20`,
      }),
    }),
  };
}

const TOPICS = {
  secrets: secretCurves,
  certificates: certificateCurves,
  alerts: alertCurves,
  identities: identityCurves,
};
export const GROWTH_TOPICS = Object.keys(TOPICS);

async function measure(world, name, request, seconds) {
  const next = (n) => ({ ...request(n), headers: world.headers });
  const { p50, p99, rate, statuses } = await load(world.keyward.base, next, {
    connections: 1,
    seconds,
    warmup: seconds / 3,
  });
  if (Object.keys(statuses).some((status) => status !== "200"))
    throw new Error(`${name}: ${JSON.stringify(statuses)}`);
  return { p50, p99, rate };
}

/**
 * One event to all of them, by how many streams are open. It has to be written to each, so what should be level is the
 * cost per stream. A million sockets do not fit on one machine; the curve ends where one node's limit is.
 */
export async function streamCurve({ sizes, step = () => {} }) {
  const points = [];
  for (const streams of sizes) {
    const rows = await eventRows({ streams, rounds: 1, isWeighed: false, wanted: ["broadcast"] });
    const ms = rows.find(({ unit }) => unit === "ms").keyward;
    points.push({ size: streams, p50: (ms * 1000) / streams, p99: null, rate: null });
    step(`growth of streams, ${streams.toLocaleString("en")}`);
  }
  return { topic: "streams", name: "one event, for each 1,000 streams", points };
}

/** For each topic: seed up to a size, measure its requests one at a time, go on to the next size. */
export async function growthCurves({ topics, sizes, seconds, step = () => {} }) {
  const curves = [];
  for (const topic of topics) {
    const { world, grow, requests } = await TOPICS[topic]();
    const points = new Map();
    try {
      let there = 0;
      for (const size of sizes) {
        await grow(there, size);
        there = size;
        for (const [name, request] of Object.entries(requests())) {
          const figures = await measure(world, name, request, seconds);
          points.set(name, [...(points.get(name) ?? []), { size, ...figures }]);
        }
        step(`growth of ${topic}, ${size.toLocaleString("en")}`);
      }
    } finally {
      await world.close();
    }
    for (const [name, own] of points) curves.push({ topic, name, points: own });
  }
  return curves;
}
