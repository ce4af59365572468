import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { anIntermediate, aPki, aProfile, aRoot, issue, ok, type Pki } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { issuanceChanged } from "../certificates/events.ts";
import {
  buildCsr,
  csrToPem,
  encodeName,
  encodeCertId,
  encodeOcspRequest,
  issuerHashes,
  nameFrom,
  parseCertificate,
  parseCrl,
  REVOCATION_REASONS,
  decodePemOf,
} from "@keyward/x509";
import { ask, needs, withFiles } from "@keyward/x509/testing";

const CERTS = "/api/v1/cert-manager/certificates";
const YEAR = 365 * 86_400_000;
type Issued = {
  certificate: string;
  issuingCaCertificate: string;
  certificateId: string;
  serialNumber: string;
};

const derOf = (pem: string): Buffer => decodePemOf("CERTIFICATE", pem)[0] ?? Buffer.alloc(0);
const urlsOf = (pem: string) => {
  const { crlDistributionPoints = [], authorityInfoAccess } = parseCertificate(derOf(pem)).extensions;
  return {
    crl: crlDistributionPoints[0] ?? "",
    ocsp: authorityInfoAccess?.ocspUrls[0] ?? "",
    issuer: authorityInfoAccess?.caIssuersUrls[0] ?? "",
  };
};

describe("revocation", () => {
  let house: TestHouse;
  let pki: Pki;
  before(async () => {
    house = await openTestHouse({ env: { KEYWARD_REVOCATION_URL: "http://pki.example.com" } });
    pki = await aPki(house);
  });
  after(() => house.close());

  const here = (url: string): string => url.replace("http://pki.example.com", house.base);
  const fetchBytes = async (url: string, init?: RequestInit) => {
    const response = await fetch(here(url), init);
    return {
      status: response.status,
      headers: response.headers,
      body: Buffer.from(await response.arrayBuffer()),
    };
  };
  const crlOf = async (leaf: Issued) => parseCrl((await fetchBytes(urlsOf(leaf.certificate).crl)).body);
  const revoke = (leaf: Issued, revocationReason?: string) =>
    house.owner.post(`${CERTS}/${leaf.certificateId}/revoke`, { revocationReason });
  const settle = async () => {
    house.clock.advance(4_000);
    await house.house.jobs.runDue();
  };
  const ocsp = async (leaf: Issued): Promise<string> => {
    const headers = { "content-type": "application/ocsp-request" };
    const body = new Uint8Array(encodeRequest(leaf));
    return judgeOcsp(
      leaf,
      (await fetchBytes(urlsOf(leaf.certificate).ocsp, { method: "POST", headers, body })).body,
    );
  };
  const encodeRequest = (leaf: Issued, hash: "sha1" | "sha256" = "sha1", nonce?: Buffer): Buffer => {
    const ca = parseCertificate(derOf(leaf.issuingCaCertificate));
    return encodeOcspRequest(
      [encodeCertId(hash, issuerHashes(ca.subject.der, ca.publicKey, hash), leaf.serialNumber)],
      nonce,
    );
  };
  const judgeOcsp = (leaf: Issued, response: Buffer): string =>
    withFiles(
      { "leaf.pem": leaf.certificate, "ca.pem": leaf.issuingCaCertificate, "response.der": response },
      (directory) => {
        const at = Math.floor(house.clock.millis() / 1000);
        return ask(
          "openssl",
          [
            "ocsp",
            "-respin",
            "response.der",
            "-issuer",
            "ca.pem",
            "-cert",
            "leaf.pem",
            "-CAfile",
            "ca.pem",
            "-no_nonce",
            "-attime",
            String(at),
            "-validity_period",
            "31536000",
          ],
          directory,
        ).output;
      },
    );

  test("every reason of RFC 5280 is stored, listed and shown; a second revocation is refused", async () => {
    for (const reason of Object.keys(REVOCATION_REASONS).filter((word) => word !== "REMOVE_FROM_CRL")) {
      const leaf = await issue(house.owner, pki.profile.id);
      const answer = ok(await revoke(leaf, reason));
      assert.equal(answer.serialNumber, leaf.serialNumber);
      const shown = ok(await house.owner.get(`${CERTS}/${leaf.certificateId}`)).certificate;
      assert.deepEqual(
        [shown.status, shown.revokedAt, shown.revocationReason],
        ["revoked", answer.revokedAt, REVOCATION_REASONS[reason as keyof typeof REVOCATION_REASONS]],
      );
      if (reason !== "CERTIFICATE_HOLD") assert.equal((await revoke(leaf, "SUPERSEDED")).status, 400);
      await settle();
      const entry = (await crlOf(leaf)).entries.find(
        ({ serialNumber }) => serialNumber === leaf.serialNumber,
      );
      assert.equal(entry?.reason, reason);
    }
    assert.equal(
      (
        await house.owner.post(
          `${CERTS}/${(await issue(house.owner, pki.profile.id)).certificateId}/revoke`,
          { revocationReason: "BORED" },
        )
      ).status,
      422,
    );
  });

  test("hold and release: off the CRL again, and active; other reasons are final", async () => {
    const leaf = await issue(house.owner, pki.profile.id);
    assert.equal((await house.owner.post(`${CERTS}/${leaf.certificateId}/unhold`)).status, 400);
    ok(await revoke(leaf, "CERTIFICATE_HOLD"));
    await settle();
    assert.ok((await crlOf(leaf)).entries.some(({ serialNumber }) => serialNumber === leaf.serialNumber));
    ok(await house.owner.post(`${CERTS}/${leaf.certificateId}/unhold`));
    await settle();
    assert.ok(!(await crlOf(leaf)).entries.some(({ serialNumber }) => serialNumber === leaf.serialNumber));
    assert.equal(ok(await house.owner.get(`${CERTS}/${leaf.certificateId}`)).certificate.status, "active");
    ok(await revoke(leaf, "CERTIFICATE_HOLD"));
    ok(await revoke(leaf, "KEY_COMPROMISE"));
    assert.equal((await house.owner.post(`${CERTS}/${leaf.certificateId}/unhold`)).status, 400);
  });

  test(
    "a list carries number, AKI and IDP, its number rises, and openssl takes it with a strict check",
    needs("openssl"),
    async () => {
      const one = await aPki(house);
      const [good, bad] = [
        await issue(house.owner, one.profile.id, { ttl: "300d" }),
        await issue(house.owner, one.profile.id, { ttl: "300d" }),
      ];
      const { crl: url } = urlsOf(good.certificate);
      const first = await fetchBytes(url);
      assert.deepEqual([first.status, first.headers.get("content-type")], [200, "application/pkix-crl"]);
      ok(await revoke(bad, "SUPERSEDED"));
      await settle();
      const second = await fetchBytes(url);
      assert.ok((parseCrl(second.body).number ?? 0n) > (parseCrl(first.body).number ?? 0n));
      const at = String(Math.floor(house.clock.millis() / 1000));
      const verdicts = [good, bad].map((leaf) =>
        withFiles(
          { "leaf.pem": leaf.certificate, "ca.pem": leaf.issuingCaCertificate, "list.der": second.body },
          (directory) => {
            const text = ask(
              "openssl",
              ["crl", "-inform", "DER", "-in", "list.der", "-CAfile", "ca.pem", "-text", "-out", "list.pem"],
              directory,
            ).output;
            assert.match(text, /verify OK/);
            const shown = ask("openssl", ["crl", "-in", "list.pem", "-noout", "-text"], directory).output;
            for (const part of [
              "X509v3 CRL Number",
              "X509v3 Authority Key Identifier",
              "X509v3 Issuing Distribution Point: critical",
              url,
            ])
              assert.ok(shown.includes(part), part);
            return ask(
              "openssl",
              [
                "verify",
                "-x509_strict",
                "-crl_check",
                "-extended_crl",
                "-attime",
                at,
                "-CAfile",
                "ca.pem",
                "-CRLfile",
                "list.pem",
                "leaf.pem",
              ],
              directory,
            );
          },
        ),
      );
      assert.deepEqual(
        verdicts.map(({ isAccepted }) => isAccepted),
        [true, false],
      );
      assert.match(verdicts[1]?.output ?? "", /certificate revoked/);
    },
  );

  test("the next update lies in the future at every instant, also for a server that was down for a year", async () => {
    const root = await aRoot(house.owner, pki.project.id);
    const leaf = await issue(house.owner, (await aProfile(house.owner, pki.project.id, root.id)).id, {
      ttl: "5y",
    });
    let last = 0n;
    for (const step of [0, 86_400_000, 3 * 86_400_000, 4 * 86_400_000, 7 * 86_400_000, YEAR]) {
      house.clock.advance(step);
      const { number = 0n, thisUpdate, nextUpdate } = await crlOf(leaf);
      assert.ok(
        thisUpdate.getTime() <= house.clock.millis() && (nextUpdate?.getTime() ?? 0) > house.clock.millis(),
      );
      assert.ok(number >= last);
      last = number;
    }
    house.clock.advance(-YEAR);
  });

  test("with several CRL shards each certificate is on the one it names, and on no other", async () => {
    const root = await aRoot(house.owner, pki.project.id, { crlShards: 4 });
    const profile = await aProfile(house.owner, pki.project.id, root.id);
    const leaves: Issued[] = [];
    for (let index = 0; index < 12; index += 1) leaves.push(await issue(house.owner, profile.id));
    for (const leaf of leaves) ok(await revoke(leaf));
    await settle();
    const lists = ok(await house.owner.get(`/api/v1/cert-manager/ca/internal/${root.id}/crls`));
    assert.equal(lists.length, 4);
    assert.ok(new Set(leaves.map((leaf) => urlsOf(leaf.certificate).crl)).size > 1, "they are spread");
    let total = 0;
    for (const { crl } of lists)
      total += parseCrl(decodePemOf("X509 CRL", crl)[0] ?? Buffer.alloc(0)).entries.length;
    assert.equal(total, 12);
    for (const leaf of leaves)
      assert.ok((await crlOf(leaf)).entries.some(({ serialNumber }) => serialNumber === leaf.serialNumber));
    assert.equal(
      (await fetchBytes(urlsOf((leaves[0] as Issued).certificate).crl.replace(/\d+$/, "4"))).status,
      404,
    );
  });

  test(
    "OCSP: good, then revoked at once with its reason, by a delegated signer that openssl trusts",
    needs("openssl"),
    async () => {
      const leaf = await issue(house.owner, pki.profile.id);
      const good = await ocsp(leaf);
      assert.match(good, /Response verify OK/);
      assert.match(good, /leaf.pem: good/);
      ok(await revoke(leaf, "CESSATION_OF_OPERATION"));
      const revoked = await ocsp(leaf);
      assert.match(revoked, /leaf.pem: revoked[\s\S]*Reason: cessationOfOperation/);
      assert.match(revoked, /Response verify OK/);
      ok(await revoke(await issue(house.owner, pki.profile.id), "CERTIFICATE_HOLD"));
    },
  );

  test(
    "OCSP by GET with cache headers, by SHA-256, with a nonce, for unknown serial numbers and for nonsense",
    needs("openssl"),
    async () => {
      const leaf = await issue(house.owner, pki.profile.id);
      const { ocsp: url } = urlsOf(leaf.certificate);
      for (const path of [
        encodeRequest(leaf).toString("base64"),
        encodeURIComponent(encodeRequest(leaf).toString("base64")),
      ]) {
        const { status, headers, body } = await fetchBytes(`${url}/${path}`);
        assert.deepEqual([status, headers.get("content-type")], [200, "application/ocsp-response"]);
        assert.match(headers.get("cache-control") ?? "", /max-age=\d+.*public/);
        for (const name of ["etag", "expires", "last-modified"]) assert.ok(headers.get(name), name);
        assert.match(judgeOcsp(leaf, body), /leaf.pem: good/);
      }
      const post = (bytes: Buffer) =>
        fetchBytes(url, {
          method: "POST",
          headers: { "content-type": "application/ocsp-request" },
          body: new Uint8Array(bytes),
        });
      const nonce = Buffer.from("00112233445566778899aabbccddeeff", "hex");
      const withNonce = await post(encodeRequest(leaf, "sha256", nonce));
      assert.ok(withNonce.body.includes(nonce));
      assert.equal(withNonce.headers.get("cache-control"), "no-store");
      const stranger = { ...leaf, serialNumber: "40ffffffffffffffffffffffffffffff" };
      const unknown = withFiles(
        { "r.der": (await post(encodeRequest(stranger))).body, "ca.pem": leaf.issuingCaCertificate },
        (directory) =>
          ask(
            "openssl",
            [
              "ocsp",
              "-respin",
              "r.der",
              "-CAfile",
              "ca.pem",
              "-issuer",
              "ca.pem",
              "-serial",
              `0x${stranger.serialNumber}`,
              "-no_nonce",
              "-text",
            ],
            directory,
          ).output,
      );
      assert.match(unknown, /Cert Status: unknown/);
      const error = (bytes: Buffer) =>
        withFiles(
          { "r.der": bytes },
          (directory) => ask("openssl", ["ocsp", "-respin", "r.der", "-noverify"], directory).output,
        );
      assert.match(error((await post(Buffer.from("nonsense"))).body), /malformedrequest/i);
      assert.match(
        error(
          (
            await fetchBytes(url.replace(/[^/]+$/, pki.project.id), {
              method: "POST",
              headers: { "content-type": "application/ocsp-request" },
              body: new Uint8Array(encodeRequest(leaf)),
            })
          ).body,
        ),
        /unauthorized/i,
      );
      assert.match(error((await fetchBytes(`${url}/%20%20`)).body), /malformedrequest/i);
    },
  );

  test("a second node answers with a revocation within the second", async () => {
    const other = await house.openNode();
    const leaf = await issue(house.owner, pki.profile.id);
    const ask_ = async () => {
      const response = await fetch(
        urlsOf(leaf.certificate).ocsp.replace("http://pki.example.com", other.base),
        {
          method: "POST",
          headers: { "content-type": "application/ocsp-request" },
          body: new Uint8Array(encodeRequest(leaf)),
        },
      );
      return Buffer.from(await response.arrayBuffer());
    };
    // [0] good, [1] revoked: the tag right behind the CertID.
    const isGood = (body: Buffer) =>
      body.includes(Buffer.concat([Buffer.from(leaf.serialNumber, "hex"), Buffer.from([0x80, 0x00])]));
    assert.ok(isGood(await ask_()));
    assert.ok(isGood(await ask_()), "from memory");
    ok(await revoke(leaf));
    const deadline = Date.now() + 120_000;
    while (isGood(await ask_()) && Date.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 20));
    assert.ok(!isGood(await ask_()));
  });

  test("a compromised key takes all its certificates with it and is never certified again", async () => {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
    const csr = csrToPem(
      await buildCsr(
        { subject: encodeName(nameFrom({ commonName: "k" })), extensions: [] },
        { key: privateKey, algorithm: "ECDSA-SHA256" },
      ),
    );
    const request = () => house.owner.post(CERTS, { profileId: pki.profile.id, csr });
    const [one, two] = [ok(await request()).certificate, ok(await request()).certificate];
    ok(await revoke(one, "KEY_COMPROMISE"));
    assert.equal(ok(await house.owner.get(`${CERTS}/${two.certificateId}`)).certificate.status, "revoked");
    const again = await request();
    assert.deepEqual([again.status, again.body.details[0].code], [400, "key.known_weak"]);
  });

  test("a compromised key takes those on hold with it as well, and however many there are", async () => {
    const one = await aPki(house);
    const [named, held] = [
      await issue(house.owner, one.profile.id),
      await issue(house.owner, one.profile.id),
    ];
    ok(await revoke(held, "CERTIFICATE_HOLD"));
    const { database, ...server } = house.database.connection;
    const left = await withClient(server, database, async (client) => {
      // Copies, straight into the inventory: a thousand and more by way of the door would take a minute.
      await client.query(
        `UPDATE certificates SET key_fingerprint = (SELECT key_fingerprint FROM certificates WHERE id = $1) WHERE id = $2`,
        [named.certificateId, held.certificateId],
      );
      await client.query(
        `WITH made AS (
           INSERT INTO certificates (id, project_id, profile_id, authority_id, authority_key_id, authority_certificate_id, not_before, not_after, created_at, updated_at, crl_shard, source, serial_number, common_name, search_text, alt_names, key_fingerprint)
           SELECT gen_random_uuid(), project_id, profile_id, authority_id, authority_key_id, authority_certificate_id, not_before, not_after, created_at, updated_at, crl_shard, source, '40' || lpad(to_hex(n), 30, '0'), common_name, search_text, alt_names, key_fingerprint
           FROM certificates, generate_series(1, 1100) n WHERE id = $1 RETURNING id)
         INSERT INTO certificate_bodies (certificate_id, der, details) SELECT made.id, b.der, b.details FROM made, certificate_bodies b WHERE b.certificate_id = $1`,
        [named.certificateId],
      );
      ok(await revoke(named, "KEY_COMPROMISE"));
      // As if the server had stopped on the way: asked again, it goes on.
      await client.query(
        `UPDATE certificates SET phase = 0, revoked_at = NULL, revocation_reason = NULL, crl_entry = NULL
         WHERE id = (SELECT id FROM certificates WHERE profile_id = $1 AND id <> ALL ($2::uuid[]) LIMIT 1)`,
        [one.profile.id, [named.certificateId, held.certificateId]],
      );
      assert.equal((await revoke(named, "KEY_COMPROMISE")).status, 400);
      const { rows } = await client.query<{ id: string }>(
        `SELECT id FROM certificates WHERE profile_id = $1 AND revocation_reason IS DISTINCT FROM 1`,
        [one.profile.id],
      );
      return rows.map(({ id }) => id);
    });
    assert.deepEqual([left.length, left.includes(held.certificateId)], [0, false]);
    assert.equal((await house.owner.post(`${CERTS}/${held.certificateId}/unhold`)).status, 400);
    await settle();
    assert.equal((await crlOf(named)).entries.length, 1102);
  });

  test("nothing is renewed by the server while it is on hold; once released it is, unless that was switched off", async () => {
    const one = await aPki(house, { apiConfig: { autoRenew: true, renewBeforeDays: 2 } });
    const [held, quiet, final] = [
      await issue(house.owner, one.profile.id, { ttl: "10d" }),
      await issue(house.owner, one.profile.id, { ttl: "10d" }),
      await issue(house.owner, one.profile.id, { ttl: "10d" }),
    ];
    const shown = async (leaf: Issued) =>
      ok(await house.owner.get(`${CERTS}/${leaf.certificateId}`)).certificate;
    const count = async () => (await one.list()).body.certificates.length;
    for (const leaf of [held, quiet, final]) ok(await revoke(leaf, "CERTIFICATE_HOLD"));
    ok(await revoke(final, "SUPERSEDED"));
    ok(await house.owner.patch(`${CERTS}/${quiet.certificateId}/config`, { enableAutoRenewal: false }));
    house.clock.advance(8 * 86_400_000 + 60_000);
    await house.house.jobs.runDue();
    assert.equal(await count(), 3, "on hold");
    assert.equal((await shown(final)).renewAt, null);
    for (const leaf of [held, quiet]) ok(await house.owner.post(`${CERTS}/${leaf.certificateId}/unhold`));
    house.clock.advance(60_000);
    await house.house.jobs.runDue();
    assert.equal(await count(), 4);
    assert.ok((await shown(held)).renewedByCertificateId);
    assert.equal((await shown(quiet)).renewedByCertificateId, null);
    house.clock.advance(-8 * 86_400_000 - 120_000);
  });

  test("a change of a CA's own certificate reaches everything that issues with it, on every node", async () => {
    const other = await house.openNode();
    const below = await anIntermediate(house.owner, pki.project.id, pki.root.id);
    const { certificates } = ok(
      await house.owner.get(`/api/v1/projects/${pki.project.id}/certificates/search?limit=5`),
    );
    const own = certificates.find(
      ({ serialNumber }: Issued) => serialNumber === below.configuration.serialNumber,
    );
    const path = `${CERTS}/${own.id}`;
    for (const [change, body] of [
      ["revoke", { revocationReason: "CERTIFICATE_HOLD" }],
      ["unhold", undefined],
      ["revoke", { revocationReason: "CA_COMPROMISE" }],
    ] as const) {
      const heard = [house.house, other.house].map(
        ({ tail }) =>
          new Promise<void>((resolve) =>
            tail.onInvalidate((fact) => {
              if (issuanceChanged.is(fact) && fact.data.projectId === pki.project.id) resolve();
            }),
          ),
      );
      ok(await house.owner.post(`${path}/${change}`, body));
      const patience = new Promise((_, reject) =>
        setTimeout(() => reject(new Error(`${change} was not told`)), 120_000).unref(),
      );
      await Promise.race([Promise.all(heard), patience]);
    }
  });

  test("the issuer's certificate is where the leaf says, without a token; a deleted authority still tells of its certificates", async () => {
    const root = await aRoot(house.owner, pki.project.id);
    const leaf = await issue(house.owner, (await aProfile(house.owner, pki.project.id, root.id)).id);
    const { issuer } = urlsOf(leaf.certificate);
    const answer = await fetchBytes(issuer);
    assert.equal(answer.headers.get("content-type"), "application/pkix-cert");
    assert.ok(answer.body.equals(derOf(leaf.issuingCaCertificate)));
    ok(await house.owner.delete(`/api/v1/cert-manager/ca/internal/${root.id}`));
    ok(await revoke(leaf));
    await settle();
    assert.equal((await crlOf(leaf)).entries.length, 1);
    assert.match(await ocsp(leaf), /leaf.pem: revoked/);
  });
});
