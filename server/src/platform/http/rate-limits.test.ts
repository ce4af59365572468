import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type pg from "pg";
import { anIdentity, aProject } from "../../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";
import { withClient } from "../../../test/postgres.ts";
import { steppedClock } from "../clock.ts";
import { silentLog } from "../log.ts";
import { createRateLimits } from "./rate-limits.ts";

const PATH = "/api/v1/organization";

describe("rate counts", () => {
  let house: TestHouse;
  const ask = <T>(work: (client: pg.Client) => Promise<T>): Promise<T> =>
    withClient(house.database.server, house.database.connection.database, work);
  const rows = () =>
    ask(
      async (client) =>
        (
          await client.query("SELECT key, count::int FROM rate_limits WHERE window_start = $1 ORDER BY key", [
            new Date(house.clock.millis() - (house.clock.millis() % 60_000)),
          ])
        ).rows as { key: string; count: number }[],
    );
  const countOf = async (bucket: string) =>
    (await rows())
      .filter(({ key }) => key.startsWith(`${bucket}:`))
      .reduce((sum, { count }) => sum + count, 0);
  const busy = async (): Promise<number> => {
    const [measure] = house.house.database.measures;
    return (await measure?.read())?.find(({ of = [] }) => of[0] === "busy")?.value ?? -1;
  };

  before(async () => {
    house = await openTestHouse({
      env: { KEYWARD_RATE_LIMIT_READ: "100", KEYWARD_RATE_LIMIT_ORG_READ: "150" },
      start: new Date("2030-01-01T00:00:10Z"),
    });
  });
  after(() => house.close());

  it("are shared once they could matter, and not before", async () => {
    for (let n = 0; n < 4; n += 1) await house.owner.get(PATH);
    await house.house.rateLimits.share();
    assert.equal(await countOf("read"), 0);
    await house.owner.get(PATH);
    await house.house.rateLimits.share();
    assert.equal(await countOf("read"), 5, "all of them, from the first");
    await house.owner.get(PATH);
    await house.house.rateLimits.share();
    assert.equal(await countOf("read"), 6, "and each one from then on");
  });

  it("F8 P-13 survive a share that fails; however long it takes, no connection for writing is held", async () => {
    house.clock.advance(60_000);
    for (let n = 0; n < 10; n += 1) await house.owner.get(PATH);
    await ask(async (client) => {
      await client.query("BEGIN");
      await client.query("LOCK TABLE rate_limits IN ACCESS EXCLUSIVE MODE");
      const shares = [];
      for (let n = 0; n < 12; n += 1) {
        shares.push(house.house.rateLimits.share());
        await house.owner.get(PATH);
      }
      assert.equal(await busy(), 0);
      const waiting = await client.query(
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      assert.ok((waiting.rowCount ?? 0) <= 1, `${waiting.rowCount} wait for the same rows`);
      const ends = await Promise.allSettled(shares);
      assert.ok(ends.some(({ status }) => status === "rejected"));
      await client.query("ROLLBACK");
    });
    await house.house.rateLimits.share();
    assert.equal(await countOf("read"), 22);
  });

  it("H8 an organisation has a limit beside those of its callers, however many there are", async () => {
    house.clock.advance(60_000);
    const tenant = await house.newTenant();
    const { id: projectId } = await aProject(tenant);
    const clients = [];
    for (let n = 0; n < 2; n += 1) {
      clients.push((await anIdentity(tenant, house.base, projectId)).client);
    }
    house.clock.advance(60_000);
    const seen: string[] = [];
    for (const client of clients)
      for (let n = 0; n < 90; n += 1) {
        const { status, body } = await client.get(PATH);
        seen.push(status === 200 || status === 403 ? "passed" : `${status} ${body.message as string}`);
      }
    assert.equal(seen.filter((one) => one === "passed").length, 150);
    assert.match(seen.at(-1) ?? "", /^429 The organisation's limit of requests per minute is reached\./);
    assert.equal((await house.owner.get(PATH)).status, 200, "another organisation is not touched");
  });

  it("go into the minute they were counted in, though the next one has begun when it is their turn", async () => {
    const clock = steppedClock(new Date("2031-01-01T00:00:59.000Z"));
    const { database } = house.house;
    const limits = createRateLimits({
      limits: { read: 100, write: 0, login: 0, orgRead: 0, orgWrite: 0 },
      db: {
        ...database,
        write: (change, options) => {
          clock.advance(2000);
          limits.count("read", "late");
          return database.write(change, options);
        },
      },
      clock,
      log: silentLog,
    });
    for (let n = 0; n < 50; n += 1) limits.count("read", "late");
    await limits.share();
    const counted = await ask(
      async (client) =>
        (
          await client.query(
            "SELECT extract(minute FROM window_start)::int AS minute, count::int FROM rate_limits WHERE key = 'read:late'",
          )
        ).rows,
    );
    assert.deepEqual(counted, [{ minute: 0, count: 50 }]);
    assert.equal(limits.count("read", "late")?.remaining, 98);
  });
});
