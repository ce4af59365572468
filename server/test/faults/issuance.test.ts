/**
 * kill -9 in the middle of issuing, again and again. After each start the same requests are sent with the same keys;
 * at the end the database must know every serial number, every key must have led to one certificate, and whatever a
 * client was ever given must be the certificate that the inventory holds.
 */
import assert from "node:assert/strict";
import { randomBytes, X509Certificate } from "node:crypto";
import { after, describe, it } from "node:test";
import { createTestDatabase, stopOwnPostgres, withClient, type TestDatabase } from "../postgres.ts";
import { startServer } from "../process.ts";
import { clientOf, type Client } from "../harness.ts";
import { aProfile, aRoot, certProject, ok } from "../certificates.ts";

const KILLS = Number(process.env["KEYWARD_ISSUANCE_KILLS"] ?? 4);
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

const rowsOf = (database: TestDatabase, text: string) => {
  const { database: name, ...server } = database.connection;
  return withClient(server, name, async (client) => (await client.query(text)).rows);
};

describe("issuing under kill -9", () => {
  after(() => stopOwnPostgres());

  it(`no signed certificate is unknown, and one key leads to one certificate, over ${KILLS} kills`, async () => {
    const database = await createTestDatabase();
    const { host, port, user, database: name } = database.connection;
    const env = {
      DATABASE_URL: `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`,
      KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
      KEYWARD_RATE_LIMIT_WRITE: "0",
      KEYWARD_RATE_LIMIT_READ: "0",
      KEYWARD_LOG_LEVEL: "info",
    };
    let server = await startServer(env);
    const { token, profileId } = await boot(server.base);
    const attempts: Attempt[] = [];
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
      await new Promise((resolve) => setTimeout(resolve, 60 + Math.random() * 400));
      await server.kill();
      isDead = true;
      await Promise.all(workers);
      server = await startServer(env);
    }
    const unanswered = attempts.filter(({ seen }) => seen.size === 0).length;
    assert.ok(unanswered > 0, "some requests were cut off");
    const client = clientOf(server.base, token);
    for (const attempt of attempts) assert.ok(await tryOnce(client, profileId, attempt), attempt.key);
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
  });
});
