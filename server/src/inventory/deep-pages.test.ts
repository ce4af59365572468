/** Pages far down a list that is long enough for blocks and chapters, before, while and after certificates are removed. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type pg from "pg";
import { aPki, issue, ok, type Pki } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { type SlowQuery, MAINTENANCE_TURN } from "../platform/db/index.ts";
import { listOfProfile } from "./store/profile-list.ts";

const ROWS = 133_333;
const CERTS = "/api/v1/cert-manager/certificates";

describe("pages of a long list", () => {
  let house: TestHouse;
  let pki: Pki;
  before(async () => {
    house = await openTestHouse();
    pki = await aPki(house);
    // Seven of the same instant, expired so that they may be removed, the newest two minutes too young for a block.
    await ask(
      `INSERT INTO certificates (id, project_id, profile_id, not_before, not_after, created_at, updated_at, phase, source, serial_number, common_name, search_text, alt_names, key_fingerprint)
       SELECT id, $1, $2, at, at + interval '1 second', at, at, 1, 'issued', md5(g::text), 'host-' || g, 'host-' || g || E'\\n' || md5(g::text), '[]', ''
       FROM (SELECT g, gen_random_uuid() AS id, $3::timestamptz - interval '1 second' * ((${ROWS} - g) / 7) AS at FROM generate_series(1, ${ROWS}) g) x`,
      [pki.project.id, pki.profile.id, house.clock.now()],
    );
    const { certificate } = await issue(house.owner, pki.profile.id);
    await ask(
      `INSERT INTO certificate_bodies (certificate_id, der, details) SELECT id, $1, '{}' FROM certificates WHERE profile_id = $2 ON CONFLICT DO NOTHING`,
      [Buffer.from(certificate.replace(/-----[^-]+-----|\s/g, ""), "base64"), pki.profile.id],
    );
    await fold();
  });
  after(() => house.close());

  const ask = async (text: string, values: unknown[] = []): Promise<pg.QueryResultRow[]> => {
    const { database, ...server } = house.database.connection;
    return (await withClient(server, database, (client) => client.query(text, values))).rows;
  };
  const fold = async () => {
    house.clock.advance(61_000);
    await house.house.jobs.runDue();
  };
  const everything = async () =>
    (
      await ask("SELECT id FROM certificates WHERE profile_id = $1 ORDER BY created_at DESC, id DESC", [
        pki.profile.id,
      ])
    ).map(({ id }) => id as string);
  const page = async (query: string) =>
    ok(await pki.list(query)).certificates.map(({ id }: { id: string }) => id) as string[];
  /** How many rows are newer than each chapter, and than the newest and the oldest blocks: where one ends, another begins. */
  const borders = async (): Promise<number[]> => {
    const rows = await ask(
      `WITH ends AS (
         SELECT until_at, until_id, 0 AS n FROM certificate_chapters WHERE profile_id = $1
         UNION SELECT until_at, until_id, least(rank() OVER (ORDER BY until_at), rank() OVER (ORDER BY until_at DESC)) FROM certificate_blocks WHERE profile_id = $1)
       SELECT DISTINCT (SELECT count(*)::int FROM certificates c WHERE c.profile_id = $1 AND (c.created_at, c.id) > (until_at, until_id)) AS before
       FROM ends WHERE n <= 3 ORDER BY 1`,
      [pki.profile.id],
    );
    return rows.map(({ before }) => before as number);
  };
  const compare = async (what: string) => {
    const all = await everything();
    const offsets = new Set([
      ...(await borders()).flatMap((border) => [border - 1, border, border + 1].filter((n) => n >= 0)),
      0,
      1,
      1_999,
      2_000,
      2_001,
      all.length - 20,
      all.length - 1,
      all.length,
      all.length + 5_000,
    ]);
    for (let turn = 0; turn < 60; turn += 1) offsets.add(Math.floor(Math.random() * all.length));
    for (const offset of offsets)
      assert.deepEqual(
        await page(`?limit=7&offset=${offset}`),
        all.slice(offset, offset + 7),
        `${what}: offset ${offset}`,
      );
  };
  const counts = async () =>
    (
      await ask(
        `SELECT (SELECT count(*)::int FROM certificate_blocks WHERE profile_id = $1) AS blocks, (SELECT count(*)::int FROM certificate_chapters WHERE profile_id = $1) AS chapters,
           (SELECT sum(count)::int FROM certificate_blocks WHERE profile_id = $1 AND (until_at, until_id) <= (SELECT until_at, until_id FROM certificate_chapters WHERE profile_id = $1 ORDER BY 1 DESC, 2 DESC LIMIT 1)) AS "inBlocks",
           (SELECT sum(count)::int FROM certificate_chapters WHERE profile_id = $1) AS "inChapters",
           (SELECT count(*)::int FROM certificates WHERE profile_id = $1 AND (created_at, id) <= (SELECT until_at, until_id FROM certificate_chapters WHERE profile_id = $1 ORDER BY 1 DESC, 2 DESC LIMIT 1)) AS rows`,
        [pki.profile.id],
      )
    )[0];

  test("each is what a walk over all rows would answer", async () => {
    assert.deepEqual(await counts(), {
      blocks: 66,
      chapters: 2,
      inBlocks: 128_000,
      inChapters: 128_000,
      rows: 128_000,
    });
    await compare("folded");
  });

  test("also after removals from the tail, from loose blocks and from chapters, and while more are folded", async () => {
    const all = await everything();
    const gone = [3, 500, 4_000, 5_500, 70_000, 70_001, 132_000, ROWS - 1].map((offset) => all[offset] ?? "");
    // At once with the folding of the rows that have settled meanwhile.
    await Promise.all([fold(), ...gone.map(async (id) => ok(await house.owner.delete(`${CERTS}/${id}`)))]);
    await compare("removed");
    await fold();
    const { inBlocks, inChapters, rows } = (await counts()) ?? {};
    assert.deepEqual([inBlocks, inChapters], [rows, rows]);
    await compare("folded again");
  });

  test("a search for letters that few names hold finds just those, wherever they are, and new ones too", async () => {
    const left = await ask("SELECT count(*)::int AS n FROM certificate_blocks WHERE letters IS NULL");
    assert.deepEqual(left, [{ n: 0 }]);
    const all = await everything();
    const odd = [2, 3_000, 3_001, 9_000, 64_000, 90_000, 133_000].map((offset) => all[offset] ?? "");
    assert.deepEqual(await page("?search=zq"), []);
    assert.deepEqual(await page("?search=%C3%BC"), []);
    // Names do not change; only a test can do so, and it has to say what the blocks hold now.
    await ask("UPDATE certificates SET search_text = 'zqü' || search_text WHERE id = ANY($1)", [odd]);
    await ask("UPDATE certificate_blocks SET letters = NULL");
    assert.deepEqual(await page("?search=ZQ"), odd, "not described yet: everything is walked");
    await fold();
    assert.deepEqual(await page("?search=ZQ"), odd);
    assert.deepEqual(await page("?search=%C3%9C&limit=3&offset=2"), odd.slice(2, 5));
    assert.deepEqual(await page("?search=zq&offset=7"), []);
    assert.deepEqual(await page("?search=zq&status=active"), []);
    const { certificateId } = await issue(house.owner, pki.profile.id, { commonName: "zq.example.com" });
    assert.deepEqual(await page("?search=zq&limit=2"), [certificateId, odd[0]]);
    assert.deepEqual(await page("?search=zq&status=active"), [certificateId]);
    assert.deepEqual(await page("?search=zh"), []);
    assert.deepEqual(await page("?search=%C3%BCh"), odd, "zqühost-1");
  });

  test("a certificate that several remove at once is subtracted once, and the others get an error", async () => {
    const all = await everything();
    const gone = [3_500, 8_000, 66_000, 66_001, 120_000].map((offset) => all[offset] ?? "");
    const answers = await Promise.all(
      gone.flatMap((id) => Array.from({ length: 4 }, () => house.owner.delete(`${CERTS}/${id}`))),
    );
    assert.equal(answers.filter(({ status }) => status === 200).length, gone.length);
    for (const { status } of answers) assert.ok([200, 404].includes(status), String(status));
    const { inBlocks, inChapters, rows } = (await counts()) ?? {};
    assert.deepEqual([inBlocks, inChapters], [rows, rows]);
    await compare("removed by several");
  });

  test("a page is whole though its rows are folded into blocks while it is read", async () => {
    const one = await aPki(house);
    await ask(
      `INSERT INTO certificates (id, project_id, profile_id, not_before, not_after, created_at, updated_at, phase, source, serial_number, common_name, search_text, alt_names, key_fingerprint)
       SELECT gen_random_uuid(), $1, $2, at, at + interval '1 second', at, at, 1, 'issued', md5(g::text), 'h', 'h', '[]', ''
       FROM (SELECT g, $3::timestamptz - interval '1 hour' + interval '1 millisecond' * g AS at FROM generate_series(1, 6500) g) x`,
      [one.project.id, one.profile.id, house.clock.now()],
    );
    // One block first: without any, the list is walked.
    const [{ at, id }] = (await ask(
      "SELECT created_at::text AS at, id FROM certificates WHERE profile_id = $1 ORDER BY created_at, id OFFSET 1999 LIMIT 1",
      [one.profile.id],
    )) as [{ at: string; id: string }];
    await ask(
      "INSERT INTO certificate_blocks (profile_id, until_at, until_id, count) VALUES ($1, $2, $3, 2000)",
      [one.profile.id, at, id],
    );
    // Where the rows that are in no block yet end and the only block begins.
    const ids = (
      await ask("SELECT id FROM certificates WHERE profile_id = $1 ORDER BY created_at DESC, id DESC", [
        one.profile.id,
      ])
    ).map(({ id }) => id as string);
    for (const offset of [4_499, 4_500, 4_501])
      assert.deepEqual(
        ok(await one.list(`?limit=7&offset=${offset}`)).certificates.map(({ id }: { id: string }) => id),
        ids.slice(offset, offset + 7),
        `offset ${offset}`,
      );
    const page = await house.house.database.read((q) => {
      let statements = 0;
      const interrupted: SlowQuery = {
        rows: async (statement, values) => {
          const rows = await q.rows(statement, values);
          if ((statements += 1) === 1) await fold();
          return rows;
        },
        first: (statement, values) => q.first(statement, values),
      };
      return listOfProfile(interrupted, one.profile.id, { offset: 3_000, limit: 20 }, house.clock.now());
    }, MAINTENANCE_TURN);
    assert.equal(page.length, 20);
  });

  test("a deep page of one status is what a walk would answer", async () => {
    const all = await everything();
    const expired = new Set(
      (
        await ask(
          "SELECT id FROM certificates WHERE profile_id = $1 AND revoked_at IS NULL AND not_after <= $2",
          [pki.profile.id, house.clock.now()],
        )
      ).map(({ id }) => id as string),
    );
    const wanted = all.filter((id) => expired.has(id));
    for (const offset of [0, 3, 2_500, 77_777, wanted.length - 3])
      assert.deepEqual(
        await page(`?status=expired&limit=5&offset=${offset}`),
        wanted.slice(offset, offset + 5),
      );
  });
});
