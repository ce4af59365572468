import assert from "node:assert/strict";
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { anIdentity, aRole, until } from "../../../test/builders.ts";
import { aPki, aProfile, aRoot, issue, ok, type Pki } from "../../../test/certificates.ts";
import { openTestHouse, type Client, type TestHouse } from "../../../test/harness.ts";
import { withClient } from "../../../test/postgres.ts";
import { buildCsr, csrToPem, encodeName, nameFrom, subjectAltName } from "@keyward/x509";

const CERTS = "/api/v1/cert-manager/certificates";
const SIGN = "/api/v1/pki/certificates/sign-certificate";

async function aCsr(name: string): Promise<string> {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const fields = {
    subject: encodeName(nameFrom({ commonName: name })),
    extensions: [subjectAltName([{ type: "dns_name", value: name }], false)],
  };
  return csrToPem(await buildCsr(fields, { key: privateKey, algorithm: "ECDSA-SHA256" }));
}

describe("renewing a certificate", () => {
  let house: TestHouse;
  let pki: Pki;
  before(async () => {
    house = await openTestHouse();
    pki = await aPki(house);
  });
  after(() => house.close());

  const renew = (client: Client, id: string, body: Record<string, unknown> = {}, key?: string) =>
    client.post(`${CERTS}/${id}/renew`, body, key ? { headers: { "idempotency-key": key } } : {});
  const holding = async (rules: readonly Record<string, unknown>[]): Promise<Client> => {
    const role = await aRole(house.owner, pki.project.id, rules);
    return (await anIdentity(house.owner, house.base, pki.project.id, { roles: [{ role }] })).client;
  };
  const mayIssue = { subject: "certificate-profiles", action: ["read", "issue-cert"] };
  const keyReads = async (certificateId: string): Promise<number> => {
    const rows = await house.house.database.read((q) =>
      q.rows<{ n: number }>(
        {
          name: undefined,
          isSlow: false,
          text: "SELECT count(*)::int AS n FROM audit_log WHERE event = 'read-certificate-private-key' AND metadata ->> 'certificateId' = $1",
        },
        [certificateId],
      ),
    );
    return rows[0]?.n ?? 0;
  };

  test("with the same key shows the key only to who may read it, and leaves an audit row when it does", async () => {
    const old = await issue(house.owner, pki.profile.id);
    const issuer = await holding([mayIssue, { subject: "certificates", action: "read" }]);
    const renewed = ok(await renew(issuer, old.certificateId, { renewalKeySource: "reuse" }));
    assert.equal(renewed.privateKey, undefined);
    assert.equal(await keyReads(old.certificateId), 0);
    const reader = await holding([
      mayIssue,
      { subject: "certificates", action: ["read", "read-private-key"] },
    ]);
    const again = ok(await renew(reader, renewed.certificateId, { renewalKeySource: "reuse" }));
    assert.equal(again.privateKey, old.privateKey);
    assert.equal(await keyReads(renewed.certificateId), 1);
    const fresh = ok(await renew(issuer, again.certificateId));
    assert.notEqual(fresh.privateKey, old.privateKey);
    assert.ok(fresh.privateKey, "a key made for the caller is the caller's");
  });

  test("is for who may see the certificate, not for everybody who may issue", async () => {
    const old = await issue(house.owner, pki.profile.id);
    assert.equal((await renew(await holding([mayIssue]), old.certificateId)).status, 403);
  });

  test("under another name needs the right to that name", async () => {
    const narrow = await holding([
      { subject: "certificate-authorities", action: "read" },
      { subject: "certificates", action: "read" },
      {
        subject: "certificates",
        action: "create",
        conditions: { commonName: { $glob: "*.dev.example.com" } },
      },
    ]);
    const sign = async (name: string) =>
      narrow.post(SIGN, { caId: pki.root.id, csr: await aCsr(name), ttl: "30d" });
    assert.equal((await sign("bank.example.com")).status, 403);
    const own = ok(await sign("a.dev.example.com"));
    const [found] = ok(
      await house.owner.get(
        `/api/v1/projects/${pki.project.id}/certificates/search?search=a.dev.example.com`,
      ),
    ).certificates;
    assert.equal(found.serialNumber, own.serialNumber);
    const attributes = { commonName: "bank.example.com" };
    const csr = await aCsr("bank.example.com");
    assert.equal((await renew(narrow, found.id, { csr, attributes })).status, 403);
    assert.equal((await renew(narrow, found.id, { csr: await aCsr("a.dev.example.com") })).status, 200);
  });

  test("repeated under one Idempotency-Key answers the same certificate and key; another key is refused", async () => {
    const old = await issue(house.owner, pki.profile.id);
    const first = ok(await renew(house.owner, old.certificateId, {}, "again"));
    const second = ok(await renew(house.owner, old.certificateId, {}, "again"));
    assert.deepEqual(
      [second.serialNumber, second.privateKey, second.certificateRequestId],
      [first.serialNumber, first.privateKey, first.certificateRequestId],
    );
    assert.equal((await renew(house.owner, old.certificateId, {}, "other")).status, 400);
  });

  test("by several at once has one successor", async () => {
    const old = await issue(house.owner, pki.profile.id);
    const answers = await Promise.all(Array.from({ length: 6 }, () => renew(house.owner, old.certificateId)));
    const won = answers.filter(({ status }) => status === 200);
    assert.equal(won.length, 1, JSON.stringify(answers.map(({ status }) => status)));
    for (const { status } of answers) assert.ok([200, 400, 409].includes(status), String(status));
    const { certificate } = ok(await house.owner.get(`${CERTS}/${old.certificateId}`));
    assert.equal(certificate.renewedByCertificateId, won[0]?.body.certificateId);
  });

  test("that is revoked meanwhile is refused", async () => {
    const { certificateId } = await issue(house.owner, pki.profile.id);
    const { server, connection } = house.database;
    await withClient(server, connection.database, async (client) => {
      await client.query("BEGIN");
      await client.query(
        "UPDATE certificates SET revoked_at = now(), phase = 2, revocation_reason = 0 WHERE id = $1",
        [certificateId],
      );
      const renewed = renew(house.owner, certificateId);
      await until(async () => {
        const { rowCount } = await client.query(
          "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        );
        return (rowCount ?? 0) > 0;
      }, 30_000);
      await client.query("COMMIT");
      assert.equal((await renewed).status, 409);
    });
    const { certificate } = ok(await house.owner.get(`${CERTS}/${certificateId}`));
    assert.equal(certificate.renewedByCertificateId, null);
  });

  test("leaves of its request that it was issued, and neither what was signed nor the key", async () => {
    const old = await issue(house.owner, pki.profile.id);
    const { certificateRequestId } = ok(await renew(house.owner, old.certificateId));
    const { server, connection } = house.database;
    const { rows } = await withClient(server, connection.database, (client) =>
      client.query("SELECT status, tbs, context, sealed_key FROM certificate_requests WHERE id = $1", [
        certificateRequestId,
      ]),
    );
    assert.deepEqual(rows, [{ status: "issued", tbs: null, context: null, sealed_key: null }]);
  });

  test("with a key that was compromised is refused, though the key is kept here", async () => {
    const old = await issue(house.owner, pki.profile.id);
    ok(
      await house.owner.post(`${CERTS}/${old.certificateId}/revoke`, { revocationReason: "KEY_COMPROMISE" }),
    );
    const other = await aPki(house);
    const { certificateId } = ok(
      await house.owner.post(`${CERTS}/import-certificate`, {
        certificatePem: old.certificate,
        privateKeyPem: old.privateKey,
        projectId: other.project.id,
        profileId: other.profile.id,
      }),
    );
    const answer = await renew(house.owner, certificateId, { renewalKeySource: "reuse" });
    assert.equal(answer.status, 400);
    assert.match(answer.body.message, /key\.known_weak/);
  });

  test("of a certificate from elsewhere without a profile is refused: nothing here may sign it", async () => {
    const foreign = await issue(house.owner, pki.profile.id);
    const other = await aPki(house);
    const { certificateId } = ok(
      await house.owner.post(`${CERTS}/import-certificate`, {
        certificatePem: foreign.certificate,
        privateKeyPem: foreign.privateKey,
        projectId: other.project.id,
      }),
    );
    assert.equal((await renew(house.owner, certificateId)).status, 400);
    const { certificate } = ok(await house.owner.get(`${CERTS}/${certificateId}`));
    assert.equal(certificate.renewedByCertificateId ?? null, null);
  });

  test("may say a new end instead of a lifetime", async () => {
    const old = await issue(house.owner, pki.profile.id, { ttl: "10d" });
    const notAfter = new Date(house.clock.millis() + 20 * 86_400_000).toISOString();
    const renewed = ok(await renew(house.owner, old.certificateId, { attributes: { notAfter } }));
    const { certificate } = ok(await house.owner.get(`${CERTS}/${renewed.certificateId}`));
    assert.equal(Date.parse(certificate.notAfter), Math.floor(Date.parse(notAfter) / 1000) * 1000);
  });

  test("a dry run tells what the policy and what the words themselves say, though they cannot be written down", async () => {
    const strict = await aPki(house, { policy: { validity: { max: "30d" } } });
    const { dryRun } = ok(
      await house.owner.post(CERTS, {
        profileId: strict.profile.id,
        dryRun: true,
        attributes: { commonName: "a.example.com", country: "Germany", ttl: "90d" },
      }),
    );
    assert.equal(dryRun.wouldIssue, false);
    const codes: string[] = dryRun.findings.map(({ code }: { code: string }) => code);
    assert.ok(
      codes.some((code) => code.startsWith("name.country")),
      String(codes),
    );
    assert.ok(
      codes.some((code) => code.includes("validity")),
      String(codes),
    );
  });

  test("with the same key under another name needs the right to read the key: names decide who may", async () => {
    const victim = await issue(house.owner, pki.profile.id, { commonName: "bank.example.com", altNames: [] });
    const narrow = await holding([
      mayIssue,
      { subject: "certificates", action: "read" },
      {
        subject: "certificates",
        action: "read-private-key",
        conditions: { commonName: { $glob: "mine.*" } },
      },
    ]);
    assert.equal((await narrow.get(`${CERTS}/${victim.certificateId}/private-key`)).status, 403);
    for (const attributes of [
      { commonName: "mine.example.com" },
      { altNames: [{ type: "dns_name", value: "mine.example.com" }] },
    ]) {
      const answer = await renew(narrow, victim.certificateId, { renewalKeySource: "reuse", attributes });
      assert.equal(answer.status, 403, JSON.stringify(attributes));
    }
    const renewed = ok(await renew(narrow, victim.certificateId, { renewalKeySource: "reuse" }));
    assert.equal(renewed.privateKey, undefined);
    const again = { renewalKeySource: "reuse", attributes: { commonName: "mine.example.com" } };
    assert.equal(ok(await renew(house.owner, renewed.certificateId, again)).privateKey, victim.privateKey);
  });

  test("lasts as long as the old one, but no longer than policy and authority allow by now", async () => {
    const one = await aPki(house, { policy: { validity: { max: "90d" } } });
    const lifetime = (pem: string) => {
      const { validFrom, validTo } = new X509Certificate(pem);
      return (Date.parse(validTo) - Date.parse(validFrom)) / 86_400_000;
    };
    const old = await issue(house.owner, one.profile.id, { ttl: "90d" });
    const policy = `/api/v1/cert-manager/certificate-policies/${one.profile.certificatePolicyId}`;
    ok(await house.owner.patch(policy, { validity: { max: "47d" } }));
    const renewed = ok(await renew(house.owner, old.certificateId));
    assert.equal(lifetime(renewed.certificate), 47);
    const asked = await renew(house.owner, renewed.certificateId, { attributes: { ttl: "90d" } });
    assert.equal(asked.status, 400, "what is asked for is not cut");
    const shorter = ok(await renew(house.owner, renewed.certificateId, { attributes: { ttl: "7d" } }));
    assert.equal(lifetime(shorter.certificate), 7);

    const day = 86_400_000;
    const notAfter = new Date(Math.floor(house.clock.millis() / 1000) * 1000 + 100 * day);
    const root = await aRoot(house.owner, one.project.id, { notAfter: notAfter.toISOString() });
    const ending = await aProfile(house.owner, one.project.id, root.id);
    const last = await issue(house.owner, ending.id, { ttl: "60d" });
    const { database, ...server } = house.database.connection;
    await withClient(server, database, (client) =>
      client.query("UPDATE certificates SET not_before = not_before - interval '50 days' WHERE id = $1", [
        last.certificateId,
      ]),
    );
    const next = ok(await renew(house.owner, last.certificateId));
    assert.equal(Date.parse(new X509Certificate(next.certificate).validTo), notAfter.getTime());
    house.clock.advance(2000);
    const useless = await renew(house.owner, next.certificateId);
    assert.deepEqual(
      [useless.status, useless.body.details[0].code],
      [400, "validity.after_issuer"],
      "one that would last no longer is no renewal",
    );
  });

  test("keeps what is sent as null or empty: clients say so for what they leave alone", async () => {
    const altNames = [{ type: "dns_name", value: "kept.example.com" }];
    const old = await issue(house.owner, pki.profile.id, { commonName: "kept", altNames, ttl: "3d" });
    const attributes = { commonName: null, organization: "", altNames: null, ttl: "", keyAlgorithm: "" };
    const { certificate } = ok(await renew(house.owner, old.certificateId, { attributes }));
    const [before, after_] = [new X509Certificate(old.certificate), new X509Certificate(certificate)];
    assert.deepEqual([after_.subject, after_.subjectAltName], [before.subject, before.subjectAltName]);
    assert.equal(Date.parse(after_.validTo) - Date.parse(after_.validFrom), 3 * 86_400_000);
  });

  test("that a revocation overtakes is refused", async () => {
    const old = await issue(house.owner, pki.profile.id);
    const { database, ...server } = house.database.connection;
    const answer = await withClient(server, database, async (client) => {
      await client.query("BEGIN");
      await client.query(
        "UPDATE certificates SET phase = 2, revoked_at = now(), revocation_reason = 5 WHERE id = $1",
        [old.certificateId],
      );
      const renewing = renew(house.owner, old.certificateId);
      await until(async () => {
        const recorded = "SELECT 1 FROM certificate_requests WHERE context ->> 'renewedFromId' = $1";
        return (await client.query(recorded, [old.certificateId])).rows.length > 0;
      }, 5000);
      await client.query("COMMIT");
      return renewing;
    });
    assert.equal(answer.status, 409);
    assert.match(answer.body.message, /revoked/);
    const { certificate } = ok(await house.owner.get(`${CERTS}/${old.certificateId}`));
    assert.equal(certificate.renewedByCertificateId, null);
  });
});
