// node bench/certificates/issue.mjs [--connections 16] [--seconds 5] [--rounds 3] [--warmup 12]
// Issuing with a key made here over HTTP, and for a request, against what bounds it: the raw signature, and a loop that
// only inserts the same rows. One run, so that the ratios mean something on any machine.
import { createHash, generateKeyPairSync, randomBytes, randomUUID, sign } from "node:crypto";
import pg from "pg";
import { allAnswered, flagsOf, isStarted, median, showRows } from "../bars.mjs";
import { load } from "../load.mjs";
import { aPki } from "../../server/dist/test/certificates.js";
import { openTestHouse } from "../../server/dist/test/harness.js";
import { someRequests } from "./requests.mjs";
import { openWorld } from "./world.mjs";

/** Requests under way when the use case itself is measured. */
const AT_ONCE = 64;

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

/** How often per second `once` ends, so many of it under way at a time. */
async function rateOf(atOnce, seconds, once) {
  let count = 0;
  const until = performance.now() + seconds * 1000;
  const loop = async () => {
    while (performance.now() < until) {
      await once();
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, loop));
  return count / seconds;
}

/** The same rows in the same two transactions, by as many connections, and nothing else. */
async function bareInsertRate({ connection, projectId }, profileId, { atOnce, seconds }) {
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
  const rate = await rateOf(atOnce, seconds, one);
  await pool.end();
  return rate;
}

/** The engine compiles for ten seconds before it is as fast as it stays; a server runs for longer than that. */
const WARM_UP_SECONDS = 12;

/** Over HTTP, with keys made by the server. */
async function keyedRows({ connections, seconds, rounds, warmup, say }) {
  const world = await openWorld();
  try {
    const profileId = await world.profile("bench");
    const next = (n) => ({
      method: "POST",
      path: "/api/v1/cert-manager/certificates",
      headers: world.headers,
      body: {
        profileId,
        attributes: {
          commonName: `host-${n}.example.com`,
          ttl: "30d",
          altNames: [{ type: "dns_name", value: `host-${n}.example.com` }],
        },
      },
    });
    await load(world.keyward.base, next, { connections, seconds: warmup });
    const runs = [];
    for (let round = 0; round < rounds; round += 1) {
      const bare = await bareInsertRate(world, profileId, { atOnce: connections, seconds });
      const ours = await load(world.keyward.base, next, { connections, seconds });
      allAnswered(ours);
      runs.push({ rate: ours.rate, bare });
      say(
        `issue with a key made here: ${ours.rate.toFixed(0)}/s, p50 ${ours.p50.toFixed(1)} ms, p99 ${ours.p99.toFixed(1)} ms; bare inserts ${bare.toFixed(0)}/s`,
      );
    }
    const rate = median(runs.map((run) => run.rate));
    return [
      {
        case: `issue with a key made here (P-256), over HTTP, ${connections} connections`,
        ...{
          keyward: rate,
          limit: median(runs.map(({ bare }) => bare)),
          unit: "/s",
          bar: "≥ 800",
          isKept: rate >= 800,
        },
      },
    ];
  } finally {
    await world.close();
  }
}

/**
 * The whole use case for a request (permission, proof of possession, policy, lint, signature, rows, audit, fact), without
 * HTTP before it: what it is compared with has none either.
 */
async function requestRows({ seconds, rounds, warmup, say }) {
  const house = await openTestHouse();
  try {
    const { profile, project } = await aPki(house);
    const requests = await someRequests(4000);
    const { answer } = house.house.routes.find(({ endpoint }) => endpoint.id === "issueCertificate");
    const caller = { requestId: "bench", ip: "127.0.0.1", userAgent: "bench" };
    const actor = await house.house.authentication.authenticate(`Bearer ${house.owner.token}`, caller);
    const wish = {
      profileId: profile.id,
      attributes: { ttl: "30d" },
      removeRootsFromChain: false,
      dryRun: false,
    };
    let count = 0;
    const issueRate = (limit) =>
      rateOf(AT_ONCE, limit, () => {
        const csr = requests[(count += 1) % requests.length];
        return answer({ actor, headers: {}, params: {}, query: {}, body: { ...wish, csr } });
      });
    await issueRate(warmup);
    const ground = { connection: house.database.connection, projectId: project.id };
    const runs = [];
    for (let round = 0; round < rounds; round += 1) {
      const raw = rawSignRate();
      const bare = await bareInsertRate(ground, profile.id, { atOnce: AT_ONCE, seconds });
      const rate = await issueRate(seconds);
      runs.push({ rate, raw, bare, ofRaw: rate / raw, ofBare: rate / bare });
      say(
        `issue for a request: ${rate.toFixed(0)}/s; bare inserts ${bare.toFixed(0)}/s, bare signatures ${raw}/s`,
      );
    }
    const of = (field) => median(runs.map((run) => run[field]));
    const row = (what, limit, bar, isKept) => ({
      case: `issue for a request (P-256), ${AT_ONCE} at once, beside bare ${what}`,
      ...{ keyward: of("rate"), limit, unit: "/s", bar, isKept },
    });
    return [
      row("inserts of the same rows", of("bare"), "≥ 50 % of limit", of("ofBare") >= 0.5),
      // Out of reach while bare inserts alone stay below it: said in docs/reliability.md.
      row("signatures", of("raw"), "≥ 20 % of limit", of("ofRaw") >= 0.2),
    ];
  } finally {
    await house.close();
  }
}

export async function issueRows(options = {}) {
  const given = {
    connections: 16,
    seconds: 5,
    rounds: 3,
    warmup: WARM_UP_SECONDS,
    say: () => {},
    ...options,
  };
  return [...(await keyedRows(given)), ...(await requestRows(given))];
}

if (isStarted(import.meta))
  showRows(await issueRows({ ...flagsOf(["connections", "seconds", "rounds", "warmup"]), say: console.log }));
