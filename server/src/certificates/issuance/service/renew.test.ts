import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { anIdentity, aRole } from "../../../../test/builders.ts";
import { aPki, issue, ok, type Pki } from "../../../../test/certificates.ts";
import { openTestHouse, type Client, type TestHouse } from "../../../../test/harness.ts";
import { buildCsr, csrToPem, encodeName, nameFrom, subjectAltName } from "../../x509/index.ts";

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
          isSlow: true,
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
});
