/** CRLs that clients accept whatever happened to the CA meanwhile. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { aPki, aProfile, aRoot, certProject, issue, ok } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { certificatesFromPem, crlToPem, parseCrl } from "@keyward/x509";
import { ask, needs, withFiles } from "@keyward/x509/testing";

const CA = "/api/v1/cert-manager/ca/internal";
const CERTS = "/api/v1/cert-manager/certificates";
const DAY = 86_400_000;
type Issued = {
  certificate: string;
  issuingCaCertificate: string;
  certificateId: string;
  serialNumber: string;
};

describe("CRLs", () => {
  let house: TestHouse;
  let projectId: string;
  before(async () => {
    house = await openTestHouse({ env: { KEYWARD_REVOCATION_URL: "http://pki.example.com" } });
    projectId = (await certProject(house.owner)).id;
  });
  after(() => house.close());

  const query = <T extends object>(text: string, values: unknown[] = []): Promise<T[]> => {
    const { database, ...server } = house.database.connection;
    return withClient(server, database, async (client) => (await client.query<T>(text, values)).rows);
  };
  const keyOf = async (leaf: Issued): Promise<string> => {
    const [row] = await query<{ id: string }>(
      "SELECT authority_key_id AS id FROM certificates WHERE id = $1",
      [leaf.certificateId],
    );
    return row?.id ?? "";
  };
  const listOf = async (leaf: Issued, shard = 0) => {
    const response = await fetch(`${house.base}/pki/crl/${await keyOf(leaf)}/${shard}`);
    return parseCrl(Buffer.from(await response.arrayBuffer()));
  };
  const listed = async (leaf: Issued): Promise<string[]> =>
    (await listOf(leaf)).entries.map(({ serialNumber }) => serialNumber);
  const revoke = async (leaf: Issued) => ok(await house.owner.post(`${CERTS}/${leaf.certificateId}/revoke`));
  const settle = async () => {
    house.clock.advance(4_000);
    await house.house.jobs.runDue();
  };
  /** By a client whose clock is so many seconds off. */
  const judged = (leaf: Issued, list: Buffer, offSeconds = 0) => {
    const at = String(Math.floor(house.clock.millis() / 1000) + offSeconds);
    const files = {
      "leaf.pem": leaf.certificate,
      "ca.pem": leaf.issuingCaCertificate,
      "list.pem": crlToPem(list),
    };
    return withFiles(files, (directory) =>
      ask(
        "openssl",
        [
          ...["verify", "-x509_strict", "-crl_check", "-extended_crl", "-attime", at],
          ...["-CAfile", "ca.pem", "-CRLfile", "list.pem", "leaf.pem"],
        ],
        directory,
      ),
    );
  };

  test(
    "a list is for every certificate of its key, whichever addresses they were given",
    needs("openssl"),
    async () => {
      const root = await aRoot(house.owner, projectId);
      const profile = await aProfile(house.owner, projectId, root.id);
      const leaves: Issued[] = [await issue(house.owner, profile.id)];
      await listOf(leaves[0] as Issued);
      for (const url of ["http://one.example.com/a.crl", "http://two.example.com/b.crl"]) {
        ok(
          await house.owner.patch(`${CA}/${root.id}`, {
            configuration: { disableManagedCrlDistributionPointUrl: true, crlDistributionPointUrls: [url] },
          }),
        );
        const leaf = await issue(house.owner, profile.id);
        assert.deepEqual(certificatesFromPem(leaf.certificate)[0]?.extensions.crlDistributionPoints, [url]);
        leaves.push(leaf);
        const gone = await issue(house.owner, profile.id);
        await revoke(gone);
        await settle();
      }
      const { der } = await listOf(leaves[0] as Issued);
      for (const leaf of leaves) {
        const { isAccepted, output } = judged(leaf, der);
        assert.ok(isAccepted, output);
      }
    },
  );

  test("one of several CRLs (shards) says which it is, also without a URL in the certificates", async () => {
    const root = await aRoot(house.owner, projectId, {
      crlShards: 2,
      disableManagedCrlDistributionPointUrl: true,
    });
    const leaf = await issue(house.owner, (await aProfile(house.owner, projectId, root.id)).id);
    const points = await Promise.all([0, 1].map((shard) => listOf(leaf, shard)));
    assert.equal(new Set(points.map((list) => String(list.issuingDistributionPoint?.urls))).size, 2);
  });

  test("a revoked certificate stays listed for a while after its end, and then no longer", async () => {
    const { profile } = await aPki(house);
    const [short, long] = [
      await issue(house.owner, profile.id, { ttl: "1d" }),
      await issue(house.owner, profile.id, { ttl: "60d" }),
    ];
    await revoke(short);
    await settle();
    assert.deepEqual(await listed(short), [short.serialNumber]);
    house.clock.advance(2 * DAY);
    await revoke(long);
    await settle();
    assert.deepEqual((await listed(short)).sort(), [short.serialNumber, long.serialNumber].sort());
    house.clock.advance(9 * DAY);
    assert.deepEqual(await listed(short), [long.serialNumber]);
  });

  test("marks of keys that are gone are cleared, and broken keys delay nobody", async () => {
    const leaf = await issue(house.owner, (await aPki(house)).profile.id);
    assert.deepEqual(await listed(leaf), []);
    const key = await keyOf(leaf);
    await query(
      `INSERT INTO crl_changes (authority_key_id, shard, at) SELECT gen_random_uuid(), 0, '2020-01-01' FROM generate_series(1, 250)`,
    );
    const broken = await query<{ id: string }>(
      `WITH keys AS (
         INSERT INTO authority_keys (id, authority_id, key_algorithm, public_key, data_key_id, sealed_key, crl_shards, created_at)
         SELECT gen_random_uuid(), authority_id, key_algorithm, public_key, data_key_id, '\\x00', 1, created_at FROM authority_keys, generate_series(1, 250) WHERE id = $1
         RETURNING id, authority_id),
       numbered AS (SELECT id, authority_id, row_number() OVER () AS n FROM keys),
       own AS (
         INSERT INTO authority_certificates (id, authority_id, key_id, version, serial_number, not_before, not_after, der, chain, created_at)
         SELECT gen_random_uuid(), k.authority_id, k.id, 1000 + k.n, c.serial_number, c.not_before, c.not_after, c.der, c.chain, c.created_at
         FROM numbered k JOIN authority_certificates c ON c.authority_id = k.authority_id RETURNING key_id)
       INSERT INTO crl_changes (authority_key_id, shard, at) SELECT id, 0, '2020-01-01' FROM keys RETURNING authority_key_id AS id`,
      [key],
    );
    assert.equal(broken.length, 250);
    await query(
      `INSERT INTO crls (authority_key_id, shard, number, this_update, next_update, der) SELECT k, 0, 1, '2020-01-01', '2020-01-02', '' FROM unnest($1::uuid[]) k`,
      [broken.map(({ id }) => id)],
    );
    await revoke(leaf);
    await settle();
    assert.deepEqual(await listed(leaf), [leaf.serialNumber]);
    const left = await query<{ id: string }>("SELECT authority_key_id AS id FROM crl_changes");
    assert.deepEqual(new Set(left.map(({ id }) => id)), new Set(broken.map(({ id }) => id)));
    await query("DELETE FROM authority_keys WHERE id = ANY ($1)", [broken.map(({ id }) => id)]);
  });

  test("a CRL that cannot be signed again is served for as long as it is valid", async () => {
    const leaf = await issue(house.owner, (await aPki(house)).profile.id, { ttl: "300d" });
    const { number } = await listOf(leaf);
    const { database, ...server } = house.database.connection;
    await withClient(server, database, async (client) => {
      await client.query(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room'; END $$",
      );
      await client.query("CREATE TRIGGER refuse BEFORE INSERT ON crls EXECUTE FUNCTION refuse()");
      house.clock.advance(5 * DAY);
      try {
        assert.equal((await listOf(leaf)).number, number);
      } finally {
        await client.query("DROP FUNCTION refuse CASCADE");
      }
    });
    assert.ok(((await listOf(leaf)).number ?? 0n) > (number ?? 0n));
  });

  test(
    "a certificate and a fresh list are valid for a client whose clock is a few seconds behind",
    needs("openssl"),
    async () => {
      const root = await aRoot(house.owner, projectId);
      const leaf = await issue(house.owner, (await aProfile(house.owner, projectId, root.id)).id);
      const { isAccepted, output } = judged(leaf, (await listOf(leaf)).der, -20);
      assert.ok(isAccepted, output);
    },
  );

  test("thisUpdate is neither before that of the previous CRL nor before its entries, though a clock was set back", async () => {
    const pki = await aPki(house);
    const leaves = [
      await issue(house.owner, pki.profile.id),
      await issue(house.owner, pki.profile.id),
    ] as const;
    await revoke(leaves[0]);
    await settle();
    const first = await listOf(leaves[0]);
    for (const { revokedAt } of first.entries) assert.ok(first.thisUpdate >= revokedAt);
    house.clock.advance(-20_000);
    await revoke(leaves[1]);
    await settle();
    const second = await listOf(leaves[1]);
    assert.equal(second.entries.length, 2);
    assert.ok((second.number ?? 0n) > (first.number ?? 0n));
    assert.ok(
      second.thisUpdate >= first.thisUpdate,
      `${second.thisUpdate.toISOString()} ${first.thisUpdate.toISOString()}`,
    );
    for (const { revokedAt } of second.entries) assert.ok(second.thisUpdate >= revokedAt);
    house.clock.advance(20_000);
  });
});
