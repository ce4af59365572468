/** Who signs OCSP responses, and for how long they are valid. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { anIntermediate, aProfile, aRoot, certProject, issue, ok } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import {
  authorityKeyIdentifier,
  basicConstraints,
  certificatesFromPem,
  certificateToPem,
  extendedKeyUsage,
  keyIdentifier,
  keyUsage,
  parseCsrPem,
  subjectKeyIdentifier,
} from "@keyward/x509";
import { ask, needs, withFiles, makeAuthority } from "@keyward/x509/testing";

const CA = "/api/v1/cert-manager/ca/internal";
const DAY = 86_400_000;
type Issued = { certificate: string; issuingCaCertificate: string; certificateId: string };

function assertGood(said: string): void {
  assert.match(said, /Response verify OK/);
  assert.match(said, /leaf\.pem: good/);
}

describe("who answers by OCSP", () => {
  let house: TestHouse;
  let projectId: string;
  before(async () => {
    house = await openTestHouse({ env: { KEYWARD_REVOCATION_URL: "http://pki.example.com" } });
    projectId = (await certProject(house.owner)).id;
  });
  after(() => house.close());

  const later = (days: number) => new Date(house.clock.millis() + days * DAY).toISOString();
  /** What openssl makes of the answer, asked as clients ask. */
  const askAbout = async (leaf: Issued, attimeShift = 0): Promise<string> => {
    const [certificate] = certificatesFromPem(leaf.certificate);
    const url = certificate?.extensions.authorityInfoAccess?.ocspUrls[0] ?? "";
    const files = { "leaf.pem": leaf.certificate, "ca.pem": leaf.issuingCaCertificate };
    const made = withFiles(files, (directory) => {
      ask(
        "openssl",
        ["ocsp", "-issuer", "ca.pem", "-cert", "leaf.pem", "-no_nonce", "-reqout", "r.der"],
        directory,
      );
      return ask("openssl", ["base64", "-A", "-in", "r.der"], directory).output.trim();
    });
    const response = await fetch(
      `${url.replace("http://pki.example.com", house.base)}/${encodeURIComponent(made)}`,
    );
    const body = Buffer.from(await response.arrayBuffer());
    if (response.status !== 200) return `${response.status} ${body.toString()}`;
    const at = String(Math.floor(house.clock.millis() / 1000) + attimeShift);
    return withFiles({ ...files, "response.der": body }, (directory) =>
      [
        ask(
          "openssl",
          [
            ...[
              "ocsp",
              "-respin",
              "response.der",
              "-issuer",
              "ca.pem",
              "-cert",
              "leaf.pem",
              "-CAfile",
              "ca.pem",
            ],
            ...["-partial_chain", "-no_nonce", "-attime", at, "-validity_period", "31536000", "-resp_text"],
          ],
          directory,
        ).output,
      ].join(""),
    );
  };
  /** How many certificate requests a CA has had, those for OCSP responders included. */
  const requestsOf = async (authorityId: string): Promise<number> => {
    const { database, ...server } = house.database.connection;
    return withClient(server, database, async (client) => {
      const { rows } = await client.query<{ count: number }>(
        "SELECT count(*)::int AS count FROM certificate_requests WHERE authority_id = $1",
        [authorityId],
      );
      return rows[0]?.count ?? 0;
    });
  };

  test(
    "a signer that ends with its authority is used to the end, not replaced every minute",
    needs("openssl"),
    async () => {
      const root = await aRoot(house.owner, projectId);
      const brief = await anIntermediate(house.owner, projectId, root.id, { notAfter: later(10) });
      const profile = await aProfile(house.owner, projectId, brief.id);
      const leaves: Issued[] = [];
      for (let index = 0; index < 4; index += 1)
        leaves.push(await issue(house.owner, profile.id, { ttl: "5d" }));
      const counts: number[] = [];
      for (const leaf of leaves.slice(0, 3)) {
        assertGood(await askAbout(leaf));
        counts.push(await requestsOf(brief.id));
        house.clock.advance(120_000);
      }
      assert.deepEqual(counts, [5, 5, 5]);
      ok(await house.owner.post(`${CA}/${brief.id}/renew`, { notAfter: later(60) }));
      const [last] = leaves.slice(3);
      assert.ok(last);
      assertGood(await askAbout(last));
      assert.equal(await requestsOf(brief.id), 6, "one that lasts longer, once there can be one");
      house.clock.advance(-360_000);
    },
  );

  test(
    "an authority whose next certificate is not valid yet still tells of its certificates",
    needs("openssl"),
    async () => {
      const root = await aRoot(house.owner, projectId);
      const middle = await anIntermediate(house.owner, projectId, root.id);
      const leaf = await issue(house.owner, (await aProfile(house.owner, projectId, middle.id)).id);
      ok(
        await house.owner.post(`${CA}/${middle.id}/certificate`, {
          notBefore: later(5),
          notAfter: later(300),
        }),
      );
      assertGood(await askAbout(leaf));
    },
  );

  test(
    "a CA that is limited to other extended key usages delegates to nobody",
    needs("openssl"),
    async () => {
      const elsewhere = await makeAuthority({ name: "Elsewhere" });
      const limited = await anIntermediate(house.owner, projectId, null);
      const { csr } = ok(await house.owner.get(`${CA}/${limited.id}/csr`));
      const { publicKey, subject } = parseCsrPem(csr);
      const extensions = [
        basicConstraints({ isCa: true }),
        keyUsage(["key_cert_sign", "crl_sign", "digital_signature"]),
        extendedKeyUsage(["server_auth", "client_auth"]),
        subjectKeyIdentifier(keyIdentifier(publicKey)),
        authorityKeyIdentifier(elsewhere.keyId),
      ];
      const { certificate } = await makeAuthority({
        name: "Limited",
        parent: elsewhere,
        fields: { publicKey, subject: subject.der, extensions },
      });
      ok(
        await house.owner.post(`${CA}/${limited.id}/import-certificate`, {
          certificate: certificateToPem(certificate.der),
          certificateChain: certificateToPem(elsewhere.certificate.der),
        }),
      );
      const leaf = await issue(house.owner, (await aProfile(house.owner, projectId, limited.id)).id);
      const said = await askAbout(leaf);
      assertGood(said);
      assert.doesNotMatch(said, /OCSP Signing/);
    },
  );

  test("an answer is valid for a client whose clock is a few seconds behind", needs("openssl"), async () => {
    const root = await aRoot(house.owner, projectId);
    const leaf = await issue(house.owner, (await aProfile(house.owner, projectId, root.id)).id);
    const said = await askAbout(leaf, -20);
    assertGood(said);
    const times = [...said.matchAll(/This Update: (.+)/g)].map((match) => Date.parse(match[1] ?? ""));
    assert.ok((times[0] ?? Number.NaN) <= house.clock.millis() - 20_000, said);
  });
});
