import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { aProject } from "../../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";
import { claimDeliveries, type ClaimedDelivery } from "./store.ts";

const PATH = "/api/v1/cert-manager/alerts";

let house: TestHouse;
let alertId: string;
before(async () => {
  house = await openTestHouse();
  const projectId = (await aProject(house.owner, { type: "cert-manager" })).id;
  const { body } = await house.owner.post(PATH, {
    name: "watch",
    eventType: "issuance",
    filters: [],
    channels: [{ config: { recipients: ["ops@example.com"] } }],
    projectId,
  });
  alertId = body.alert.id;
});
after(() => house.close());

/** So many due deliveries to each of these; the first are due since longest. */
async function fill(destinations: readonly string[], each: number): Promise<void> {
  const text = `
    WITH m AS (INSERT INTO alert_messages SELECT gen_random_uuid(), $1, 'issuance', '{"certificates": []}', 0, $2 FROM generate_series(1, $4) RETURNING id)
    INSERT INTO alert_deliveries (id, alert_id, message_id, channel_id, channel_type, destination, status, next_at, created_at, updated_at)
    SELECT gen_random_uuid(), $1, m.id, $1, 'webhook', d.name, 'pending', $2::timestamptz - interval '1 hour' + d.n * interval '1 second', $2, $2
    FROM m, unnest($3::text[]) WITH ORDINALITY AS d(name, n)`;
  await house.house.database.write(
    (tx) =>
      tx.rows({ name: undefined, isSlow: false, text }, [alertId, house.clock.now(), destinations, each]),
    { audited: false },
  );
}

const claim = (
  limit: number,
  underWay: ReadonlyMap<string, number> = new Map(),
): Promise<ClaimedDelivery[]> =>
  house.house.database.write(
    (tx) =>
      claimDeliveries(tx, {
        now: house.clock.now(),
        until: new Date(house.clock.millis() + 60_000),
        underWay,
        sending: [],
        perDestination: 4,
        limit,
      }),
    { audited: false },
  );

test("an organisation with very many receivers does not take every slot from another", async () => {
  const [noisy, quiet] = [randomUUID(), randomUUID()];
  const crowd = Array.from({ length: 300 }, (_, n) => `${noisy}/${n}.example`);
  await fill([...crowd, `${quiet}/one.example`, `${noisy}/zzz.example`], 6);
  const first = await claim(256);
  assert.equal(first.length, 256);
  const counts = new Map<string, number>();
  for (const { destination } of first) counts.set(destination, (counts.get(destination) ?? 0) + 1);
  assert.equal(counts.get(`${quiet}/one.example`), 4);
  assert.ok([...counts.values()].every((count) => count <= 4));
  // All those are still in flight; a few slots become free.
  counts.set(`${quiet}/one.example`, 1);
  const next = await claim(3, counts);
  // What is left of the quiet one goes before the others, who have two hundred and fifty in flight.
  assert.deepEqual(
    next.map(({ destination }) => destination),
    [`${quiet}/one.example`, `${quiet}/one.example`, next[2]?.destination],
  );
});
