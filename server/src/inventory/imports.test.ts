import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { anIdentity, aRole } from "../../test/builders.ts";
import { openReceiver, type Receiver } from "../../test/alert-receiver.ts";
import { aPki, aRoot, certProject, issue, ok, type Pki } from "../../test/certificates.ts";
import { openTestHouse, type Client, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { certificateToPem } from "@keyward/x509";
import { needs, dns, issueLeaf, makeAuthority } from "@keyward/x509/testing";

const CERTS = "/api/v1/cert-manager/certificates";
const IMPORT = `${CERTS}/import-certificate`;

describe("a certificate from elsewhere", () => {
  let house: TestHouse;
  let elsewhere: Pki;
  let receiver: Receiver;
  before(async () => {
    receiver = await openReceiver();
    house = await openTestHouse({ env: { KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" } });
    elsewhere = await aPki(house);
  });
  after(async () => {
    await house.close();
    await receiver.close();
  });

  const factsOf = async (projectId: string) => {
    const { database, ...server } = house.database.connection;
    const { rows } = await withClient(server, database, (client) =>
      client.query(
        "SELECT name, data FROM outbox WHERE name LIKE 'certificate.%' AND data->>'projectId' = $1",
        [projectId],
      ),
    );
    return rows as { name: string; data: Record<string, unknown> }[];
  };

  test("states one fact when it is imported, and none when it is refused", async () => {
    const { id: projectId } = await certProject(house.owner);
    const foreign = await issue(house.owner, elsewhere.profile.id);
    const other = await issue(house.owner, elsewhere.profile.id);
    const body = { certificatePem: foreign.certificate, projectId };
    assert.equal((await house.owner.post(IMPORT, { ...body, privateKeyPem: other.privateKey })).status, 400);
    assert.deepEqual(await factsOf(projectId), []);
    const { certificateId } = ok(await house.owner.post(IMPORT, body));
    assert.deepEqual(await factsOf(projectId), [
      { name: "certificate.imported", data: { orgId: house.owner.orgId, projectId, certificateId } },
    ]);
  });

  test("that is about to expire is reported by an alert at once, not only when a later scan finds it", async () => {
    const { id: projectId } = await certProject(house.owner);
    const alert = {
      name: "watch",
      eventType: "expiration",
      alertBefore: "30d",
      filters: [],
      channels: [{ config: { url: `${receiver.url}/in` } }],
      projectId,
    };
    ok(await house.owner.post("/api/v1/cert-manager/alerts", alert));
    // A first scan passes the moment at which this certificate would have become due.
    await house.house.alertWork.runNow();
    const foreign = await issue(house.owner, elsewhere.profile.id, { ttl: "5d" });
    const { certificateId } = ok(
      await house.owner.post(IMPORT, { certificatePem: foreign.certificate, projectId }),
    );
    await house.house.alertWork.runNow();
    const told = receiver.received.map(({ json }) =>
      json.data.certificates.map(({ id }: { id: string }) => id),
    );
    assert.deepEqual(told, [[certificateId]]);
  });

  test("is renewed by the server only at the word of somebody who may issue under its profile, and with its key here", async () => {
    const one = await aPki(house);
    const foreign = await issue(house.owner, elsewhere.profile.id);
    const body = { certificatePem: foreign.certificate, projectId: one.project.id };
    const keyed = { ...body, privateKeyPem: foreign.privateKey };
    const rights = [
      { subject: "certificates", action: ["read", "import", "edit"] },
      { subject: "certificate-profiles", action: "read" },
    ];
    const withRights = async (permissions: readonly unknown[]) => {
      const role = await aRole(house.owner, one.project.id, permissions);
      return (await anIdentity(house.owner, house.base, one.project.id, { roles: [{ role }] })).client;
    };
    const keeper = await withRights(rights);
    const issuer = await withRights([
      ...rights,
      { subject: "certificate-profiles", action: "issue-cert", conditions: { slug: one.profile.slug } },
    ]);
    const take = async (more: Record<string, unknown>): Promise<string> =>
      ok(await issuer.post(IMPORT, more)).certificateId;
    const switched = (client: Client, id: string, enableAutoRenewal: boolean) =>
      client.patch(`${CERTS}/${id}/config`, { enableAutoRenewal });
    const renewAt = async (id: string) => ok(await house.owner.get(`${CERTS}/${id}`)).certificate.renewAt;

    const ours = await issue(house.owner, one.profile.id);
    for (const id of [await take({ ...keyed, profileId: one.profile.id }), ours.certificateId]) {
      assert.equal((await switched(keeper, id, true)).status, 403);
      assert.equal(await renewAt(id), null);
      ok(await switched(issuer, id, true));
      assert.notEqual(await renewAt(id), null);
      ok(await switched(keeper, id, false), "switching it off gives nobody anything");
      assert.equal(await renewAt(id), null);
    }
    const keyless = await switched(issuer, await take({ ...body, profileId: one.profile.id }), true);
    assert.equal(keyless.status, 400);
    assert.match(keyless.body.message, /private key is not kept here/);
    const profileless = await switched(issuer, await take(keyed), true);
    assert.equal(profileless.status, 400);
    assert.match(profileless.body.message, /under no profile/);
  });

  test("whose names no database can hold is refused with the name's place", async () => {
    const { id: projectId } = await certProject(house.owner);
    const { certificate } = await issue(house.owner, elsewhere.profile.id, {
      commonName: "ABCD",
      organization: "EFGH",
      altNames: [
        { type: "dns_name", value: "good.example.com" },
        { type: "dns_name", value: "nulxnul.example.com" },
      ],
    });
    const der = Buffer.from(certificate.replace(/-----[^-]+-----|\s/g, ""), "base64");
    const spoiled = (from: Buffer, to: Buffer): string => {
      const bytes = Buffer.from(der);
      assert.ok(bytes.includes(from));
      to.copy(bytes, bytes.indexOf(from));
      return certificateToPem(bytes);
    };
    const utf8 = (text: string) => Buffer.from(`\x0c${String.fromCharCode(text.length)}${text}`, "latin1");
    const loneHalf = Buffer.from([0x1e, 4, 0xd8, 0, 0, 0x41]);
    for (const [certificatePem, field] of [
      [spoiled(utf8("ABCD"), utf8("A\0CD")), "commonName"],
      [spoiled(utf8("ABCD"), loneHalf), "commonName"],
      [spoiled(utf8("EFGH"), utf8("EFG\0")), "subject.organization"],
      [spoiled(utf8("EFGH"), loneHalf), "subject.organization"],
      [spoiled(Buffer.from("nulxnul"), Buffer.from("nul\0nul")), "altNames.1"],
    ] as const) {
      const answer = await house.owner.post(IMPORT, { certificatePem, projectId });
      assert.equal(answer.status, 400, JSON.stringify(answer.body));
      assert.deepEqual(
        [answer.body.details[0].code, answer.body.details[0].field],
        ["name.characters", field],
      );
    }
    ok(await house.owner.post(IMPORT, { certificatePem: spoiled(utf8("ABCD"), utf8("A\tCD")), projectId }));
  });

  test("with more than a thousand names is refused with the bound, and one with a thousand is imported", async () => {
    const { id: projectId } = await certProject(house.owner);
    const root = await makeAuthority();
    const named = async (count: number) => {
      const altNames = Array.from({ length: count }, (_, n) => dns(`n${n}.example.com`));
      return certificateToPem((await issueLeaf(root, { altNames })).der);
    };
    const answer = await house.owner.post(IMPORT, { certificatePem: await named(1001), projectId });
    assert.equal(answer.status, 400);
    assert.deepEqual([answer.body.details[0].code, answer.body.details[0].field], ["name.count", "altNames"]);
    assert.match(answer.body.message, /may have 1000 names here; this one has 1001/);
    ok(await house.owner.post(IMPORT, { certificatePem: await named(1000), projectId }));
  });

  test("that ends in the year 0 is listed as expired", async () => {
    const { id: projectId } = await certProject(house.owner);
    const root = await aRoot(house.owner, projectId, { notAfter: "2060-01-01T00:00:00Z" });
    const { certificate } = ok(
      await house.owner.get(`/api/v1/cert-manager/ca/internal/${root.id}/certificate`),
    );
    const der = Buffer.from(certificate.replace(/-----[^-]+-----|\s/g, ""), "base64");
    der.write("0000", der.indexOf("20600101000000Z"));
    const { certificateId } = ok(
      await house.owner.post(IMPORT, { certificatePem: certificateToPem(der), projectId }),
    );
    const shown = ok(await house.owner.get(`${CERTS}/${certificateId}`)).certificate;
    assert.deepEqual([shown.status, shown.notAfter], ["expired", "0000-01-01T00:00:00.000Z"]);
  });

  test(
    "is listed whatever its key is, without a name for kinds that are not certified here",
    needs("openssl"),
    async () => {
      const { id: projectId } = await certProject(house.owner);
      for (const key of [["ec", "-pkeyopt", "ec_paramgen_curve:secp224r1"], ["ed448"]]) {
        const args = [
          "req",
          "-x509",
          "-nodes",
          "-newkey",
          ...key,
          "-subj",
          "/CN=odd",
          "-keyout",
          "/dev/null",
        ];
        const { stdout: certificatePem } = spawnSync("openssl", args, { encoding: "utf8" });
        const { certificateId } = ok(await house.owner.post(IMPORT, { certificatePem, projectId }));
        const shown = ok(await house.owner.get(`${CERTS}/${certificateId}`)).certificate;
        assert.deepEqual([shown.commonName, shown.keyAlgorithm, shown.hasPrivateKey], ["odd", null, false]);
      }
    },
  );
});
