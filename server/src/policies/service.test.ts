import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { anIdentity, unique } from "../../test/builders.ts";
import { aPki, aProfile, certProject, issue, ok, type Pki } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import {
  buildCsr,
  certificatesFromPem,
  csrToPem,
  defaultSignatureAlgorithm,
  encodeName,
  extendedKeyUsage,
  nameFrom,
} from "@keyward/x509";

const CERTS = "/api/v1/cert-manager/certificates";
const POLICIES = "/api/v1/cert-manager/certificate-policies";

describe("policies at work", () => {
  let house: TestHouse;
  let pki: Pki;
  before(async () => {
    house = await openTestHouse();
    pki = await aPki(house);
  });
  after(() => house.close());

  test("nobody becomes an OCSP responder of an authority unless the policy lists it", async () => {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
    const template = {
      subject: encodeName(nameFrom({ commonName: "responder" })),
      extensions: [extendedKeyUsage(["ocsp_signing"])],
    };
    const signer = { key: privateKey, algorithm: defaultSignatureAlgorithm(privateKey) };
    const csr = csrToPem(await buildCsr(template, signer));
    const attempts = [
      await house.owner.post(CERTS, { profileId: pki.profile.id, csr }),
      await house.owner.post(CERTS, {
        profileId: pki.profile.id,
        attributes: { commonName: "responder", extendedKeyUsages: ["1.3.6.1.5.5.7.3.9"] },
      }),
      await house.owner.post("/api/v1/pki/certificates/sign-certificate", {
        caId: pki.root.id,
        csr,
        ttl: "1d",
      }),
    ];
    for (const { status, body } of attempts)
      assert.deepEqual([status, body.details?.[0]?.code], [400, "policy.ocsp_denied"]);
    const profile = await aProfile(house.owner, pki.project.id, pki.root.id, {
      policy: { extendedKeyUsages: { allowed: ["ocsp_signing"] } },
    });
    assert.equal((await house.owner.post(CERTS, { profileId: profile.id, csr })).status, 200);
  });

  test("a URI on another host is not let in by a pattern for ours", async () => {
    const profile = await aProfile(house.owner, pki.project.id, pki.root.id, {
      policy: { sans: [{ type: "uri", allowed: ["https://*.example.com"] }] },
    });
    const attributes = (value: string) => ({ commonName: "x", altNames: [{ type: "uri", value }] });
    await issue(house.owner, profile.id, attributes("https://a.example.com"));
    const crossing = await house.owner.post(CERTS, {
      profileId: profile.id,
      attributes: attributes("https://evil.com/x.example.com"),
    });
    assert.equal(crossing.status, 400);
  });

  test("a time stamper is certified as RFC 3161 wants it: critical, and alone", async () => {
    const attributes = (extendedKeyUsages: string[]) => ({
      profileId: pki.profile.id,
      attributes: { commonName: "stamps", altNames: [], extendedKeyUsages },
    });
    for (const usage of ["time_stamping", "1.3.6.1.5.5.7.3.8"]) {
      const { status, body } = await house.owner.post(CERTS, attributes([usage]));
      assert.equal(status, 200, JSON.stringify(body));
      const [made] = certificatesFromPem(body.certificate.certificate);
      const found = made?.extensions.all.find(({ oid }) => oid === "2.5.29.37");
      assert.equal(found?.isCritical, true);
    }
    assert.equal((await house.owner.post(CERTS, attributes(["time_stamping", "client_auth"]))).status, 400);
  });

  test("a list of policies holds and counts those that the caller may see", async () => {
    const projectId = (await certProject(house.owner)).id;
    for (const name of ["a-hidden", "b-hidden", "c-shown", "d-shown", "e-hidden", "f-shown"])
      ok(await house.owner.post(POLICIES, { name, projectId }));
    const rule = {
      subject: "certificate-policies",
      action: ["read"],
      conditions: { name: { $glob: "*-shown" } },
    };
    const slug = unique("some-policies");
    ok(
      await house.owner.post(`/api/v1/projects/${projectId}/roles`, {
        slug,
        name: slug,
        permissions: [rule],
      }),
    );
    const { client } = await anIdentity(house.owner, house.base, projectId, { roles: [{ role: slug }] });
    const pages = await Promise.all(
      [0, 2].map((offset) => client.get(`${POLICIES}?projectId=${projectId}&limit=2&offset=${offset}`)),
    );
    assert.deepEqual(
      pages.map((page) => ok(page).certificatePolicies.map(({ name }: { name: string }) => name)),
      [["c-shown", "d-shown"], ["f-shown"]],
    );
    assert.deepEqual(
      pages.map(({ body }) => body.totalCount),
      [3, 3],
    );
  });
});
