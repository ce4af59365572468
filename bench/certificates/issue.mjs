// node bench/certificates/issue.mjs [--connections 16] [--seconds 5] [--rounds 3] [--warmup 12]
// Issuing over HTTP with a key made here and for a request, against what bounds it: the raw signature, and a loop that
// only inserts the same rows. One run, so that the ratios mean something on any machine.
import { createHash, generateKeyPairSync, randomBytes, randomUUID, sign } from "node:crypto";
import pg from "pg";
import { load } from "../load.mjs";
import {
  buildCsr,
  csrToPem,
  encodeName,
  nameFrom,
  subjectAltName,
} from "../../server/dist/src/certificates/x509/index.js";
import { openWorld } from "./world.mjs";

const flag = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : Number(process.argv[at + 1]);
};
const [connections, seconds, rounds] = [flag("connections", 16), flag("seconds", 5), flag("rounds", 3)];
const warmup = flag("warmup", 12);
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

function rawSignRate() {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const bytes = randomBytes(700);
  const until = performance.now() + 1000;
  let count = 0;
  while (performance.now() < until) {
    sign("sha256", bytes, privateKey);
    count += 1;
  }
  return count;
}

/** The same rows in the same two transactions, by as many connections, and nothing else. */
async function bareInsertRate({ connection, projectId }, profileId) {
  const pool = new pg.Pool({ ...connection, max: 10, pipeline: true });
  const der = randomBytes(760);
  const one = async () => {
    const [id, request, serial, at] = [
      randomUUID(),
      randomUUID(),
      randomBytes(16).toString("hex"),
      new Date(),
    ];
    const client = await pool.connect();
    try {
      await Promise.all([
        client.query("BEGIN"),
        client.query({
          name: "r",
          text: "INSERT INTO certificate_requests (id, project_id, profile_id, certificate_id, serial_number, status, tbs, context, created_at, updated_at) VALUES ($1,$2,$3,$4,$5,'pending',$6,'{}',$7,$7)",
          values: [request, projectId, profileId, id, serial, der, at],
        }),
        client.query("COMMIT"),
      ]);
      await Promise.all([
        client.query("BEGIN"),
        client.query({
          name: "c",
          text: "INSERT INTO certificates (id, project_id, profile_id, not_before, not_after, created_at, updated_at, source, serial_number, common_name, key_algorithm, signature_algorithm, search_text, alt_names, key_fingerprint) VALUES ($1,$2,$3,$4,$5,$4,$4,'issued',$6,$7,'EC_prime256v1','ECDSA-SHA256',$8,$9,$10)",
          values: [
            id,
            projectId,
            profileId,
            at,
            new Date(at.getTime() + 86_400_000),
            serial,
            `host-${serial}`,
            `host-${serial}\n${serial}`,
            "[]",
            createHash("sha256").update(serial).digest(),
          ],
        }),
        client.query({
          name: "b",
          text: "INSERT INTO certificate_bodies (certificate_id, der, details) VALUES ($1,$2,'{}')",
          values: [id, der],
        }),
        client.query({
          name: "u",
          text: "UPDATE certificate_requests SET status = 'issued', tbs = NULL, context = NULL, updated_at = $2 WHERE id = $1",
          values: [request, at],
        }),
        client.query({
          name: "a",
          text: "INSERT INTO audit_log (id, at, event, actor_type, actor_name, metadata) VALUES ($1,$2,'bench','system','bench','{}')",
          values: [randomUUID(), at],
        }),
        client.query({ name: "o", text: "INSERT INTO outbox (name, data) VALUES ('bench', '{}')" }),
        client.query("COMMIT"),
      ]);
    } finally {
      client.release();
    }
  };
  let count = 0;
  const until = performance.now() + seconds * 1000;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < until) {
        await one();
        count += 1;
      }
    }),
  );
  await pool.end();
  return count / seconds;
}

const world = await openWorld();
try {
  const profileId = await world.profile("bench");
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const csr = csrToPem(
    await buildCsr(
      {
        subject: encodeName(nameFrom({ commonName: "csr.example.com" })),
        extensions: [subjectAltName([{ type: "dns_name", value: "csr.example.com" }], false)],
      },
      { key: privateKey, algorithm: "ECDSA-SHA256" },
    ),
  );
  const request = (body) => ({
    method: "POST",
    path: "/api/v1/cert-manager/certificates",
    headers: world.headers,
    body,
  });
  const cases = {
    "key made here (P-256)": (n) =>
      request({
        profileId,
        attributes: {
          commonName: `host-${n}.example.com`,
          ttl: "30d",
          altNames: [{ type: "dns_name", value: `host-${n}.example.com` }],
        },
      }),
    "for a request (P-256)": () => request({ profileId, csr, attributes: { ttl: "30d" } }),
  };
  console.log(
    "| case | issued/s | p50 ms | p99 ms | share of raw sign | share of bare inserts |\n|---|---|---|---|---|---|",
  );
  for (const [name, next] of Object.entries(cases)) {
    // The engine compiles for ten seconds before it is as fast as it stays; a server runs for longer than that.
    await load(world.keyward.base, next, { connections, seconds: warmup });
    const runs = [];
    for (let round = 0; round < rounds; round += 1) {
      const raw = rawSignRate();
      const bare = await bareInsertRate(world, profileId);
      const ours = await load(world.keyward.base, next, { connections, seconds });
      if (Object.keys(ours.statuses).some((status) => status !== "200"))
        throw new Error(JSON.stringify(ours.statuses));
      runs.push({ ...ours, ofRaw: ours.rate / raw, ofBare: ours.rate / bare, raw, bare });
    }
    const of = (field) => median(runs.map((run) => run[field]));
    console.log(
      `| ${name} | ${of("rate").toFixed(0)} | ${of("p50").toFixed(1)} | ${of("p99").toFixed(1)} | ${(of("ofRaw") * 100).toFixed(0)} % of ${of("raw").toFixed(0)} | ${(of("ofBare") * 100).toFixed(0)} % of ${of("bare").toFixed(0)} |`,
    );
  }
} finally {
  await world.close();
}
