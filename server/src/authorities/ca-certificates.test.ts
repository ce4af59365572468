import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { unique } from "../../test/builders.ts";
import { anIntermediate, aProfile, aRoot, certProject, issue, ok } from "../../test/certificates.ts";
import { clientOf, openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import {
  authorityKeyIdentifier,
  basicConstraints,
  certificateToPem,
  decodePemOf,
  encodeName,
  keyIdentifier,
  keyUsage,
  nameFrom,
  parseCsrPem,
  subjectKeyIdentifier,
} from "@keyward/x509";
import { chainHolds, needs, makeAuthority } from "@keyward/x509/testing";

const CA = "/api/v1/cert-manager/ca/internal";
const DAY = 86_400_000;

describe("an authority's own certificates", () => {
  let house: TestHouse;
  let projectId: string;
  before(async () => {
    house = await openTestHouse();
    projectId = (await certProject(house.owner)).id;
  });
  after(() => house.close());

  const later = (days: number) => new Date(house.clock.millis() + days * DAY).toISOString();
  const keyed = (key: string) => ({ headers: { "idempotency-key": key } });
  const versionsOf = async (id: string) =>
    ok(await house.owner.get(`${CA}/${id}/ca-certificates`)) as { certId: string }[];

  test("an authority that is refused leaves nothing behind: the corrected repeat succeeds", async () => {
    const root = await aRoot(house.owner, projectId, { maxPathLength: 1 });
    const names = (await house.owner.get(`${CA}?projectId=${projectId}`)).body.length;
    const name = unique("second-try");
    const create = (configuration: Record<string, unknown>) =>
      house.owner.post(CA, {
        name,
        projectId,
        configuration: { type: "intermediate", commonName: name, parentCaId: root.id, ...configuration },
      });
    for (const wrong of [
      { notAfter: later(20 * 365) },
      { maxPathLength: 4 },
      { nameConstraints: { permitted: [{ type: "ip_address", value: "10.0.0.0/99" }] } },
      { keyAlgorithm: "RSA_1024" },
      { notAfter: "2030-99-99" },
    ]) {
      const { status } = await create(wrong);
      assert.ok(status === 400 || status === 422, `${JSON.stringify(wrong)} answered ${status}`);
    }
    assert.equal((await house.owner.get(`${CA}?projectId=${projectId}`)).body.length, names);
    const made = ok(await create({}));
    assert.equal(made.status, "active");
    await issue(house.owner, (await aProfile(house.owner, projectId, made.id)).id);
    assert.equal((await create({})).status, 409);
  });

  test("one can be created disabled, with its certificate or still waiting for one", async () => {
    const root = await aRoot(house.owner, projectId);
    for (const [parentCaId, hasCertificate] of [
      [root.id, true],
      [null, false],
    ]) {
      const name = unique("asleep");
      const made = ok(
        await house.owner.post(CA, {
          name,
          projectId,
          status: "disabled",
          configuration: { type: "intermediate", commonName: name, parentCaId },
        }),
      );
      assert.deepEqual(
        [made.status, made.configuration.activeCaCertId !== null],
        ["disabled", hasCertificate],
      );
    }
  });

  test("an Idempotency-Key makes signing an intermediate safe to repeat", needs("openssl"), async () => {
    const root = await aRoot(house.owner, projectId);
    const outside = await anIntermediate(house.owner, projectId, null);
    const { csr } = ok(await house.owner.get(`${CA}/${outside.id}/csr`));
    const body = { csr, notAfter: later(100) };
    const sign = (more: Record<string, unknown> = {}, key = "once") =>
      house.owner.post(`${CA}/${root.id}/sign-intermediate`, { ...body, ...more }, keyed(key));
    const first = ok(await sign());
    assert.deepEqual(ok(await sign()), first);
    assert.equal((await sign({ maxPathLength: 0 })).status, 422, "another request under the same key");
    assert.notEqual(ok(await sign({}, "twice")).certificateId, first.certificateId);
    const raced = await Promise.all(Array.from({ length: 4 }, () => sign({}, "raced")));
    assert.equal(new Set(raced.map((each) => ok(each).certificateId)).size, 1);
    ok(await house.owner.post(`${CA}/${root.id}/renew`, { type: "new", notAfter: later(3000) }));
    const afterwards = ok(await sign());
    assert.deepEqual(afterwards, first, "also after its issuer has a new key");
    assert.ok(chainHolds(afterwards.certificate, afterwards.certificateChain));
  });

  test("an Idempotency-Key makes renewing an authority safe to repeat", async () => {
    const root = await aRoot(house.owner, projectId);
    const middle = await anIntermediate(house.owner, projectId, root.id);
    for (const { id } of [middle, root]) {
      const [end, otherEnd] = [later(200), later(201)];
      const renew = (type: string, notAfter: string) =>
        house.owner.post(`${CA}/${id}/renew`, { type, notAfter }, keyed(`renew-${type}`));
      for (const [index, type] of ["existing", "new"].entries()) {
        const first = ok(await renew(type, end));
        assert.deepEqual(ok(await renew(type, end)), first);
        assert.equal((await versionsOf(id)).length, 2 + index);
        assert.equal((await renew(type, otherEnd)).status, 422);
      }
      const raced = await Promise.all(
        Array.from({ length: 4 }, () =>
          house.owner.post(`${CA}/${id}/renew`, { type: "existing", notAfter: end }, keyed("raced")),
        ),
      );
      assert.equal(new Set(raced.map((each) => ok(each).certId)).size, 1);
      assert.equal((await versionsOf(id)).length, 4);
    }
  });

  test("renewing an authority links its old certificate to the new one, as for any other; the way back stays open", async () => {
    const root = await aRoot(house.owner, projectId);
    const renew = async (type: string) =>
      ok(await house.owner.post(`${CA}/${root.id}/renew`, { type, notAfter: later(300) }));
    const shown = async (id: string) =>
      ok(await house.owner.get(`/api/v1/cert-manager/certificates/${id}`)).certificate;
    const [first] = await versionsOf(root.id);
    assert.ok(first);
    const second = await renew("existing");
    assert.equal((await shown(first.certId)).renewedByCertificateId, second.certId);
    ok(await house.owner.patch(`${CA}/${root.id}`, { activeCaCertId: first.certId }));
    await renew("new");
    assert.equal((await shown(first.certId)).renewedByCertificateId, second.certId);
  });

  test("a renewal that was interrupted is finished by its repeat, unless the new key is lost", async () => {
    const root = await aRoot(house.owner, projectId);
    const renew = (type: string, notAfter: string) =>
      house.owner.post(`${CA}/${root.id}/renew`, { type, notAfter }, keyed(`interrupted-${type}`));
    const { database, ...server } = house.database.connection;
    const end = later(200);
    for (const [type, status] of [
      ["existing", 200],
      ["new", 409],
    ] as const) {
      const { certId, certificate } = ok(await renew(type, end));
      // As if the server had stopped after signing, before the authority took the certificate up.
      await withClient(server, database, (client) =>
        client.query("DELETE FROM authority_certificates WHERE id = $1", [certId]),
      );
      const again = await renew(type, end);
      assert.equal(again.status, status);
      if (status === 200)
        assert.deepEqual([again.body.certId, again.body.certificate], [certId, certificate]);
    }
  });

  test("every certificate of an authority can be fetched in DER, without a token", async () => {
    const root = await aRoot(house.owner, projectId);
    const other = await aRoot(house.owner, projectId);
    const { certificate, certId } = ok(await house.owner.get(`${CA}/${root.id}/certificate`));
    const answer = await fetch(`${house.base}${CA}/${root.id}/certificates/${certId}/der`);
    assert.deepEqual([answer.status, answer.headers.get("content-type")], [200, "application/pkix-cert"]);
    assert.deepEqual(Buffer.from(await answer.arrayBuffer()), decodePemOf("CERTIFICATE", certificate)[0]);
    const stranger = clientOf(house.base);
    assert.equal((await stranger.get(`${CA}/${other.id}/certificates/${certId}/der`)).status, 404);
  });

  test("one from a parent elsewhere is shown as it is, and refused once it has expired", async () => {
    const root = await aRoot(house.owner, projectId);
    const { csr, outside } = await (async () => {
      const made = await anIntermediate(house.owner, projectId, null, { maxPathLength: 7 });
      return { outside: made, csr: ok(await house.owner.get(`${CA}/${made.id}/csr`)).csr };
    })();
    assert.equal(outside.configuration.maxPathLength, 7, "what is wished, until there is a certificate");
    const sign = async (days: number) =>
      ok(
        await house.owner.post(`${CA}/${root.id}/sign-intermediate`, {
          csr,
          notAfter: later(days),
          maxPathLength: 3,
        }),
      ).certificate as string;
    const take = (certificate: string) =>
      house.owner.post(`${CA}/${outside.id}/import-certificate`, { certificate, certificateChain: "" });
    const [short, long] = [await sign(1), await sign(100)];
    house.clock.advance(2 * DAY);
    assert.equal((await take(short)).status, 400);
    ok(await take(long));
    const shown = ok(await house.owner.get(`${CA}/${outside.id}`)).configuration;
    assert.deepEqual([shown.maxPathLength, shown.dn], [3, outside.configuration.dn]);
    // What a parent certifies need not be what was wished: here it is under another name.
    const profile = await aProfile(house.owner, projectId, root.id, {
      policy: { basicConstraints: { isCA: "allowed" } },
    });
    const renamed = await issue(house.owner, profile.id, { commonName: "Renamed", altNames: [] }, { csr });
    ok(await take(renamed.certificate));
    assert.equal(ok(await house.owner.get(`${CA}/${outside.id}`)).configuration.dn, "CN=Renamed");
  });

  test("the parent is always that of the active certificate", async () => {
    const [one, two] = [await aRoot(house.owner, projectId), await aRoot(house.owner, projectId)];
    const middle = await anIntermediate(house.owner, projectId, one.id);
    const shown = async () => ok(await house.owner.get(`${CA}/${middle.id}`)).configuration;
    const { activeCaCertId: first } = await shown();
    const second = ok(
      await house.owner.post(`${CA}/${middle.id}/certificate`, { notAfter: later(200), parentCaId: two.id }),
    ).certId;
    const activate = (id: string) =>
      house.owner.patch(`${CA}/${middle.id}`, { configuration: { activeCaCertId: id } });
    for (const [id, parent] of [
      [first, one.id],
      [second, two.id],
      [first, one.id],
    ])
      assert.equal(ok(await activate(id)).configuration.parentCaId, parent);
    const { csr } = ok(await house.owner.get(`${CA}/${middle.id}/csr`));
    const { certificate, certificateChain } = ok(
      await house.owner.post(`${CA}/${two.id}/sign-intermediate`, { csr, notAfter: later(300) }),
    );
    ok(await house.owner.post(`${CA}/${middle.id}/import-certificate`, { certificate, certificateChain }));
    assert.equal((await shown()).parentCaId, null, "from elsewhere");
    const renewed = await house.owner.post(`${CA}/${middle.id}/renew`, { notAfter: later(400) });
    assert.equal(renewed.status, 400, "nobody here has promised to go on certifying it");
    ok(await activate(first));
    assert.equal(
      ok(await house.owner.post(`${CA}/${middle.id}/renew`, { notAfter: later(400) })).certificateChain,
      ok(await house.owner.get(`${CA}/${one.id}/certificate`)).certificate,
    );
  });

  test("no authority stands below itself", async () => {
    const root = await aRoot(house.owner, projectId);
    const middle = await anIntermediate(house.owner, projectId, root.id);
    const below = await anIntermediate(house.owner, projectId, middle.id);
    for (const parentCaId of [middle.id, below.id]) {
      const { status } = await house.owner.post(`${CA}/${middle.id}/certificate`, {
        notAfter: later(100),
        parentCaId,
      });
      assert.equal(status, 400);
    }
  });

  test("one from elsewhere is listed and watched like any other, and its successor takes its place", async () => {
    const elsewhere = await makeAuthority({ name: "Elsewhere" });
    const outside = await anIntermediate(house.owner, projectId, null);
    const { csr } = ok(await house.owner.get(`${CA}/${outside.id}/csr`));
    const { publicKey, subject } = parseCsrPem(csr);
    const take = async () => {
      const extensions = [
        basicConstraints({ isCa: true }),
        keyUsage(["key_cert_sign", "crl_sign", "digital_signature"]),
        subjectKeyIdentifier(keyIdentifier(publicKey)),
        authorityKeyIdentifier(elsewhere.keyId),
      ];
      const fields = { publicKey, subject: subject.der, extensions };
      const { certificate } = await makeAuthority({ name: "Below", parent: elsewhere, fields });
      ok(
        await house.owner.post(`${CA}/${outside.id}/import-certificate`, {
          certificate: certificateToPem(certificate.der),
          certificateChain: certificateToPem(elsewhere.certificate.der),
        }),
      );
      return ok(await house.owner.get(`${CA}/${outside.id}/certificate`)).certId as string;
    };
    const shown = async (id: string) =>
      ok(await house.owner.get(`/api/v1/cert-manager/certificates/${id}`)).certificate;
    const first = await take();
    const { isCA, source, renewedByCertificateId } = await shown(first);
    assert.deepEqual([isCA, source, renewedByCertificateId], [true, "imported", null]);
    const second = await take();
    assert.equal((await shown(first)).renewedByCertificateId, second);
  });

  test("a key that has issued keeps its name and identifier, or its lists would speak for nobody", async () => {
    const elsewhere = await makeAuthority({ name: "Elsewhere" });
    const outside = await anIntermediate(house.owner, projectId, null);
    const { csr } = ok(await house.owner.get(`${CA}/${outside.id}/csr`));
    const { publicKey, subject } = parseCsrPem(csr);
    const take = async (
      subjectDer: Buffer,
      identifier = keyIdentifier(publicKey),
      usages: Parameters<typeof keyUsage>[0] = ["key_cert_sign", "crl_sign", "digital_signature"],
    ) => {
      const extensions = [
        basicConstraints({ isCa: true }),
        keyUsage(usages),
        subjectKeyIdentifier(identifier),
        authorityKeyIdentifier(elsewhere.keyId),
      ];
      const fields = { publicKey, subject: subjectDer, extensions };
      const { certificate } = await makeAuthority({ name: "Below", parent: elsewhere, fields });
      const answer = await house.owner.post(`${CA}/${outside.id}/import-certificate`, {
        certificate: certificateToPem(certificate.der),
        certificateChain: certificateToPem(elsewhere.certificate.der),
      });
      return answer.status;
    };
    const other = encodeName(nameFrom({ commonName: "Other" }));
    assert.equal(await take(subject.der, undefined, ["key_cert_sign"]), 400, "cannot sign its lists");
    assert.deepEqual([await take(other), await take(subject.der)], [200, 200], "nothing was issued yet");
    await issue(house.owner, (await aProfile(house.owner, projectId, outside.id)).id);
    assert.equal(await take(other), 400);
    assert.equal(await take(subject.der, Buffer.alloc(20, 7)), 400);
    assert.equal(await take(subject.der), 200);
  });
});
