/** Races between a read and the write that follows from it: another's revocation must not get lost there. */
import assert from "node:assert/strict";
import { pbkdf2 } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { aPki, anIntermediate, aProfile, issue, ok } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import {
  decodePemOf,
  encodeCertId,
  encodeOcspRequest,
  issuerHashes,
  parseCertificate,
  parseCrl,
} from "@keyward/x509";

const CERTS = "/api/v1/cert-manager/certificates";
const DAY = 86_400_000;
type Issued = {
  certificate: string;
  issuingCaCertificate: string;
  certificateId: string;
  serialNumber: string;
};

const parsed = (pem: string) =>
  parseCertificate(decodePemOf("CERTIFICATE", pem)[0] ?? assert.fail("no certificate"));

describe("revocation while something else is under way", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse({ env: { KEYWARD_REVOCATION_URL: "http://pki.example.com" } });
    // Room for a clock that lags without falling behind what was made before.
    house.clock.advance(3_600_000);
  });
  after(() => house.close());

  const here = (url = ""): string => url.replace("http://pki.example.com", house.base);
  const listUrl = (leaf: Issued): string =>
    here(parsed(leaf.certificate).extensions.crlDistributionPoints?.[0]);
  const keyOf = (leaf: Issued): string => listUrl(leaf).split("/").at(-2) ?? "";
  const listFor = async (leaf: Issued) =>
    parseCrl(Buffer.from(await (await fetch(listUrl(leaf))).arrayBuffer()));
  const listed = async (leaf: Issued): Promise<string[]> =>
    (await listFor(leaf)).entries.map(({ serialNumber }) => serialNumber);
  const revoke = async (leaf: Issued) => ok(await house.owner.post(`${CERTS}/${leaf.certificateId}/revoke`));
  const runJobs = () => {
    house.clock.advance(4_000);
    return house.house.jobs.runDue();
  };
  const isGood = async (leaf: Issued): Promise<boolean> => {
    const ca = parsed(leaf.issuingCaCertificate);
    const hashes = issuerHashes(ca.subject.der, ca.publicKey, "sha1");
    const response = await fetch(here(parsed(leaf.certificate).extensions.authorityInfoAccess?.ocspUrls[0]), {
      method: "POST",
      headers: { "content-type": "application/ocsp-request" },
      body: new Uint8Array(encodeOcspRequest([encodeCertId("sha1", hashes, leaf.serialNumber)])),
    });
    // [0] good, [1] revoked: the tag right behind the CertID.
    return Buffer.from(await response.arrayBuffer()).includes(
      Buffer.concat([Buffer.from(leaf.serialNumber, "hex"), Buffer.from([0x80, 0x00])]),
    );
  };

  type Waiting = (count: number) => Promise<void>;
  /** Does its work under a lock; `waiting` answers when so many others wait for one. */
  const under = async (
    lock: readonly [statement: string, ...values: unknown[]],
    work: (waiting: Waiting) => Promise<void>,
  ): Promise<void> => {
    const { database, ...server } = house.database.connection;
    await withClient(server, database, async (client) => {
      await client.query("BEGIN");
      await client.query(lock[0], lock.slice(1));
      await work(async (count) => {
        for (const deadline = Date.now() + 120_000; ; await pause(5)) {
          await client.query("SELECT pg_stat_clear_snapshot()");
          const { rows } = await client.query<{ count: number }>(
            "SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
          );
          if (rows[0]?.count === count) return;
          assert.ok(Date.now() < deadline, `${rows[0]?.count} wait, not ${count}`);
        }
      });
      await client.query("COMMIT");
    });
  };
  const listOf = (leaf: Issued) =>
    ["SELECT 1 FROM crls WHERE authority_key_id = $1 FOR UPDATE", keyOf(leaf)] as const;
  /** Signing waits for this; reads and writes do not. */
  const busyThreads = () =>
    Promise.all(Array.from({ length: 8 }, () => promisify(pbkdf2)("p", "s", 200_000, 64, "sha512")));

  test("OCSP: revoked while the responder is made, answered as revoked from then on", async () => {
    const leaf = await issue(house.owner, (await aPki(house)).profile.id);
    let asked = Promise.resolve(true);
    // A lock mode that allows reads and not writes: a blocked read pipeline would block others.
    await under(["LOCK TABLE ocsp_signers IN SHARE MODE"], async (waiting) => {
      asked = isGood(leaf);
      await waiting(1);
      await revoke(leaf);
    });
    assert.equal(await asked, false, "the status is read when it can be signed");
    assert.equal(await isGood(leaf), false);
  });

  test("OCSP: answered as good again once it is released from hold, though the hold was cached", async () => {
    const leaf = await issue(house.owner, (await aPki(house)).profile.id);
    ok(
      await house.owner.post(`${CERTS}/${leaf.certificateId}/revoke`, {
        revocationReason: "CERTIFICATE_HOLD",
      }),
    );
    assert.deepEqual([await isGood(leaf), await isGood(leaf)], [false, false]);
    ok(await house.owner.post(`${CERTS}/${leaf.certificateId}/unhold`));
    assert.equal(await isGood(leaf), true);
  });

  test("OCSP: a response that was read before a revocation and signed after it is not cached", async () => {
    const { project, root } = await aPki(house);
    // An authority with constraints signs its answers itself, and with such a key on a thread.
    const limited = await anIntermediate(house.owner, project.id, root.id, {
      keyAlgorithm: "EC_secp384r1",
      nameConstraints: { permitted: [{ type: "dns_name", value: "example.com" }] },
    });
    const profile = await aProfile(house.owner, project.id, limited.id);
    const [first, leaf] = [
      await issue(house.owner, profile.id, { commonName: "a.example.com" }),
      await issue(house.owner, profile.id, { commonName: "b.example.com" }),
    ];
    await isGood(first);
    const busy = busyThreads();
    let isSigned = false;
    const asked = isGood(leaf).finally(() => (isSigned = true));
    await pause(50);
    await revoke(leaf);
    assert.equal(isSigned, false, "the revocation came in between");
    assert.equal(await asked, true, "it was read before");
    assert.equal(await isGood(leaf), false);
    await busy;
  });

  test("a CRL that was read before a revocation and stored after it is followed by one that has it", async () => {
    const leaf = await issue(house.owner, (await aPki(house)).profile.id);
    assert.deepEqual(await listed(leaf), []);
    house.clock.advance(4 * DAY);
    const work: Promise<unknown>[] = [];
    await under(listOf(leaf), async (waiting) => {
      work.push(listed(leaf));
      await waiting(1);
      await revoke(leaf);
      work.push(runJobs());
      await waiting(2);
    });
    await Promise.all(work);
    await runJobs();
    assert.deepEqual(await listed(leaf), [leaf.serialNumber]);
  });

  test("a CRL number is used once: of two who signed at the same moment, one takes the other's", async () => {
    const other = await house.openNode();
    const leaf = await issue(house.owner, (await aPki(house)).profile.id);
    await listed(leaf);
    house.clock.advance(4 * DAY);
    const given = (base: string) =>
      fetch(listUrl(leaf).replace(house.base, base)).then(async (answer) =>
        Buffer.from(await answer.arrayBuffer()),
      );
    const lists: Promise<Buffer>[] = [];
    // Both have read the same number and signed before either is stored.
    await under(listOf(leaf), async (waiting) => {
      lists.push(given(house.base));
      await waiting(1);
      house.clock.advance(2_000);
      lists.push(given(other.base));
      await waiting(2);
    });
    const [first, second] = (await Promise.all(lists)) as [Buffer, Buffer];
    assert.equal(parseCrl(first).number, parseCrl(second).number);
    assert.ok(first.equals(second), "two lists of one number do not differ");
    assert.ok(first.equals(await given(house.base)));
    await other.close();
  });

  for (const [what, lagMillis] of [
    ["a revocation while the list is being signed is in the next one", 0],
    ["so is one of a node whose clock lags", 60_000],
  ] as const)
    test(what, async () => {
      const { profile } = await aPki(house);
      const [one, two] = [await issue(house.owner, profile.id), await issue(house.owner, profile.id)];
      await listed(one);
      await revoke(one);
      let ran: Promise<unknown> = Promise.resolve();
      await under(listOf(one), async (waiting) => {
        ran = runJobs();
        await waiting(1);
        house.clock.advance(-lagMillis);
        await revoke(two);
        house.clock.advance(lagMillis);
      });
      await ran;
      await runJobs();
      assert.deepEqual((await listed(one)).sort(), [one.serialNumber, two.serialNumber].sort());
    });

  test("a change that commits while the mark of the last one is cleared leaves its own", async () => {
    const leaf = await issue(house.owner, (await aPki(house)).profile.id);
    await revoke(leaf);
    let ran: Promise<unknown> = Promise.resolve();
    // As a revocation sets it, the same millisecond included.
    const mark = "UPDATE crl_changes SET at = at WHERE authority_key_id = $1";
    await under([mark, keyOf(leaf)], async (waiting) => {
      ran = runJobs();
      await waiting(1);
    });
    await ran;
    await runJobs();
    assert.equal((await listFor(leaf)).number, 2n, "signed for the revocation, and once more");
    await runJobs();
    assert.equal((await listFor(leaf)).number, 2n, "and then no more");
  });
});
