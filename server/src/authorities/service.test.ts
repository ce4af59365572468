import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { anIdentity, unique } from "../../test/builders.ts";
import { anIntermediate, aProfile, aRoot, certProject, issue, ok } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { chainHolds, needs } from "@keyward/x509/testing";

const CA = "/api/v1/cert-manager/ca/internal";
const DAY = 86_400_000;

describe("certificate authorities", () => {
  let house: TestHouse;
  let projectId: string;
  before(async () => {
    house = await openTestHouse();
    projectId = (await certProject(house.owner)).id;
  });
  after(() => house.close());

  const activeOf = async (id: string) => ok(await house.owner.get(`${CA}/${id}/certificate`));

  test("any number of levels below is read as it was written, and a number as the certificate says it", async () => {
    const read = async (maxPathLength?: number | null) => {
      const { id } = await aRoot(
        house.owner,
        projectId,
        maxPathLength === undefined ? {} : { maxPathLength },
      );
      return ok(await house.owner.get(`${CA}/${id}`)).configuration.maxPathLength;
    };
    assert.deepEqual([await read(), await read(null), await read(-1), await read(3)], [null, null, -1, 3]);
  });

  test("a root is usable as soon as it is created, and lasts ten years by default", async () => {
    const root = await aRoot(house.owner, projectId, { organization: "Acme", country: "DE" });
    assert.deepEqual(
      [root.status, root.type, root.configuration.type, root.configuration.dn],
      ["active", "internal", "root", `CN=${root.configuration.commonName},O=Acme,C=DE`],
    );
    const { certificate, serialNumber, certId } = await activeOf(root.id);
    assert.deepEqual(
      [serialNumber, certId],
      [root.configuration.serialNumber, root.configuration.activeCaCertId],
    );
    const parsed = new X509Certificate(certificate);
    assert.ok(parsed.ca && parsed.verify(parsed.publicKey));
    assert.ok(Math.abs(Date.parse(parsed.validTo) - house.clock.millis() - 3650 * DAY) < DAY);
    await issue(house.owner, (await aProfile(house.owner, projectId, root.id)).id);
  });

  test(
    "every key algorithm, in both spellings, makes an authority that openssl trusts; the spelling is answered as sent",
    needs("openssl"),
    async () => {
      for (const keyAlgorithm of [
        "RSA_2048",
        "RSA-3072",
        "EC_prime256v1",
        "ECDSA-P384",
        "EC_secp521r1",
        "Ed25519",
      ]) {
        const root = await aRoot(house.owner, projectId, { keyAlgorithm });
        assert.equal(root.configuration.keyAlgorithm, keyAlgorithm);
        const intermediate = await anIntermediate(house.owner, projectId, root.id, {
          keyAlgorithm: "EC_prime256v1",
        });
        const { certificate, certificateChain } = await issue(
          house.owner,
          (await aProfile(house.owner, projectId, intermediate.id)).id,
        );
        assert.ok(chainHolds(certificate, certificateChain), keyAlgorithm);
        assert.equal(certificateChain.match(/BEGIN CERT/g).length, 2, "intermediate, then root");
      }
      const refused = await house.owner.post(CA, {
        name: unique("x"),
        projectId,
        configuration: { type: "root", commonName: "x", keyAlgorithm: "RSA_1024" },
      });
      assert.equal(refused.status, 400);
      const nameless = await house.owner.post(CA, {
        name: unique("x"),
        projectId,
        configuration: { type: "root" },
      });
      assert.equal(nameless.status, 400);
      assert.match(nameless.body.message, /needs a subject/);
    },
  );

  test(
    "an intermediate whose parent is elsewhere goes out as a request and comes in as a certificate",
    needs("openssl"),
    async () => {
      const offline = await aRoot(house.owner, projectId);
      const online = await anIntermediate(house.owner, projectId, null);
      assert.equal(online.status, "pending-certificate");
      assert.equal((await house.owner.get(`${CA}/${online.id}/certificate`)).status, 400);
      const { csr } = ok(await house.owner.get(`${CA}/${online.id}/csr`));
      const signed = ok(
        await house.owner.post(`${CA}/${offline.id}/sign-intermediate`, {
          csr,
          notAfter: new Date(house.clock.millis() + 400 * DAY).toISOString(),
          maxPathLength: 0,
        }),
      );
      const other = await anIntermediate(house.owner, projectId, null);
      assert.equal(
        (
          await house.owner.post(`${CA}/${other.id}/import-certificate`, {
            certificate: signed.certificate,
            certificateChain: signed.certificateChain,
          })
        ).status,
        400,
        "another key's certificate",
      );
      const wrongChain = (await activeOf((await aRoot(house.owner, projectId)).id)).certificate;
      assert.equal(
        (
          await house.owner.post(`${CA}/${online.id}/import-certificate`, {
            certificate: signed.certificate,
            certificateChain: wrongChain,
          })
        ).status,
        400,
        "a chain that does not hold",
      );
      ok(
        await house.owner.post(`${CA}/${online.id}/import-certificate`, {
          certificate: signed.certificate,
          certificateChain: signed.certificateChain,
        }),
      );
      assert.equal(ok(await house.owner.get(`${CA}/${online.id}`)).status, "active");
      const { certificate, certificateChain } = await issue(
        house.owner,
        (await aProfile(house.owner, projectId, online.id)).id,
      );
      assert.ok(chainHolds(certificate, certificateChain));
    },
  );

  test("path length and name constraints are enforced before signing", async () => {
    const root = await aRoot(house.owner, projectId, { maxPathLength: 1 });
    const limited = await anIntermediate(house.owner, projectId, root.id, {
      nameConstraints: {
        permitted: [{ type: "dns_name", value: "example.com" }],
        excluded: [{ type: "dns_name", value: "secret.example.com" }],
      },
    });
    const below = await house.owner.post(CA, {
      name: unique("too-deep"),
      projectId,
      configuration: { type: "intermediate", commonName: "too deep", parentCaId: limited.id },
    });
    assert.equal(below.status, 400);
    assert.match(JSON.stringify(below.body.details), /issuer_path_length/);
    const profile = await aProfile(house.owner, projectId, limited.id);
    await issue(house.owner, profile.id, {
      commonName: "a.example.com",
      altNames: [{ type: "dns_name", value: "a.example.com" }],
    });
    for (const value of ["a.example.org", "x.secret.example.com", "example.com.evil.org"]) {
      const answer = await house.owner.post("/api/v1/cert-manager/certificates", {
        profileId: profile.id,
        attributes: { altNames: [{ type: "dns_name", value }] },
      });
      assert.equal(answer.status, 400, value);
      assert.match(answer.body.details[0].code, /^name_constraints\./);
    }
  });

  test(
    "renewing with the same key keeps old leaves valid under the new certificate; a new key starts a new chain",
    needs("openssl"),
    async () => {
      const root = await aRoot(house.owner, projectId);
      const profile = await aProfile(house.owner, projectId, root.id);
      const leaf = await issue(house.owner, profile.id);
      const notAfter = new Date(house.clock.millis() + 15 * 365 * DAY).toISOString();
      const same = ok(await house.owner.post(`${CA}/${root.id}/renew`, { type: "existing", notAfter }));
      assert.ok(chainHolds(leaf.certificate, same.certificate));
      const rekeyed = ok(await house.owner.post(`${CA}/${root.id}/renew`, { type: "new", notAfter }));
      assert.ok(!chainHolds(leaf.certificate, rekeyed.certificate));
      const later = await issue(house.owner, profile.id);
      assert.ok(chainHolds(later.certificate, rekeyed.certificate));
      const versions = ok(await house.owner.get(`${CA}/${root.id}/ca-certificates`));
      assert.deepEqual(
        versions.map(({ version }: { version: number }) => version),
        [3, 2, 1],
      );
      assert.equal((await activeOf(root.id)).certId, versions[0].certId);
      const bundle = ok(
        await house.owner.get(`/api/v1/cert-manager/certificates/${leaf.certificateId}/bundle`),
      );
      assert.ok(chainHolds(bundle.certificate, bundle.certificateChain), "an old leaf keeps its own chain");
    },
  );

  test("a disabled authority issues nothing; a deleted one is gone but its name is free", async () => {
    const root = await aRoot(house.owner, projectId);
    const profile = await aProfile(house.owner, projectId, root.id);
    const attempt = () =>
      house.owner.post("/api/v1/cert-manager/certificates", {
        profileId: profile.id,
        attributes: { commonName: "x" },
      });
    assert.equal((await attempt()).status, 200);
    assert.equal(ok(await house.owner.patch(`${CA}/${root.id}`, { status: "disabled" })).status, "disabled");
    assert.equal((await attempt()).status, 400);
    ok(await house.owner.patch(`${CA}/${root.id}`, { status: "active" }));
    assert.equal((await attempt()).status, 200);
    ok(await house.owner.delete(`${CA}/${root.id}`));
    assert.equal((await attempt()).status, 400);
    assert.equal((await house.owner.get(`${CA}/${root.id}`)).status, 404);
    ok(
      await house.owner.post(CA, {
        name: root.name,
        projectId,
        configuration: { type: "root", commonName: "again" },
      }),
    );
    assert.equal(
      (
        await house.owner.post(CA, {
          name: root.name,
          projectId,
          configuration: { type: "root", commonName: "again" },
        })
      ).status,
      409,
    );
  });

  test("private keys are in the database under the project's key only", async () => {
    const { database, ...server } = house.database.connection;
    const rows = await withClient(
      server,
      database,
      async (client) =>
        (await client.query("SELECT sealed_key FROM authority_keys")).rows as { sealed_key: Buffer }[],
    );
    assert.ok(rows.length > 0);
    // Every unencrypted PKCS#8 begins with SEQUENCE, INTEGER 0, SEQUENCE.
    for (const { sealed_key: bytes } of rows)
      assert.equal(bytes.includes(Buffer.from([0x02, 0x01, 0x00, 0x30])), false);
  });

  test("a viewer cannot create, sign or delete", async () => {
    const root = await aRoot(house.owner, projectId);
    const { client } = await anIdentity(house.owner, house.base, projectId, { roles: [{ role: "viewer" }] });
    assert.equal((await client.get(`${CA}/${root.id}`)).status, 200);
    const body = { name: unique("x"), projectId, configuration: { type: "root", commonName: "x" } };
    assert.equal((await client.post(CA, body)).status, 403);
    assert.equal(
      (await client.post(`${CA}/${root.id}/renew`, { notAfter: "2040-01-01T00:00:00Z" })).status,
      403,
    );
    assert.equal((await client.delete(`${CA}/${root.id}`)).status, 403);
  });

  test("an address that no certificate can hold is refused before it stops the authority", async () => {
    const root = await aRoot(house.owner, projectId);
    const profile = await aProfile(house.owner, projectId, root.id);
    for (const url of ["http://crl.example.com/{ca}.crl", "ldap:///CN=ca"]) {
      const crlDistributionPointUrls = [url];
      const set = await house.owner.patch(`${CA}/${root.id}`, {
        configuration: { crlDistributionPointUrls },
      });
      assert.equal(set.status, 422, url);
      const made = await house.owner.post(CA, {
        name: unique("x"),
        projectId,
        configuration: { type: "root", commonName: "x", crlDistributionPointUrls },
      });
      assert.equal(made.status, 422, url);
    }
    await issue(house.owner, profile.id);
  });

  test("a new name does not undo what another changes at the same moment", async () => {
    const root = await aRoot(house.owner, projectId);
    const name = unique("renamed");
    const { database, ...server } = house.database.connection;
    const renamed = await withClient(server, database, async (client) => {
      await client.query("BEGIN");
      await client.query("UPDATE certificate_authorities SET status = 'disabled' WHERE id = $1", [root.id]);
      const asked = house.owner.patch(`${CA}/${root.id}`, { name });
      for (const deadline = Date.now() + 120_000; Date.now() < deadline; await pause(5)) {
        await client.query("SELECT pg_stat_clear_snapshot()");
        const { rowCount } = await client.query(
          "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        );
        if (rowCount === 1) break;
      }
      await client.query("COMMIT");
      return asked;
    });
    assert.deepEqual([ok(renamed).name, renamed.body.status], [name, "disabled"]);
  });

  test("an authority that has expired says so", async () => {
    const root = await aRoot(house.owner, projectId, {
      notAfter: new Date(house.clock.millis() + DAY).toISOString(),
    });
    const profile = await aProfile(house.owner, projectId, root.id);
    house.clock.advance(2 * DAY);
    const { status, body } = await house.owner.post("/api/v1/cert-manager/certificates", {
      profileId: profile.id,
      attributes: { commonName: "x" },
    });
    assert.equal(status, 400);
    assert.match(body.message, /expired/);
  });
});
