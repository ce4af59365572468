import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { unique } from "../../test/builders.ts";
import { anIntermediate, aProfile, aRoot, certProject, issue, ok } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import {
  authorityKeyIdentifier,
  basicConstraints,
  certificatesFromPem,
  certificateToPem,
  keyIdentifier,
  keyUsage,
  parseCsrPem,
  subjectKeyIdentifier,
  type Certificate,
} from "@keyward/x509";
import { chainHolds, needs, makeAuthority } from "@keyward/x509/testing";
import { purposesLeft } from "./issuers.model.ts";

const CA = "/api/v1/cert-manager/ca/internal";
const CERTS = "/api/v1/cert-manager/certificates";
const DAY = 86_400_000;

test("what a chain may be used for is what each of its authorities allows", () => {
  const chain = (...usages: (readonly string[] | undefined)[]) =>
    purposesLeft(
      usages.map((extendedKeyUsage) => ({ extensions: { extendedKeyUsage } }) as unknown as Certificate),
    );
  assert.equal(chain(undefined, ["any_purpose"]), undefined);
  assert.deepEqual(chain(["server_auth", "client_auth"], undefined), new Set(["server_auth", "client_auth"]));
  assert.deepEqual(
    chain(["server_auth", "client_auth"], ["client_auth", "ocsp_signing"]),
    new Set(["client_auth"]),
  );
  assert.deepEqual(chain(["server_auth"], ["any_purpose"], ["ocsp_signing"]), new Set());
});

describe("authorities as issuers", () => {
  let house: TestHouse;
  let projectId: string;
  before(async () => {
    house = await openTestHouse();
    projectId = (await certProject(house.owner)).id;
  });
  after(() => house.close());

  const later = (days: number) => new Date(house.clock.millis() + days * DAY).toISOString();
  const activeOf = async (id: string) => ok(await house.owner.get(`${CA}/${id}/certificate`));
  const pathLengthOf = (pem: string) =>
    certificatesFromPem(pem)[0]?.extensions.basicConstraints?.pathLength ?? null;
  const propose = (parentCaId: string, more: Record<string, unknown> = {}) =>
    house.owner.post(CA, {
      name: unique("proposed"),
      projectId,
      configuration: { type: "intermediate", commonName: "Proposed", parentCaId, ...more },
    });
  const codesOf = (answer: { body: { details?: { code: string }[] } }) =>
    (answer.body.details ?? []).map(({ code }) => code);
  /** Of an external CA, to be signed by one of ours. */
  const aRequest = async () => {
    const outside = await anIntermediate(house.owner, projectId, null);
    return { outside, csr: ok(await house.owner.get(`${CA}/${outside.id}/csr`)).csr as string };
  };

  test("path length is what the whole chain leaves, and openssl agrees", needs("openssl"), async () => {
    const root = await aRoot(house.owner, projectId, { maxPathLength: 2 });
    const wide = await propose(root.id, { maxPathLength: 5 });
    assert.deepEqual([wide.status, codesOf(wide)], [400, ["basic_constraints.wider_than_issuer"]]);
    assert.equal(wide.body.details[0].field, "basicConstraints.pathLength");
    const first = await anIntermediate(house.owner, projectId, root.id);
    const second = await anIntermediate(house.owner, projectId, first.id, { maxPathLength: -1 });
    for (const [{ id }, expected] of [
      [first, 1],
      [second, 0],
    ] as const)
      assert.equal(pathLengthOf((await activeOf(id)).certificate), expected, "given what is left");
    const third = await propose(second.id);
    assert.deepEqual([third.status, codesOf(third)], [400, ["basic_constraints.issuer_path_length"]]);
    const leaf = await issue(house.owner, (await aProfile(house.owner, projectId, second.id)).id);
    assert.ok(chainHolds(leaf.certificate, leaf.certificateChain));
  });

  test(
    "a certificate from outside that is wider than its chain is held to the chain",
    needs("openssl"),
    async () => {
      // The intermediate's own certificate has no limit; only the root above has.
      const root = await makeAuthority({ name: "Elsewhere", pathLength: 1 });
      const { outside, csr } = await aRequest();
      const { publicKey, subject } = parseCsrPem(csr);
      const extensions = [
        basicConstraints({ isCa: true }),
        keyUsage(["key_cert_sign", "crl_sign", "digital_signature"]),
        subjectKeyIdentifier(keyIdentifier(publicKey)),
        authorityKeyIdentifier(root.keyId),
      ];
      const fields = { publicKey, subject: subject.der, extensions };
      const { certificate } = await makeAuthority({ name: "Wide", parent: root, fields });
      ok(
        await house.owner.post(`${CA}/${outside.id}/import-certificate`, {
          certificate: certificateToPem(certificate.der),
          certificateChain: certificateToPem(root.certificate.der),
        }),
      );
      const below = await propose(outside.id, { maxPathLength: 0 });
      assert.deepEqual([below.status, codesOf(below)], [400, ["basic_constraints.issuer_path_length"]]);
      const { csr: another } = await aRequest();
      const asked = await house.owner.post(`${CA}/${outside.id}/sign-intermediate`, {
        csr: another,
        notAfter: later(30),
      });
      assert.equal(asked.status, 400);
      const leaf = await issue(house.owner, (await aProfile(house.owner, projectId, outside.id)).id);
      assert.ok(chainHolds(leaf.certificate, leaf.certificateChain));
    },
  );

  test("no subordinate CA has its issuer's name: path length would not count it", async () => {
    const root = await aRoot(house.owner, projectId, { maxPathLength: 1 });
    const middle = await anIntermediate(house.owner, projectId, root.id);
    const alike = await propose(middle.id, { commonName: middle.configuration.commonName });
    assert.deepEqual([alike.status, codesOf(alike)], [400, ["subject.same_as_issuer"]]);
  });

  test("a revoked authority issues nothing, nor does any below it, until it has a new certificate", async () => {
    const root = await aRoot(house.owner, projectId);
    const middle = await anIntermediate(house.owner, projectId, root.id);
    const below = await anIntermediate(house.owner, projectId, middle.id);
    const profiles = await Promise.all(
      [root, middle, below].map(({ id }) => aProfile(house.owner, projectId, id)),
    );
    const attempt = (profile: { id: string } | undefined) =>
      house.owner.post(CERTS, { profileId: profile?.id, attributes: { commonName: "x" } });
    const statuses = async () => (await Promise.all(profiles.map(attempt))).map(({ status }) => status);
    assert.deepEqual(await statuses(), [200, 200, 200]);

    const revoke = async (reason: string) =>
      ok(
        await house.owner.post(`${CERTS}/${(await activeOf(middle.id)).certId}/revoke`, {
          revocationReason: reason,
        }),
      );
    await revoke("CERTIFICATE_HOLD");
    assert.deepEqual(await statuses(), [200, 400, 400]);
    ok(await house.owner.post(`${CERTS}/${(await activeOf(middle.id)).certId}/unhold`, {}));
    assert.deepEqual(await statuses(), [200, 200, 200], "taken off hold, it issues again");

    await revoke("SUPERSEDED");
    assert.deepEqual(await statuses(), [200, 400, 400]);
    const { body } = await attempt(profiles[2]);
    assert.match(body.message, new RegExp(`revoked.*${middle.configuration.commonName}`));
    assert.equal((await propose(middle.id)).status, 400);

    ok(await house.owner.post(`${CA}/${middle.id}/renew`, { type: "new", notAfter: later(300) }));
    assert.deepEqual(
      await statuses(),
      [200, 200, 400],
      "the one below still stands on the revoked certificate",
    );
    ok(await house.owner.post(`${CA}/${below.id}/renew`, { notAfter: later(200) }));
    assert.deepEqual(await statuses(), [200, 200, 200]);
  });

  test("a certificate from a CA here, imported into another, stops that one when revoked", async () => {
    const root = await aRoot(house.owner, projectId);
    const { outside, csr } = await aRequest();
    const signed = ok(
      await house.owner.post(`${CA}/${root.id}/sign-intermediate`, { csr, notAfter: later(300) }),
    );
    ok(
      await house.owner.post(`${CA}/${outside.id}/import-certificate`, {
        certificate: signed.certificate,
        certificateChain: signed.certificateChain,
      }),
    );
    const profile = await aProfile(house.owner, projectId, outside.id);
    await issue(house.owner, profile.id);
    ok(await house.owner.post(`${CERTS}/${signed.certificateId}/revoke`, { revocationReason: "SUPERSEDED" }));
    const refused = await house.owner.post(CERTS, {
      profileId: profile.id,
      attributes: { commonName: "x" },
    });
    assert.equal(refused.status, 400);
  });

  test(
    "an earlier certificate can be made active again, also across a new key",
    needs("openssl"),
    async () => {
      const root = await aRoot(house.owner, projectId);
      const middle = await anIntermediate(house.owner, projectId, root.id);
      const profile = await aProfile(house.owner, projectId, middle.id);
      const old = await activeOf(middle.id);
      const rekeyed = ok(
        await house.owner.post(`${CA}/${middle.id}/renew`, { type: "new", notAfter: later(30) }),
      );
      const activate = (id: string) =>
        house.owner.patch(`${CA}/${middle.id}`, { configuration: { activeCaCertId: id } });
      assert.equal(ok(await activate(old.certId)).configuration.activeCaCertId, old.certId);
      const leaf = await issue(house.owner, profile.id);
      assert.equal(leaf.issuingCaCertificate, old.certificate);
      assert.ok(chainHolds(leaf.certificate, leaf.certificateChain));
      const same = ok(await house.owner.post(`${CA}/${middle.id}/renew`, { notAfter: later(60) }));
      assert.ok(
        chainHolds(leaf.certificate, `${same.certificate}\n${same.certificateChain}`),
        "renewing keeps the key that is active now",
      );

      assert.equal((await activate(root.configuration.activeCaCertId)).status, 404, "of another authority");
      ok(await house.owner.post(`${CERTS}/${rekeyed.certId}/revoke`, { revocationReason: "SUPERSEDED" }));
      assert.equal((await activate(rekeyed.certId)).status, 400, "revoked");
      house.clock.advance(70 * DAY);
      assert.equal((await activate(same.certId)).status, 400, "expired");
      assert.equal((await activate(old.certId)).status, 200);
    },
  );
});
