// A Keyward of its own with a root and profiles, and the doors to it: its HTTP face and its database.
import { rmSync } from "node:fs";
import pg from "pg";
import { dataFolder, startKeyward } from "../processes.mjs";
import { socketOf } from "../world.mjs";

const CM = "/api/v1/cert-manager";

export async function openWorld() {
  const dataDir = dataFolder();
  const keyward = await startKeyward({ KEYWARD_DATA_DIR: dataDir, KEYWARD_LOG_LEVEL: "info" });
  let token;
  const call = async (method, path, body) => {
    const headers = {
      ...(body ? { "content-type": "application/json" } : {}),
      ...(token ? { authorization: `Bearer ${token}` } : {}),
    };
    const response = await fetch(keyward.base + path, {
      method,
      headers,
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text);
  };
  const booted = await call("POST", "/api/v1/admin/bootstrap", {
    email: "bench@example.com",
    password: "bench bench bench",
    organization: "Bench",
  });
  token = booted.identity.credentials.token;
  const { project } = await call("POST", "/api/v1/projects", { projectName: "Bench", type: "cert-manager" });
  const projectId = project.id;
  const root = await call("POST", `${CM}/ca/internal`, {
    name: "root",
    projectId,
    configuration: { type: "root", commonName: "Bench Root", keyAlgorithm: "EC_prime256v1" },
  });
  const { certificatePolicy } = await call("POST", `${CM}/certificate-policies`, { name: "any", projectId });
  const profile = async (slug) =>
    (
      await call("POST", `${CM}/certificate-profiles`, {
        caId: root.id,
        certificatePolicyId: certificatePolicy.id,
        slug,
        projectId,
      })
    ).certificateProfile.id;
  const connection = socketOf(dataDir);
  const database = new pg.Client(connection);
  await database.connect();
  return {
    keyward,
    connection,
    database,
    projectId,
    profile,
    call,
    headers: { authorization: `Bearer ${token}` },
    async close() {
      await database.end();
      await keyward.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** The trigram index takes as long as all others together, so it is built beside them. */
async function buildIndexes(connection, indexes) {
  const isSlow = ({ indexdef }) => indexdef.includes("USING gin");
  await Promise.all(
    [indexes.filter(isSlow), indexes.filter((index) => !isSlow(index))].map(async (definitions) => {
      const client = new pg.Client(connection);
      await client.connect();
      await client.query("SET maintenance_work_mem = '512MB'");
      for (const { indexdef } of definitions) await client.query(indexdef);
      await client.end();
    }),
  );
}

/** `count` certificates straight into the inventory: a third expired, a tenth revoked, two seconds apart. */
export async function seed({ database, connection, projectId }, profileId, count) {
  const { rows: indexes } = await database.query(
    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'certificates' AND indexname NOT IN ('certificates_pkey', 'certificates_serial_unique')",
  );
  const isLarge = count >= 100_000;
  if (isLarge) for (const { indexname } of indexes) await database.query(`DROP INDEX ${indexname}`);
  await database.query(
    `INSERT INTO certificates (id, project_id, profile_id, not_before, not_after, created_at, updated_at, revoked_at, phase,
       revocation_reason, source, serial_number, common_name, key_algorithm, signature_algorithm, search_text, alt_names, key_fingerprint)
     SELECT id, $1, $2, at, CASE WHEN g % 10 < 3 THEN at + interval '1 hour' ELSE now() + interval '90 days' END, at, at,
       CASE WHEN g % 10 = 9 THEN at + interval '1 minute' END, CASE WHEN g % 10 = 9 THEN 2 WHEN g % 10 < 3 THEN 1 ELSE 0 END,
       CASE WHEN g % 10 = 9 THEN 1 END, 'issued', serial, cn, 'EC_prime256v1', 'ECDSA-SHA256', cn || E'\\n' || serial,
       jsonb_build_array(jsonb_build_object('type', 'dns_name', 'value', cn)), decode(md5(g::text), 'hex')
     FROM (SELECT g, at, '40' || md5(g::text) AS serial,
         (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5('id' || g), 1, 3) || '8' || substr(md5('id' || g), 4, 15))::uuid AS id,
         (ARRAY['api', 'web', 'db', 'cache', 'mail'])[1 + g % 5] || '-' || g || '.' || (ARRAY['prod', 'stage', 'dev'])[1 + g % 3] || '.example.com' AS cn
       FROM (SELECT g, now() - ($3 + 100) * interval '2 seconds' + g * interval '2 seconds' AS at FROM generate_series(1, $3::int) g) y) x`,
    [projectId, profileId, count],
  );
  if (isLarge) await buildIndexes(connection, indexes);
  await database.query(
    `INSERT INTO certificate_blocks
     SELECT $1::uuid, (array_agg(created_at ORDER BY created_at DESC, id DESC))[1], (array_agg(id ORDER BY created_at DESC, id DESC))[1], count(*)
     FROM (SELECT created_at, id, (row_number() OVER (ORDER BY created_at, id) - 1) / 2000 AS b FROM certificates
       WHERE profile_id = $1 AND created_at < now() - interval '2 minutes') x
     GROUP BY b HAVING count(*) = 2000 ON CONFLICT DO NOTHING`,
    [profileId],
  );
  await database.query(
    `INSERT INTO certificate_chapters
     SELECT $1::uuid, (array_agg(until_at ORDER BY until_at DESC, until_id DESC))[1], (array_agg(until_id ORDER BY until_at DESC, until_id DESC))[1], sum(count)
     FROM (SELECT until_at, until_id, count, (row_number() OVER (ORDER BY until_at, until_id) - 1) / 32 AS b FROM certificate_blocks WHERE profile_id = $1) x
     GROUP BY b HAVING count(*) = 32 ON CONFLICT DO NOTHING`,
    [profileId],
  );
  await database.query("VACUUM ANALYZE certificates, certificate_blocks, certificate_chapters");
}

/** Once the server's own job, which runs each minute, has read what was put in behind its back. */
export async function upkeepDone({ database }) {
  const isDone = async () =>
    (await database.query("SELECT 1 FROM certificate_blocks WHERE letters IS NULL LIMIT 1")).rows.length ===
    0;
  while (!(await isDone())) await new Promise((resolve) => setTimeout(resolve, 500));
}
