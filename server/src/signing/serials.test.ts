/**
 * Serial numbers of certificates, issued through the public API by two nodes at once
 * under one CA; and many more that are drawn and reserved as signing does it, without making the certificates.
 * KEYWARD_SERIALS and KEYWARD_RESERVED_SERIALS say how many of each; 100,000 is the full size.
 */
import assert from "node:assert/strict";
import { randomBytes, X509Certificate } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { aPki, issue, type Pki } from "../../test/certificates.ts";
import { clientOf, openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { newId } from "../platform/ids.ts";
import { insertRequest } from "./store.ts";
import { encodeSerial, serialFromRandom } from "@keyward/x509/testing";

const COUNT = Number(process.env["KEYWARD_SERIALS"] ?? 300);
const RESERVED = Number(process.env["KEYWARD_RESERVED_SERIALS"] ?? 5_000);
const AT_ONCE = 16;
const BATCH = 500;

const NOTHING = {
  profileId: null,
  applicationId: null,
  authorityCertificateId: null,
  tbs: null,
  context: null,
  dataKeyId: null,
  sealedKey: null,
  requestDigest: null,
  idempotencyKey: null,
  createdAt: new Date(),
} as const;

describe("serial numbers", () => {
  let house: TestHouse;
  let pki: Pki;
  let second: Awaited<ReturnType<TestHouse["openNode"]>>;
  const serials: string[] = [];

  before(async () => {
    house = await openTestHouse();
    pki = await aPki(house);
    second = await house.openNode();
    const clients = [house.owner, clientOf(second.base, house.owner.token)];
    let left = COUNT;
    await Promise.all(
      Array.from({ length: AT_ONCE }, async (_, worker) => {
        const client = clients[worker % clients.length];
        assert.ok(client);
        while ((left -= 1) >= 0) {
          const { certificate, serialNumber } = await issue(client, pki.profile.id);
          serials.push(serialNumber);
          // Reading every certificate back would take longer than issuing them.
          if (serials.length % 100 === 0)
            assert.equal(new X509Certificate(certificate).serialNumber.toLowerCase(), serialNumber);
        }
      }),
    );
  });
  after(async () => {
    await second.close();
    await house.close();
  });

  test(`${COUNT} certificates have as many serial numbers, positive and of at most 20 octets`, () => {
    assert.equal(serials.length, COUNT);
    assert.equal(new Set(serials).size, COUNT);
    for (const serial of serials) {
      assert.match(serial, /^([0-9a-f]{2}){9,20}$/);
      // In DER the top bit is the sign: below 80 the number is positive without an octet more.
      assert.ok(serial < "80" && !/^(00)+$/.test(serial), serial);
    }
  });

  test(`${RESERVED} reserved under one authority are all different, and one that is taken cannot be reserved again`, async () => {
    const authorityId = newId();
    const reserve = (serialNumbers: readonly string[]) =>
      house.house.database.write(
        async (tx) => {
          for (const serialNumber of serialNumbers)
            insertRequest(tx, {
              ...NOTHING,
              id: newId(),
              certificateId: newId(),
              projectId: pki.project.id,
              authorityId,
              serialNumber,
            });
        },
        { audited: false },
      );
    const drawn: string[] = [];
    while (drawn.length < RESERVED) {
      const some = Array.from({ length: Math.min(BATCH, RESERVED - drawn.length) }, () =>
        serialFromRandom(randomBytes((serials[0] ?? "").length / 2)),
      );
      await reserve(some);
      drawn.push(...some);
    }
    assert.equal(new Set(drawn).size, RESERVED);
    for (const serial of drawn) {
      // What goes into the certificate: tag, length and at most 20 octets, the first without the sign bit.
      const [tag = 0, length = 0, top = 0] = encodeSerial(serial);
      assert.ok(tag === 2 && length >= 9 && length <= 20 && top > 0 && top < 0x80, serial);
    }
    await assert.rejects(reserve([drawn[7] ?? ""]), /certificate_requests_serial_unique|exists|unique/i);
  });

  test("at least 64 of their bits are random", () => {
    const [first = ""] = serials;
    assert.ok(serials.every((serial) => serial.length === first.length));
    const bits = first.length * 4;
    const ones = new Array<number>(bits).fill(0);
    for (const serial of serials) {
      const octets = Buffer.from(serial, "hex");
      for (let bit = 0; bit < bits; bit += 1)
        if (((octets[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1) ones[bit] = (ones[bit] ?? 0) + 1;
    }
    // A fair coin lands within seven standard deviations of the middle; a counter's or a clock's high bits do not.
    const spread = 7 * Math.sqrt(COUNT / 4);
    const fair = ones.filter((count) => Math.abs(count - COUNT / 2) <= spread).length;
    assert.ok(fair >= 64, `${fair} bits look random`);
    // And they differ from one to the next as strangers do: in half of those bits.
    const popcount = (text: string) => [...text].filter((digit) => digit === "1").length;
    let distance = 0;
    for (let at = 1; at < serials.length; at += 1)
      distance += popcount((BigInt(`0x${serials[at]}`) ^ BigInt(`0x${serials[at - 1]}`)).toString(2));
    assert.ok(distance / (serials.length - 1) >= 32, "neighbours are as far apart as 64 coins");
  });

  test("each was recorded under its authority before it was signed, and once", async () => {
    const { database, ...server } = house.database.connection;
    const { rows } = await withClient(server, database, (client) =>
      client.query(
        "SELECT count(*)::int AS count, count(DISTINCT r.serial_number)::int AS serials FROM certificate_requests r JOIN certificates c ON c.id = r.certificate_id AND c.serial_number = r.serial_number WHERE r.profile_id = $1",
        [pki.profile.id],
      ),
    );
    assert.deepEqual(rows, [{ count: COUNT, serials: COUNT }]);
  });
});
