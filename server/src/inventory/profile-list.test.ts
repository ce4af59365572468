import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import fc from "fast-check";
import { newId } from "../platform/ids.ts";
import { anIdentity, aRole } from "../../test/builders.ts";
import { aPki, issue, ok, type Pki } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { sized } from "../../test/full-size.ts";

const DAY = 86_400_000;
const FIELDS = ["cn", "createdAt", "id", "notAfter", "notBefore", "revokedAt", "serialNumber", "status"];

/** Rows as a bench or a restore would make them, straight into the inventory. */
async function plant(
  house: TestHouse,
  pki: Pki,
  rows: readonly { cn: string; at: Date; end: Date; revokedAt?: Date | null; names?: readonly string[] }[],
): Promise<void> {
  const { database, ...server } = house.database.connection;
  await withClient(server, database, async (client) => {
    for (const row of rows) {
      const [id, serial] = [newId(), newId().replaceAll("-", "")];
      const text = [row.cn, ...(row.names ?? []), serial].join("\n").toLowerCase();
      await client.query(
        `INSERT INTO certificates (id, project_id, profile_id, not_before, not_after, created_at, updated_at, revoked_at, phase, revocation_reason, source, serial_number, common_name, search_text, alt_names, key_fingerprint)
         VALUES ($1, $2, $3, $4, $5, $4, $4, $6, $7, NULL, 'issued', $8, $9, $10, '[]', '')`,
        [
          id,
          pki.project.id,
          pki.profile.id,
          row.at,
          row.end,
          row.revokedAt ?? null,
          row.revokedAt ? 2 : 0,
          serial,
          row.cn,
          text,
        ],
      );
    }
  });
}

describe("operation 1: the certificates of a profile", () => {
  let house: TestHouse;
  let pki: Pki;
  before(async () => {
    house = await openTestHouse();
    pki = await aPki(house);
  });
  after(() => house.close());

  const fresh = () => aPki(house);
  const names = (answer: { body: { certificates: { cn: string }[] } }) =>
    answer.body.certificates.map(({ cn }) => cn);

  test("200: exactly the fields of the contract, newest first, and nothing else", async () => {
    const one = await fresh();
    const first = await issue(one.client, one.profile.id, { commonName: "one.example.com" });
    const second = await issue(one.client, one.profile.id, { commonName: "two.example.com" });
    const { status, body } = await one.list();
    assert.equal(status, 200);
    assert.deepEqual(Object.keys(body), ["certificates"]);
    assert.deepEqual(
      body.certificates.map(({ id }: { id: string }) => id),
      [second.certificateId, first.certificateId],
    );
    for (const each of body.certificates) assert.deepEqual(Object.keys(each).sort(), FIELDS);
    const { serialNumber, cn, status: state, revokedAt, notBefore } = body.certificates[1];
    assert.deepEqual(
      [serialNumber, cn, state, revokedAt],
      [first.serialNumber, "one.example.com", "active", null],
    );
    assert.match(notBefore, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  test("200: past the end, and for a profile without certificates, the list is empty", async () => {
    assert.deepEqual((await pki.list("?offset=500")).body, { certificates: [] });
    assert.deepEqual((await pki.list("?offset=999999999999999")).body, { certificates: [] });
  });

  test("status follows revocation and the clock at the very instant, before any job has run", async () => {
    const one = await fresh();
    const short = await issue(one.client, one.profile.id, { ttl: "1h" });
    const long = await issue(one.client, one.profile.id, { ttl: "30d" });
    const gone = await issue(one.client, one.profile.id, { ttl: "30d" });
    ok(await one.client.post(`/api/v1/cert-manager/certificates/${gone.certificateId}/revoke`, {}));
    const ids = async (status: string) =>
      (await one.list(`?status=${status}`)).body.certificates.map(
        ({ id, status: shown }: { id: string; status: string }) => [id, shown],
      );
    assert.deepEqual(await ids("revoked"), [[gone.certificateId, "revoked"]]);
    assert.deepEqual(await ids("expired"), []);
    assert.deepEqual(await ids("active"), [
      [long.certificateId, "active"],
      [short.certificateId, "active"],
    ]);
    house.clock.advance(3_600_000);
    assert.deepEqual(await ids("expired"), [[short.certificateId, "expired"]]);
    assert.deepEqual(await ids("active"), [[long.certificateId, "active"]]);
    await house.house.jobs.runDue();
    assert.deepEqual(await ids("expired"), [[short.certificateId, "expired"]]);
    assert.deepEqual(await ids("active"), [[long.certificateId, "active"]]);
    assert.deepEqual(await ids("revoked"), [[gone.certificateId, "revoked"]]);
    const all = (await one.list()).body.certificates.map(({ status }: { status: string }) => status);
    assert.deepEqual(all, ["revoked", "active", "expired"]);
  });

  test("search finds parts of the common name, of any alternative name and of the serial number, in any case", async () => {
    const one = await fresh();
    const altNames = [
      { type: "dns_name", value: "Alpha.Example.com" },
      { type: "ip_address", value: "10.1.2.3" },
      { type: "email", value: "ops@example.org" },
    ];
    const { serialNumber } = await issue(one.client, one.profile.id, { commonName: "Front Door", altNames });
    await issue(one.client, one.profile.id, { commonName: "other" });
    for (const term of [
      "front d",
      "FRONT",
      "alpha.ex",
      "ALPHA",
      "10.1.2.3",
      "1.2.",
      "ops@",
      serialNumber.slice(3, 12),
      serialNumber.toUpperCase(),
      "fr",
      "D",
    ]) {
      assert.ok(names(await one.list(`?search=${encodeURIComponent(term)}`)).includes("Front Door"), term);
    }
    for (const term of ["front-door", "doorx", "com 10", "com\n10", "zz"]) {
      assert.ok(!names(await one.list(`?search=${encodeURIComponent(term)}`)).includes("Front Door"), term);
    }
    assert.equal(names(await one.list("?search=")).length, 2, "an empty search is no filter");
  });

  test("%, _ and \\ are plain characters", async () => {
    const one = await fresh();
    for (const commonName of ["100%", "a_b", "axb", "back\\slash", "plain"])
      await issue(one.client, one.profile.id, { commonName, altNames: [] });
    const found = async (term: string) => names(await one.list(`?search=${encodeURIComponent(term)}`)).sort();
    assert.deepEqual(await found("%"), ["100%"]);
    assert.deepEqual(await found("a_b"), ["a_b"]);
    assert.deepEqual(await found("_"), ["a_b"]);
    assert.deepEqual(await found("\\"), ["back\\slash"]);
    assert.deepEqual(await found("k\\s"), ["back\\slash"]);
    assert.deepEqual(await found("%%"), []);
  });

  test("400: malformed is not for a GET; 401, 403, 404, 422 each answer in the envelope", async () => {
    const path = `/api/v1/cert-manager/certificate-profiles/${pki.profile.id}/certificates`;
    const refused = async (
      answer: Promise<{ status: number; body: Record<string, unknown> }>,
      status: number,
      error: string,
    ) => {
      const { status: actual, body } = await answer;
      assert.deepEqual([actual, body["error"], body["statusCode"]], [status, error, status]);
      const allowed = ["reqId", "statusCode", "error", "message", ...(status === 403 ? ["details"] : [])];
      assert.deepEqual(
        Object.keys(body).filter((key) => !allowed.includes(key)),
        [],
      );
    };
    await refused(house.anonymous.get(path), 401, "UnauthorizedError");
    await refused(house.as("nonsense").get(path), 401, "TokenError");
    const { client: stranger } = await anIdentity(pki.client, house.base, pki.project.id);
    await refused(stranger.get(path), 403, "PermissionDenied");
    await refused(pki.client.get(path.replace(pki.profile.id, newId())), 404, "NotFound");
    await refused((await house.newTenant()).get(path), 404, "NotFound");
    for (const query of [
      "limit=0",
      "limit=101",
      "limit=1.5",
      "limit=NaN",
      "limit=-1",
      "limit=1e1",
      "offset=-1",
      "offset=0.5",
      "offset=x",
      "status=valid",
      "status=Active",
      `search=${"x".repeat(257)}`,
      "limit=1&limit=2",
      "status=active&status=active",
      "search=a&search=b",
      "offset=0&offset=0",
    ]) {
      await refused(pki.client.get(`${path}?${query}`), 422, "ValidationFailure");
    }
    await refused(pki.client.get(path.replace(pki.profile.id, "not-a-uuid")), 422, "ValidationFailure");
    assert.equal((await pki.client.get(`${path}/?limit=100&offset=0&status=&unknown=1`)).status, 200);
  });

  test("the right to read may be bound to a profile's slug", async () => {
    const [one, two] = [
      pki,
      ok(
        await pki.client.post("/api/v1/cert-manager/certificate-profiles", {
          caId: pki.root.id,
          certificatePolicyId: pki.profile.certificatePolicyId,
          slug: "second",
          projectId: pki.project.id,
        }),
      ).certificateProfile,
    ];
    const role = await aRole(pki.client, pki.project.id, [
      { subject: "certificate-profiles", action: "read", conditions: { slug: "second" } },
    ]);
    const { client } = await anIdentity(pki.client, house.base, pki.project.id, { roles: [{ role }] });
    assert.equal(
      (await client.get(`/api/v1/cert-manager/certificate-profiles/${two.id}/certificates`)).status,
      200,
    );
    assert.equal(
      (await client.get(`/api/v1/cert-manager/certificate-profiles/${one.profile.id}/certificates`)).status,
      403,
    );
  });

  test("pages neither overlap nor skip, also among rows of one instant, and also past counted blocks", async () => {
    const one = await fresh();
    const now = house.clock.millis();
    const rows = Array.from({ length: 5_300 }, (_, index) => ({
      cn: `host-${index}`,
      at: new Date(now - DAY + Math.floor(index / 7)),
      end: new Date(now + DAY),
    }));
    await plant(house, one, rows);
    const before = new Map<number, string[]>();
    const offsets = [0, 20, 1_990, 2_000, 2_999, 3_000, 4_313, 5_200, 5_280, 5_299, 5_300, 9_000];
    const page = async (offset: number) =>
      (await one.list(`?limit=100&offset=${offset}`)).body.certificates.map(
        ({ id }: { id: string }) => id,
      ) as string[];
    for (const offset of offsets) before.set(offset, await page(offset));
    house.clock.advance(61_000);
    await house.house.jobs.runDue();
    const { database, ...server } = house.database.connection;
    const folded = await withClient(server, database, (client) =>
      client.query("SELECT count(*)::int AS n FROM certificate_blocks WHERE profile_id = $1", [
        one.profile.id,
      ]),
    );
    assert.equal(folded.rows[0].n, 2, "two full blocks were folded");
    for (const offset of offsets)
      assert.deepEqual(await page(offset), before.get(offset), `offset ${offset}`);
    const newest = await issue(one.client, one.profile.id);
    assert.equal((await page(0))[0], newest.certificateId);
    assert.deepEqual(
      (await page(3_001)).slice(0, 99),
      (before.get(3_000) ?? []).slice(0, 99),
      "everything moved by the one that was issued",
    );
    const all = new Set<string>();
    for (let offset = 0; offset <= 5_300; offset += 100) for (const id of await page(offset)) all.add(id);
    assert.equal(all.size, 5_301);
  });

  test("while others are issued, a walk over the pages meets all that were there, each page in order", async () => {
    const one = await fresh();
    const now = house.clock.millis();
    const rows = Array.from({ length: 2_400 }, (_, index) => ({
      cn: `old-${index}`,
      at: new Date(now - DAY + Math.floor(index / 5)),
      end: new Date(now + DAY),
    }));
    await plant(house, one, rows);
    let isWalking = true;
    let issued = 0;
    const issuer = async () => {
      while (isWalking) {
        await issue(one.client, one.profile.id);
        issued += 1;
        // Blocks are folded meanwhile as well.
        if (issued % 20 === 0) {
          house.clock.advance(61_000);
          await house.house.jobs.runDue();
        }
      }
    };
    const issuers = Promise.all([issuer(), issuer(), issuer()]);
    const met = new Set<string>();
    const before = issued;
    try {
      for (let offset = 0, isMore = true; isMore; offset += 50) {
        const { certificates } = ok(await one.list(`?limit=50&offset=${offset}`));
        const keys: string[] = certificates.map(
          (row: { createdAt: string; id: string }) => `${row.createdAt} ${row.id}`,
        );
        assert.deepEqual(keys, [...new Set(keys)].sort().reverse());
        for (const { cn } of certificates) met.add(cn);
        isMore = certificates.length > 0;
      }
    } finally {
      isWalking = false;
      await issuers;
    }
    assert.ok(issued - before > 5, `only ${issued - before} were issued meanwhile`);
    assert.deepEqual(
      rows.filter(({ cn }) => !met.has(cn)),
      [],
    );
  });

  test("whatever the mix, the answer is that of a plain filter over all rows", async () => {
    const now = house.clock.millis();
    const word = fc.constantFrom("api", "Web", "x_y", "50%", "db", "prod");
    const row = fc.record({
      cn: fc.tuple(word, word).map((words) => words.join("-")),
      at: fc.integer({ min: 0, max: 5 }).map((step) => new Date(now - 10 * DAY + step * 1000)),
      end: fc.constantFrom(new Date(now - DAY), new Date(now + 300 * DAY)),
      revokedAt: fc.option(fc.constant(new Date(now - 2 * DAY))),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 25 }), fc.boolean(), async (rows, isSwept) => {
        const one = await fresh();
        await plant(house, one, rows);
        if (isSwept) {
          house.clock.advance(31_000);
          await house.house.jobs.runDue();
        }
        const everything = (await one.list("?limit=100")).body.certificates as {
          id: string;
          cn: string;
          status: string;
          createdAt: string;
          serialNumber: string;
        }[];
        assert.equal(everything.length, rows.length);
        const ordered = [...everything].sort((a, b) =>
          a.createdAt === b.createdAt ? (a.id < b.id ? 1 : -1) : a.createdAt < b.createdAt ? 1 : -1,
        );
        assert.deepEqual(everything, ordered);
        for (const status of ["active", "expired", "revoked", ""]) {
          for (const term of ["", "API", "x_y", "%", "b-p"]) {
            const expected = everything.filter(
              (each) =>
                (status === "" || each.status === status) &&
                (each.cn + "\n" + each.serialNumber).toLowerCase().includes(term.toLowerCase()),
            );
            const answer = await one.list(
              `?status=${status}&search=${encodeURIComponent(term)}&offset=1&limit=3`,
            );
            assert.deepEqual(answer.body.certificates, expected.slice(1, 4), `${status} ${term}`);
          }
        }
      }),
      { numRuns: sized(3, 12) },
    );
  });

  test("a search through the index finds what a scan of every row finds, rare and common, in every status", async () => {
    const one = await fresh();
    const now = house.clock.millis();
    const kinds = ["api", "web", "00000", "a_b%c"];
    const rows = Array.from({ length: 1_600 }, (_, index) => ({
      cn: `${kinds[index % 4]}-${index * 7919}.${index % 3 === 0 ? "prod" : "dev"}.example.com`,
      at: new Date(now - DAY + index * 1000),
      end: new Date(index % 5 === 0 ? now - DAY / 2 : now + DAY),
      revokedAt: index % 11 === 0 ? new Date(now - 1000) : null,
    }));
    await plant(house, one, rows);
    const statusOf = (row: (typeof rows)[number]) =>
      row.revokedAt ? "revoked" : row.end.getTime() <= now ? "expired" : "active";
    const terms = [
      "api-79190.",
      "WEB-",
      "-0.",
      "00000-",
      "a_b%c-",
      "7919",
      "api-x",
      "55433",
      "0.prod",
      "example.com",
      "zebra",
      ".",
      "9",
    ];
    const rare = rows.filter((_, index) => index % 97 === 0).map(({ cn }) => cn.slice(2, 11));
    const look = async (isFolded: boolean) => {
      for (const term of [...terms, ...rare]) {
        for (const status of ["", "active", "expired", "revoked"]) {
          const expected = rows
            .filter(
              (row) =>
                (status === "" || statusOf(row) === status) &&
                row.cn.toLowerCase().includes(term.toLowerCase()),
            )
            .map(({ cn }) => cn)
            .reverse();
          const answer = names(
            await one.list(`?limit=100&search=${encodeURIComponent(term)}&status=${status}`),
          );
          // Serial numbers are searched too, and these are random: what must be there is there, and nothing else by name.
          const byName = answer.filter((cn) => cn.toLowerCase().includes(term.toLowerCase()));
          if (byName.length === answer.length)
            assert.deepEqual(answer, expected.slice(0, 100), `${term} ${status} ${isFolded}`);
          else assert.ok(/^[0-9a-f]+$/i.test(term), term);
        }
      }
    };
    await look(false);
    house.clock.advance(61_000);
    await house.house.jobs.runDue();
    await look(true);
  });
});
