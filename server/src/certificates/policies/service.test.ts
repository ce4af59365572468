import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { aPki, aProfile, issue, type Pki } from "../../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";
import {
  buildCsr,
  csrToPem,
  defaultSignatureAlgorithm,
  encodeName,
  extendedKeyUsage,
  nameFrom,
} from "../x509/index.ts";

const CERTS = "/api/v1/cert-manager/certificates";

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
    const wish = {
      subject: encodeName(nameFrom({ commonName: "responder" })),
      extensions: [extendedKeyUsage(["ocsp_signing"])],
    };
    const signer = { key: privateKey, algorithm: defaultSignatureAlgorithm(privateKey) };
    const csr = csrToPem(await buildCsr(wish, signer));
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
});
