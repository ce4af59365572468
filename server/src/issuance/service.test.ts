import assert from "node:assert/strict";
import { createPrivateKey, generateKeyPairSync, X509Certificate } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { anIdentity, aRole, unique } from "../../test/builders.ts";
import { anIntermediate, aPki, aProfile, issue, ok, type Pki } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import {
  buildCsr,
  csrToPem,
  defaultSignatureAlgorithm,
  encodeName,
  extendedKeyUsage,
  nameFrom,
  subjectAltName,
} from "@keyward/x509";
import { ask, needs, withFiles } from "@keyward/x509/testing";

const CERTS = "/api/v1/cert-manager/certificates";
const DAY = 86_400_000;

async function aCsr(
  names: readonly string[],
  options: { keyAlgorithm?: "ec" | "rsa1024" } = {},
): Promise<{ csr: string; spoiled: string }> {
  const { privateKey } =
    options.keyAlgorithm === "rsa1024"
      ? generateKeyPairSync("rsa", { modulusLength: 1024 })
      : generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const altNames = subjectAltName(
    names.map((value) => ({ type: "dns_name", value }) as const),
    false,
  );
  const der = await buildCsr(
    {
      subject: encodeName(nameFrom({ commonName: names[0] })),
      extensions: [altNames, extendedKeyUsage(["server_auth"])],
    },
    { key: privateKey, algorithm: defaultSignatureAlgorithm(privateKey) },
  );
  const spoiled = Buffer.from(der);
  spoiled[spoiled.length - 5] = (spoiled.at(-5) ?? 0) ^ 1;
  return { csr: csrToPem(der), spoiled: csrToPem(spoiled) };
}

describe("issuing certificates", () => {
  let house: TestHouse;
  let pki: Pki;
  before(async () => {
    house = await openTestHouse();
    pki = await aPki(house);
  });
  after(() => house.close());

  const post = (body: Record<string, unknown>, headers: Record<string, string> = {}) =>
    house.owner.post(CERTS, { profileId: pki.profile.id, ...body }, { headers });
  const query = async (text: string, values: unknown[] = []) => {
    const { database, ...server } = house.database.connection;
    return withClient(server, database, async (client) => (await client.query(text, values)).rows);
  };

  test("with a key made here: the key fits, the chain ends with the root, the request can be read again", async () => {
    const answer = ok(
      await post({
        attributes: {
          commonName: "web.example.com",
          ttl: "12h",
          altNames: [
            { type: "dns_name", value: "web.example.com" },
            { type: "ip_address", value: "10.0.0.7" },
            { type: "email", value: "a@example.com" },
            { type: "uri", value: "spiffe://example.com/web" },
            { type: "upn", value: "web@corp.example.com" },
          ],
        },
      }),
    );
    assert.equal(answer.status, "issued");
    const { certificate, privateKey, certificateChain, issuingCaCertificate, serialNumber, certificateId } =
      answer.certificate;
    const parsed = new X509Certificate(certificate);
    assert.ok(parsed.checkPrivateKey(createPrivateKey(privateKey)));
    assert.ok(parsed.verify(new X509Certificate(certificateChain).publicKey));
    assert.equal(certificateChain, issuingCaCertificate);
    assert.ok(!certificateChain.endsWith("\n"), "no empty block for clients that split");
    assert.equal(Date.parse(parsed.validTo) - Date.parse(parsed.validFrom), 12 * 3_600_000);
    assert.match(
      parsed.subjectAltName ?? "",
      /DNS:web.example.com, IP Address:10.0.0.7, email:a@example.com, URI:spiffe:\/\/example.com\/web/,
    );
    const request = ok(await house.owner.get(`${CERTS}/certificate-requests/${answer.certificateRequestId}`));
    assert.deepEqual(
      [
        request.status,
        request.certificateId,
        request.serialNumber,
        request.certificate,
        request.privateKey,
        request.errorMessage,
      ],
      ["issued", certificateId, serialNumber, certificate, privateKey, null],
    );
    const shown = ok(await house.owner.get(`${CERTS}/${certificateId}`)).certificate;
    assert.deepEqual(
      [
        shown.status,
        shown.commonName,
        shown.serialNumber,
        shown.hasPrivateKey,
        shown.caId,
        shown.profileId,
        shown.isCA,
      ],
      ["active", "web.example.com", serialNumber, true, pki.root.id, pki.profile.id, false],
    );
    assert.equal(shown.fingerprintSha256, parsed.fingerprint256.replaceAll(":", "").toLowerCase());
  });

  test("for a CSR: possession is proved, the key stays with the caller", async () => {
    const { csr, spoiled } = await aCsr(["csr.example.com"]);
    const { certificate } = ok(await post({ csr, attributes: { ttl: "24h" } }));
    assert.equal(certificate.privateKey, undefined);
    const parsed = new X509Certificate(certificate.certificate);
    assert.deepEqual([parsed.subject, parsed.subjectAltName], ["CN=csr.example.com", "DNS:csr.example.com"]);
    assert.equal(ok(await house.owner.get(`${CERTS}/${certificate.certificateId}/bundle`)).privateKey, null);
    const refused = await post({ csr: spoiled });
    assert.deepEqual([refused.status, refused.body.details[0].code], [400, "csr.signature"]);
    assert.equal((await post({ csr: "nonsense" })).status, 400);
    const weak = await post({ csr: (await aCsr(["weak.example.com"], { keyAlgorithm: "rsa1024" })).csr });
    assert.deepEqual([weak.status, weak.body.details[0].code], [400, "key.rsa_short"]);
  });

  test("a refusal names rule and field, all of them; a dry run says the same and issues nothing", async () => {
    const policy = {
      subject: [{ type: "common_name", allowed: ["*.example.com"] }],
      sans: [{ type: "dns_name", allowed: ["*.example.com"], denied: ["bad.*"] }],
      keyUsages: { allowed: ["digital_signature"] },
      extendedKeyUsages: { allowed: ["server_auth"], required: ["server_auth"] },
      algorithms: { keyAlgorithm: ["ECDSA-P256"], signature: ["SHA256-ECDSA"] },
      validity: { max: "30d" },
    };
    const profile = await aProfile(house.owner, pki.project.id, pki.root.id, { policy });
    const wrong = {
      commonName: "x.evil.org",
      organization: "Acme",
      altNames: [
        { type: "dns_name", value: "bad.example.com" },
        { type: "ip_address", value: "10.0.0.1" },
      ],
      keyUsages: ["key_encipherment"],
      extendedKeyUsages: ["code_signing"],
      keyAlgorithm: "RSA_2048",
      ttl: "31d",
    };
    const refused = await house.owner.post(CERTS, { profileId: profile.id, attributes: wrong });
    assert.equal(refused.status, 400);
    const rules = refused.body.details.map(
      ({ code, field }: { code: string; field: string }) => `${field} ${code}`,
    );
    for (const rule of [
      "common_name policy.not_allowed",
      "organization policy.not_listed",
      "altNames.dns_name policy.denied",
      "altNames.ip_address policy.not_listed",
      "keyUsages policy.not_allowed",
      "extendedKeyUsages policy.not_allowed",
      "keyAlgorithm policy.key_algorithm",
      "ttl policy.validity",
    ]) {
      assert.ok(rules.includes(rule), `${rule} in ${rules}`);
    }
    const before = (await query("SELECT count(*)::int AS n FROM certificate_requests"))[0].n;
    const dry = ok(await house.owner.post(CERTS, { profileId: profile.id, attributes: wrong, dryRun: true }));
    assert.deepEqual(
      [dry.certificate, dry.dryRun.wouldIssue, dry.dryRun.findings.length >= 8],
      [null, false, true],
    );
    const right = {
      commonName: "x.example.com",
      altNames: [{ type: "dns_name", value: "x.example.com" }],
      ttl: "30d",
    };
    assert.equal(
      ok(await house.owner.post(CERTS, { profileId: profile.id, attributes: right, dryRun: true })).dryRun
        .wouldIssue,
      true,
    );
    assert.equal(
      (await query("SELECT count(*)::int AS n FROM certificate_requests"))[0].n,
      before,
      "nothing was recorded",
    );
    const { certificateId } = await issue(house.owner, profile.id, right);
    const { keyUsages, extendedKeyUsages } = ok(
      await house.owner.get(`${CERTS}/${certificateId}`),
    ).certificate;
    assert.deepEqual(
      [keyUsages, extendedKeyUsages],
      [["digital_signature"], ["server_auth"]],
      "usages follow the policy where nobody asked",
    );
  });

  test("a CA is certified only where the policy says so explicitly", async () => {
    const attributes = { commonName: "sub", altNames: [], basicConstraints: { isCA: true, pathLength: 0 } };
    assert.equal((await post({ attributes })).status, 400);
    const profile = await aProfile(house.owner, pki.project.id, pki.root.id, {
      policy: { basicConstraints: { isCA: "allowed", maxPathLength: 0 } },
    });
    assert.ok(new X509Certificate((await issue(house.owner, profile.id, attributes)).certificate).ca);
  });

  test("422 and 400: durations, dates and both at once; a lifetime beyond the authority's is refused", async () => {
    for (const attributes of [
      { ttl: "soon" },
      { ttl: "0d" },
      { ttl: "1d", notAfter: "2030-01-01T00:00:00Z" },
      { notAfter: "tomorrow" },
    ]) {
      assert.equal(
        (await post({ attributes: { commonName: "x", ...attributes } })).status,
        422,
        JSON.stringify(attributes),
      );
    }
    const tooLong = await post({ attributes: { commonName: "x", ttl: "20y" } });
    assert.deepEqual([tooLong.status, tooLong.body.details[0].code], [400, "validity.after_issuer"]);
    assert.equal(
      (await post({ attributes: { altNames: [{ type: "dns_name", value: "not a name" }] } })).status,
      400,
    );
    const unnamed = await post({ attributes: {} });
    assert.equal(unnamed.status, 400, "neither subject nor alternative name");
  });

  test("the same Idempotency-Key leads to the same certificate and key, also from many callers at once", async () => {
    const attributes = { commonName: unique("once"), ttl: "1d" };
    const headers = { "idempotency-key": unique("key") };
    const answers = await Promise.all(Array.from({ length: 8 }, () => post({ attributes }, headers)));
    const seen = new Set(
      answers.map((answer) =>
        JSON.stringify([
          ok(answer).certificateRequestId,
          answer.body.certificate.certificate,
          answer.body.certificate.privateKey,
        ]),
      ),
    );
    assert.equal(seen.size, 1);
    assert.equal(
      (
        await query("SELECT count(*)::int AS n FROM certificates WHERE common_name = $1", [
          attributes.commonName,
        ])
      )[0].n,
      1,
    );
    const other = await post({ attributes: { ...attributes, ttl: "2d" } }, headers);
    assert.equal(other.status, 422);
    assert.notEqual(
      ok(await post({ attributes }, { "idempotency-key": unique("key") })).certificate.serialNumber,
      ok(await post({ attributes }, headers)).certificate.serialNumber,
    );
  });

  test("a request that was recorded but never signed is finished under the same key, with the recorded serial number", async () => {
    const headers = { "idempotency-key": unique("key") };
    const attributes = { commonName: unique("interrupted"), ttl: "1d" };
    const first = ok(await post({ attributes }, headers));
    // As a process leaves it that dies between recording and storing: put the recorded bytes back, take the certificate away.
    const { raw } = new X509Certificate(first.certificate.certificate);
    const [body] = await query(
      "SELECT b.data_key_id, b.sealed_key FROM certificate_bodies b WHERE certificate_id = $1",
      [first.certificate.certificateId],
    );
    const tbs = raw.subarray(4, 4 + 4 + raw.readUInt16BE(6));
    await query(
      "UPDATE certificate_requests SET status = 'pending', tbs = $2, context = '{}', data_key_id = $3, sealed_key = $4 WHERE id = $1",
      [first.certificateRequestId, tbs, body.data_key_id, body.sealed_key],
    );
    await query("DELETE FROM certificates WHERE id = $1", [first.certificate.certificateId]);
    await query("DELETE FROM certificate_bodies WHERE certificate_id = $1", [
      first.certificate.certificateId,
    ]);
    const second = ok(await post({ attributes }, headers));
    assert.deepEqual(
      [second.certificate.certificateId, second.certificate.serialNumber, second.certificate.privateKey],
      [first.certificate.certificateId, first.certificate.serialNumber, first.certificate.privateKey],
    );
    assert.ok(
      new X509Certificate(second.certificate.certificate).raw.includes(tbs),
      "the very bytes that were recorded",
    );
  });

  test("renewing links old and new, keeps names and lifetime, and happens once", async () => {
    const old = await issue(house.owner, pki.profile.id, {
      commonName: "renew.example.com",
      ttl: "10d",
      altNames: [{ type: "dns_name", value: "renew.example.com" }],
      extendedKeyUsages: ["client_auth"],
    });
    const renewed = ok(await house.owner.post(`${CERTS}/${old.certificateId}/renew`, {}));
    const [before, after_] = [new X509Certificate(old.certificate), new X509Certificate(renewed.certificate)];
    assert.deepEqual(
      [after_.subject, after_.subjectAltName, after_.keyUsage],
      [before.subject, before.subjectAltName, before.keyUsage],
    );
    assert.notEqual(renewed.privateKey, old.privateKey);
    assert.equal(Date.parse(after_.validTo) - Date.parse(after_.validFrom), 10 * DAY);
    const shown = async (id: string) => ok(await house.owner.get(`${CERTS}/${id}`)).certificate;
    assert.equal((await shown(old.certificateId)).renewedByCertificateId, renewed.certificateId);
    assert.equal((await shown(renewed.certificateId)).renewedFromCertificateId, old.certificateId);
    assert.equal(
      ok(await house.owner.get(`${CERTS}/certificate-requests/${renewed.certificateRequestId}`))
        .certificateId,
      renewed.certificateId,
    );
    assert.equal((await house.owner.post(`${CERTS}/${old.certificateId}/renew`, {})).status, 400);
    const reused = ok(
      await house.owner.post(`${CERTS}/${renewed.certificateId}/renew`, { renewalKeySource: "reuse" }),
    );
    assert.equal(reused.privateKey, renewed.privateKey);
    const { csr } = await aCsr(["renew.example.com"]);
    assert.equal(
      ok(await house.owner.post(`${CERTS}/${reused.certificateId}/renew`, { csr })).privateKey,
      undefined,
    );
  });

  test("the server renews by itself when it is time, and again with pauses when it fails", async () => {
    const one = await aPki(house, { apiConfig: { autoRenew: true, renewBeforeDays: 2 } });
    const { certificateId } = await issue(one.client, one.profile.id, { ttl: "10d" });
    const newest = async () => (await one.list()).body.certificates;
    await house.house.jobs.runDue();
    assert.equal((await newest()).length, 1);
    house.clock.advance(8 * DAY + 1000);
    await house.house.jobs.runDue();
    assert.equal((await newest()).length, 2);
    assert.equal(
      ok(await one.client.get(`${CERTS}/${certificateId}`)).certificate.renewedByCertificateId,
      (await newest())[0].id,
    );
    ok(await one.client.patch(`/api/v1/cert-manager/ca/internal/${one.root.id}`, { status: "disabled" }));
    house.clock.advance(8 * DAY + 1000);
    await house.house.jobs.runDue();
    const failing = ok(await one.client.get(`${CERTS}/${(await newest())[0].id}`)).certificate;
    assert.match(failing.renewalError, /does not issue/);
    assert.ok(failing.renewAt !== null && Date.parse(failing.renewAt) > house.clock.millis());
    ok(await one.client.patch(`/api/v1/cert-manager/ca/internal/${one.root.id}`, { status: "active" }));
    house.clock.advance(120_000);
    await house.house.jobs.runDue();
    assert.equal((await newest()).length, 3);
  });

  test("sign-certificate: with an authority, chain with the root last and no trailing newline", async () => {
    const intermediate = await anIntermediate(house.owner, pki.project.id, pki.root.id);
    const { csr } = await aCsr(["issuer.example.com"]);
    const answer = ok(
      await house.owner.post("/api/v1/pki/certificates/sign-certificate", {
        csr,
        caId: intermediate.id,
        ttl: "90d",
      }),
    );
    const blocks = answer.certificateChain.split("-----END CERTIFICATE-----").length - 1;
    assert.equal(blocks, 2);
    const last = new X509Certificate(
      answer.certificateChain.slice(answer.certificateChain.lastIndexOf("-----BEGIN")),
    );
    assert.equal(last.subject, last.issuer);
    assert.ok(answer.certificateChain.endsWith("-----END CERTIFICATE-----"));
    const stripped = ok(
      await house.owner.post(CERTS, {
        profileId: (await aProfile(house.owner, pki.project.id, intermediate.id)).id,
        attributes: { commonName: "x" },
        removeRootsFromChain: true,
      }),
    );
    assert.equal(stripped.certificate.certificateChain.split("BEGIN CERTIFICATE").length - 1, 1);
  });

  test("a self-signed profile needs no authority", async () => {
    const profile = await aProfile(house.owner, pki.project.id, null, { issuerType: "self-signed" });
    const parsed = new X509Certificate((await issue(house.owner, profile.id)).certificate);
    assert.ok(parsed.verify(parsed.publicKey));
  });

  test("serial numbers of many: unique, positive, at most 20 octets", async () => {
    await Promise.all(Array.from({ length: 200 }, () => issue(house.owner, pki.profile.id)));
    const rows = await query("SELECT serial_number AS serial FROM certificates");
    assert.equal(new Set(rows.map(({ serial }) => serial)).size, rows.length);
    for (const { serial } of rows) assert.match(serial, /^[0-7][0-9a-f]{15,39}$/);
  });

  test("who may issue under one profile may not under another, and sees no private key without that right", async () => {
    const role = await aRole(house.owner, pki.project.id, [
      {
        subject: "certificate-profiles",
        action: ["read", "issue-cert"],
        conditions: { slug: pki.profile.slug },
      },
      { subject: "certificates", action: "read" },
    ]);
    const { client } = await anIdentity(house.owner, house.base, pki.project.id, { roles: [{ role }] });
    const answer = ok(
      await client.post(CERTS, { profileId: pki.profile.id, attributes: { commonName: "mine" } }),
    );
    assert.equal(
      ok(await client.get(`${CERTS}/${answer.certificate.certificateId}/bundle`)).privateKey,
      null,
    );
    assert.equal((await client.get(`${CERTS}/${answer.certificate.certificateId}/private-key`)).status, 403);
    assert.equal(
      ok(await client.get(`${CERTS}/certificate-requests/${answer.certificateRequestId}`)).privateKey,
      null,
    );
    const other = await aProfile(house.owner, pki.project.id, pki.root.id);
    assert.equal(
      (await client.post(CERTS, { profileId: other.id, attributes: { commonName: "theirs" } })).status,
      403,
    );
    assert.equal((await client.post(`${CERTS}/${answer.certificate.certificateId}/revoke`, {})).status, 403);
  });

  const keystore = async (certificateId: string, body: Record<string, unknown>): Promise<Buffer> => {
    const headers = { authorization: `Bearer ${house.owner.token}`, "content-type": "application/json" };
    const response = await fetch(`${house.base}${CERTS}/${certificateId}/keystore`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 200);
    return Buffer.from(await response.arrayBuffer());
  };

  test(
    "a PKCS#12 file of every kind of key opens with openssl, and each key that left is in the audit log",
    needs("openssl"),
    async () => {
      for (const keyAlgorithm of ["RSA_2048", "EC_prime256v1", "EC_secp384r1", "Ed25519"]) {
        const { certificateId } = await issue(house.owner, pki.profile.id, { keyAlgorithm });
        const file = await keystore(certificateId, { password: "changeit" });
        const open = (password: string) =>
          withFiles({ "a.p12": file }, (directory) =>
            ask(
              "openssl",
              ["pkcs12", "-in", "a.p12", "-passin", `pass:${password}`, "-nodes", "-info"],
              directory,
            ),
          );
        const verdict = open("changeit");
        assert.ok(
          verdict.isAccepted && verdict.output.match(/BEGIN CERTIFICATE/g)?.length === 2,
          `${keyAlgorithm}: ${verdict.output}`,
        );
        assert.equal(open("wrong!").isAccepted, false);
      }
      const audit = await query(
        "SELECT count(*)::int AS n FROM audit_log WHERE event = 'read-certificate-private-key'",
      );
      assert.ok(audit[0].n >= 4);
    },
  );

  test("a JKS file opens with keytool", needs("keytool"), async () => {
    for (const keyAlgorithm of ["RSA_2048", "EC_prime256v1"]) {
      const { certificateId } = await issue(house.owner, pki.profile.id, { keyAlgorithm });
      const file = await keystore(certificateId, { format: "jks", password: "changeit", alias: "mine" });
      const verdict = withFiles({ "a.jks": file }, (directory) =>
        ask(
          "keytool",
          ["-list", "-v", "-keystore", "a.jks", "-storetype", "JKS", "-storepass", "changeit"],
          directory,
        ),
      );
      assert.ok(verdict.isAccepted && /Certificate chain length: 2/.test(verdict.output), verdict.output);
    }
  });

  test("a policy's longest lifetime counts from now on: nobody puts certificates by for later years", async () => {
    const profile = await aProfile(house.owner, pki.project.id, pki.root.id, {
      policy: { validity: { max: "30d" } },
    });
    const at = (days: number) => new Date(house.clock.millis() + days * DAY).toISOString();
    const ask = (notBefore: string, notAfter: string) =>
      house.owner.post(CERTS, {
        profileId: profile.id,
        attributes: { commonName: "later", notBefore, notAfter },
      });
    const refused = await ask(at(365), at(390));
    assert.deepEqual([refused.status, refused.body.details[0].code], [400, "policy.validity_ahead"]);
    ok(await ask(at(10), at(29)));
    ok(await ask(at(0.5), at(30.5)), "clocks differ, and so do days");
    const over = await post({
      attributes: { commonName: "x", notBefore: at(-0.0001), notAfter: at(-0.00005) },
    });
    assert.equal(over.status, 400, "over before it begins");
  });

  test("a repeat that shows the key once more leaves an audit row", async () => {
    const headers = { "idempotency-key": unique("key") };
    const attributes = { commonName: unique("again") };
    const { certificate } = ok(await post({ attributes }, headers));
    const reads = async () =>
      (
        await query(
          "SELECT count(*)::int AS n FROM audit_log WHERE event = 'read-certificate-private-key' AND metadata ->> 'certificateId' = $1",
          [certificate.certificateId],
        )
      )[0].n;
    assert.equal(await reads(), 0);
    assert.equal(ok(await post({ attributes }, headers)).certificate.privateKey, certificate.privateKey);
    assert.equal(await reads(), 1);
  });

  test("sign-certificate with a profile keeps the friendly name", async () => {
    const name = unique("friendly");
    const { csr } = await aCsr([`${name}.example.com`]);
    const { serialNumber } = ok(
      await house.owner.post("/api/v1/pki/certificates/sign-certificate", {
        csr,
        certificateTemplateId: pki.profile.id,
        friendlyName: name,
      }),
    );
    const [row] = await query("SELECT id FROM certificates WHERE serial_number = $1", [serialNumber]);
    assert.equal(ok(await house.owner.get(`${CERTS}/${row.id}`)).certificate.friendlyName, name);
  });
});
