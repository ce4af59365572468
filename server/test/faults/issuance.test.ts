/**
 * kill -9 in the middle of issuing: at each step of signing once, and at any moment again and again. After each start
 * the same requests are sent with the same keys; at the end the database must know every serial number, every key must
 * have led to one certificate, and whatever a client was ever given must be the certificate that the inventory holds.
 */
import assert from "node:assert/strict";
import { randomBytes, X509Certificate } from "node:crypto";
import { after, describe, it } from "node:test";
import { createTestDatabase, stopOwnPostgres, withClient, type TestDatabase } from "../postgres.ts";
import { startServer } from "../process.ts";
import { clientOf, type Client } from "../harness.ts";
import { aProfile, aRoot, certProject, ok } from "../certificates.ts";
import { dice } from "./load.ts";
import { openTraps, type Step } from "./traps.ts";
import { fullOnly, sized } from "../full-size.ts";

const KILLS = Number(process.env["KEYWARD_ISSUANCE_KILLS"] ?? 4);
const SEED = Number(process.env["KEYWARD_FAULTS_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const CERTS = "/api/v1/cert-manager/certificates";

interface Attempt {
  readonly key: string;
  readonly commonName: string;
  readonly seen: Set<string>;
}

async function boot(base: string) {
  const booted = ok(
    await clientOf(base).post("/api/v1/admin/bootstrap", {
      email: "a@example.com",
      password: "a long enough password",
      organization: "O",
    }),
  );
  const token = booted.identity.credentials.token as string;
  const client = clientOf(base, token);
  const project = await certProject(client);
  const root = await aRoot(client, project.id);
  return { token, profileId: (await aProfile(client, project.id, root.id)).id as string };
}

/** True once it was answered; a connection that dies under it is the point of the exercise. */
async function tryOnce(client: Client, profileId: string, attempt: Attempt): Promise<boolean> {
  try {
    const body = { profileId, attributes: { commonName: attempt.commonName, ttl: "1d" } };
    const answer = await client.post(CERTS, body, { headers: { "idempotency-key": attempt.key } });
    if (answer.status === 503) return false;
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    attempt.seen.add(new X509Certificate(answer.body.certificate.certificate).fingerprint256);
    return true;
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    return false;
  }
}

/** A server that has only just started may say 503 for a moment. */
async function insist(client: Client, profileId: string, attempt: Attempt): Promise<boolean> {
  for (let turn = 0; turn < 50; turn += 1) {
    if (await tryOnce(client, profileId, attempt)) return true;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return false;
}

const rowsOf = (database: TestDatabase, text: string) => {
  const { database: name, ...server } = database.connection;
  return withClient(server, name, async (client) => (await client.query(text)).rows);
};

function environmentOf(database: TestDatabase): Record<string, string> {
  const { host, port, user, database: name } = database.connection;
  return {
    DATABASE_URL: `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`,
    KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
    KEYWARD_RATE_LIMIT_WRITE: "0",
    KEYWARD_RATE_LIMIT_READ: "0",
    KEYWARD_LOG_LEVEL: "info",
  };
}

/**
 * policy → serial → build → lint → sign → store → facts. Policy, build and lint work in memory and come before the
 * first statement; the signature is made between the commit of the record and the first statement of the store.
 */
const STEPS: readonly Step[] = [
  {
    name: "the policy was met, built and linted; the serial is not recorded",
    at: "BEFORE INSERT ON certificate_requests",
  },
  {
    name: "the serial and the bytes to sign are recorded, not committed",
    at: "AFTER INSERT ON certificate_requests",
  },
  { name: "the record is being committed; nothing is signed", at: "COMMIT ON certificate_requests" },
  { name: "it is signed, and not stored", at: "BEFORE INSERT ON certificates" },
  { name: "half of it is stored", at: "BEFORE INSERT ON certificate_bodies" },
  { name: "it is stored, and its request still open", at: "BEFORE UPDATE ON certificate_requests" },
  { name: "all is stored, the fact is not stated", at: "BEFORE INSERT ON outbox" },
  { name: "the certificate and its fact are being committed", at: "COMMIT ON certificates" },
];

describe("issuing under kill -9", () => {
  after(() => stopOwnPostgres());

  const killAt = async (steps: readonly Step[]) => {
    const database = await createTestDatabase();
    const traps = await openTraps(database);
    const env = environmentOf(database);
    let server = await startServer(env);
    const { token, profileId } = await boot(server.base);
    const recorded = async (commonName: string) =>
      rowsOf(
        database,
        `SELECT serial_number AS serial, status FROM certificate_requests WHERE idempotency_key LIKE '%${commonName}'`,
      );
    const done: { commonName: string; print: string }[] = [];

    for (const step of steps) {
      const index = STEPS.indexOf(step);
      const fates = ["goes on", "is ended"] as const;
      // A few kills: one fate per step, in turn. Many: each step with both.
      for (const fate of KILLS > 4 ? fates : fates.filter((_, at) => at === index % 2)) {
        const told = `${step.name}; the orphaned session ${fate}`;
        const attempt = {
          key: `key-${index}-${fate.length}`,
          commonName: `step-${index}-${fate.length}`,
          seen: new Set<string>(),
        };
        await traps.set(step);
        const answered = tryOnce(clientOf(server.base, token), profileId, attempt);
        await traps.sprung();
        await server.kill();
        assert.equal(await answered, false, `${told}: it was answered`);
        await traps.open(fate);
        const left = await recorded(attempt.key);
        server = await startServer(env);
        const client = clientOf(server.base, token);
        assert.ok(await insist(client, profileId, attempt), told);
        assert.ok(await insist(client, profileId, attempt), told);
        assert.equal(attempt.seen.size, 1, `${told}: one key led to ${attempt.seen.size} certificates`);
        const settled = await recorded(attempt.key);
        // A signature may exist of what was on record when the process died: it is this certificate, not another one.
        if (left.length > 0)
          assert.deepEqual(
            settled.map(({ serial }) => serial),
            left.map(({ serial }) => serial),
            told,
          );
        // From the moment of signing on there is a record, whatever became of the session.
        if (index >= 3) assert.equal(left.length, 1, `${told}: signed, and on no record`);
        assert.deepEqual(
          settled.map(({ status }) => status),
          ["issued"],
          told,
        );
        done.push({
          commonName: attempt.commonName,
          print: [...attempt.seen].join().replaceAll(":", "").toLowerCase(),
        });
      }
    }
    await server.stop();
    await traps.close();

    const stored = await rowsOf(
      database,
      `SELECT c.common_name AS "commonName", encode(sha256(b.der), 'hex') AS print FROM certificates c JOIN certificate_bodies b ON b.certificate_id = c.id
       WHERE c.profile_id IS NOT NULL ORDER BY c.common_name`,
    );
    assert.deepEqual(
      stored,
      [...done].sort((a, b) => (a.commonName < b.commonName ? -1 : 1)),
    );
    const facts = await rowsOf(
      database,
      `SELECT c.id, (SELECT count(*)::int FROM outbox o WHERE o.name = 'certificate.issued' AND o.data->>'certificateId' = c.id::text) AS facts,
         (SELECT count(*)::int FROM audit_log a WHERE a.event = 'issue-certificate' AND a.metadata->>'certificateId' = c.id::text) AS audits
       FROM certificates c WHERE c.profile_id IS NOT NULL`,
    );
    for (const { id, facts: stated, audits } of facts)
      assert.deepEqual([stated, audits], [1, 1], `${id}: stated and audited once`);
    const serials = await rowsOf(
      database,
      "SELECT serial_number AS serial FROM certificate_requests WHERE authority_id IS NOT NULL",
    );
    assert.equal(
      new Set(serials.map(({ serial }) => serial)).size,
      serials.length,
      "no serial is used twice",
    );
    await database.drop();
  };

  // In two runs, so that a slow machine gets through each in time.
  for (const [what, steps] of [
    // The small run kills where a mistake costs most: signed and not stored, and in the commit of what was signed.
    ["from the policy to the signature", STEPS.slice(sized(3, 0), 4)],
    ["from the store to the facts", STEPS.slice(sized(7, 4))],
  ] as const) {
    it(`at each step of signing ${what}: nothing signed is unknown, and the same key leads to the same certificate`, () =>
      killAt(steps));
  }

  it(
    `no signed certificate is unknown, and one key leads to one certificate, over ${KILLS} kills (KEYWARD_FAULTS_SEED=${SEED})`,
    { skip: fullOnly },
    async () => {
      const database = await createTestDatabase();
      const env = environmentOf(database);
      let server = await startServer(env);
      const { token, profileId } = await boot(server.base);
      const attempts: Attempt[] = [];
      const roll = dice(SEED);
      for (let round = 0; round < KILLS; round += 1) {
        const client = clientOf(server.base, token);
        let isDead = false;
        const workers = Array.from({ length: 8 }, async (_, worker) => {
          for (let turn = 0; !isDead; turn += 1) {
            const attempt = {
              key: `${round}-${worker}-${turn}`,
              commonName: `host-${round}-${worker}-${turn}`,
              seen: new Set<string>(),
            };
            attempts.push(attempt);
            await tryOnce(client, profileId, attempt);
          }
        });
        // Nothing waits for a step: over many kills each step of the gate is hit.
        await new Promise((resolve) => setTimeout(resolve, 60 + roll(400)));
        await server.kill();
        isDead = true;
        await Promise.all(workers);
        server = await startServer(env);
      }
      const unanswered = attempts.filter(({ seen }) => seen.size === 0).length;
      assert.ok(unanswered > 0, "some requests were cut off");
      const client = clientOf(server.base, token);
      for (const attempt of attempts) assert.ok(await insist(client, profileId, attempt), attempt.key);
      await server.stop();

      for (const { key, seen } of attempts)
        assert.equal(seen.size, 1, `${key} led to ${seen.size} certificates`);
      const stored = await rowsOf(
        database,
        "SELECT c.common_name AS cn, c.serial_number AS serial, encode(sha256(b.der), 'hex') AS print FROM certificates c JOIN certificate_bodies b ON b.certificate_id = c.id WHERE c.profile_id IS NOT NULL",
      );
      assert.equal(stored.length, attempts.length, "as many certificates as keys");
      assert.equal(new Set(stored.map(({ serial }) => serial)).size, stored.length);
      const given = new Set(
        attempts.flatMap(({ seen }) => [...seen]).map((print) => print.replaceAll(":", "").toLowerCase()),
      );
      for (const { print, cn } of stored)
        assert.ok(given.has(print), `${cn}: the client holds what the inventory holds`);
      assert.deepEqual(
        await rowsOf(
          database,
          "SELECT c.id FROM certificates c WHERE NOT EXISTS (SELECT 1 FROM certificate_requests r WHERE r.certificate_id = c.id AND r.serial_number = c.serial_number)",
        ),
        [],
        "each was recorded before it was signed",
      );
      assert.deepEqual(
        await rowsOf(database, "SELECT id FROM certificate_requests WHERE status <> 'issued'"),
        [],
      );
      assert.deepEqual(
        await rowsOf(
          database,
          "SELECT certificate_id FROM certificate_bodies b WHERE NOT EXISTS (SELECT 1 FROM certificates c WHERE c.id = b.certificate_id)",
        ),
        [],
      );
      await database.drop();
    },
  );
});
