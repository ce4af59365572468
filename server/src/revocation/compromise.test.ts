/** What a compromised key revokes, and what it must not. */
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { aPki, anIntermediate, aProfile, aRoot, certProject, issue, ok } from "../../test/certificates.ts";
import { openTestHouse, type Client, type TestHouse } from "../../test/harness.ts";
import { buildCsr, csrToPem, encodeName, nameFrom } from "@keyward/x509";

const CA = "/api/v1/cert-manager/ca/internal";
const CERTS = "/api/v1/cert-manager/certificates";
const DAY = 86_400_000;

describe("compromised keys", () => {
  let house: TestHouse;
  let projectId: string;
  before(async () => {
    house = await openTestHouse();
    projectId = (await certProject(house.owner)).id;
  });
  after(() => house.close());

  const later = (days: number) => new Date(house.clock.millis() + days * DAY).toISOString();
  const revoke = (id: string, revocationReason: string, client: Client = house.owner) =>
    client.post(`${CERTS}/${id}/revoke`, { revocationReason });
  const statusOf = async (id: string) => ok(await house.owner.get(`${CERTS}/${id}`)).certificate.status;
  const aCsr = async () => {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
    const subject = encodeName(nameFrom({ commonName: "k" }));
    return csrToPem(
      await buildCsr({ subject, extensions: [] }, { key: privateKey, algorithm: "ECDSA-SHA256" }),
    );
  };

  test("a CA revoked as compromised loses every certificate of its key, and its key for good", async () => {
    const root = await aRoot(house.owner, projectId);
    const middle = await anIntermediate(house.owner, projectId, root.id);
    const profile = await aProfile(house.owner, projectId, middle.id);
    const first = middle.configuration.activeCaCertId;
    const second = ok(await house.owner.post(`${CA}/${middle.id}/renew`, { notAfter: later(300) })).certId;
    ok(await revoke(second, "CA_COMPROMISE"));
    assert.equal(await statusOf(first), "revoked");
    const again = await house.owner.post(`${CA}/${middle.id}/renew`, { notAfter: later(300) });
    assert.deepEqual([again.status, again.body.details?.[0]?.code], [400, "key.known_weak"]);
    assert.equal(
      (await house.owner.patch(`${CA}/${middle.id}`, { configuration: { activeCaCertId: first } })).status,
      400,
    );
    const attempt = () => house.owner.post(CERTS, { profileId: profile.id, attributes: { commonName: "x" } });
    assert.equal((await attempt()).status, 400);
    ok(await house.owner.post(`${CA}/${middle.id}/renew`, { type: "new", notAfter: later(300) }));
    assert.equal((await attempt()).status, 200, "with a new key it issues again");
  });

  test("a certificate from elsewhere for a compromised key makes no authority", async () => {
    const root = await aRoot(house.owner, projectId);
    const outside = await anIntermediate(house.owner, projectId, null);
    const { csr } = ok(await house.owner.get(`${CA}/${outside.id}/csr`));
    const sign = async () =>
      ok(await house.owner.post(`${CA}/${root.id}/sign-intermediate`, { csr, notAfter: later(300) }));
    const take = ({ certificate, certificateChain }: { certificate: string; certificateChain: string }) =>
      house.owner.post(`${CA}/${outside.id}/import-certificate`, { certificate, certificateChain });
    const [one, two] = [await sign(), await sign()];
    ok(await take(one));
    const profile = await aProfile(house.owner, projectId, outside.id);
    await issue(house.owner, profile.id);
    ok(await revoke(two.certificateId, "CA_COMPROMISE"));
    const attempt = await house.owner.post(CERTS, { profileId: profile.id, attributes: { commonName: "x" } });
    assert.equal(attempt.status, 400);
    assert.match(attempt.body.message, /compromised|revoked/);
    assert.equal((await take(two)).status, 400);
  });

  test("cACompromise of a leaf says nothing about its own key", async () => {
    const { profile } = await aPki(house);
    const csr = await aCsr();
    const request = () => house.owner.post(CERTS, { profileId: profile.id, csr });
    const [one, two] = [ok(await request()).certificate, ok(await request()).certificate];
    ok(await revoke(one.certificateId, "CA_COMPROMISE"));
    assert.equal(await statusOf(two.certificateId), "active");
    assert.equal((await request()).status, 200);
  });

  test("somebody who copied a CSR can block its key in their own organisation only", async () => {
    const stranger = await house.newTenant();
    const csr = await aCsr();
    const [ours, theirs] = await Promise.all(
      [house.owner, stranger].map(async (client) => {
        const project = await certProject(client);
        const root = await aRoot(client, project.id);
        const profile = await aProfile(client, project.id, root.id);
        return () => client.post(CERTS, { profileId: profile.id, csr });
      }),
    );
    assert.ok(ours && theirs);
    ok(await ours());
    const copied = ok(await theirs()).certificate;
    ok(await revoke(copied.certificateId, "KEY_COMPROMISE", stranger));
    assert.equal((await theirs()).status, 400);
    assert.equal((await ours()).status, 200);
  });
});
