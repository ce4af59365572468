import { MAINTENANCE_TURN } from "../../platform/db/index.ts";
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inventory } from "../../../test/alert-receiver.ts";
import { aProject } from "../../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";
import { readDue, type DueWindow } from "./store.ts";

const DAY = 86_400_000;
const DUE = 90;

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

test("however many windows are scanned at once, one answer stays short and nothing is skipped", async () => {
  const now = house.clock.now();
  const store = inventory(house.house.database, house.owner.orgId);
  const projectId = (await aProject(house.owner, { type: "cert-manager" })).id;
  await store.seed(
    Array.from({ length: DUE }, (_, n) => ({
      projectId,
      notBefore: now,
      notAfter: new Date(now.getTime() + DAY + n * 1000),
    })),
  );
  const first: DueWindow = {
    projectId,
    low: now,
    lowId: "ffffffff-ffff-ffff-ffff-ffffffffffff",
    high: new Date(now.getTime() + 2 * DAY),
  };
  let open: DueWindow[] = Array.from({ length: 400 }, () => first);
  let [seen, longest] = [0, 0];
  while (open.length > 0) {
    const asked = open;
    const rows = await house.house.database.read((q) => readDue(q, asked), MAINTENANCE_TURN);
    [seen, longest] = [seen + rows.length, Math.max(longest, rows.length)];
    open = asked.flatMap((window, index) => {
      const own = rows.filter((row) => row.window === index);
      const last = own.at(-1);
      return last?.hasMore ? [{ ...window, low: last.notAfter, lowId: last.id }] : [];
    });
  }
  assert.equal(seen, 400 * DUE);
  assert.ok(longest <= 10_000, String(longest));
});

test("certificates with very many names are read a few at a time, and all of them", async () => {
  const now = house.clock.now();
  const store = inventory(house.house.database, house.owner.orgId);
  const projectId = (await aProject(house.owner, { type: "cert-manager" })).id;
  const san = Array.from({ length: 1000 }, (_, n) => `${n}.`.padEnd(100, `${n}-`));
  await store.seed(
    Array.from({ length: 30 }, (_, n) => ({
      projectId,
      san,
      notBefore: now,
      notAfter: new Date(now.getTime() + DAY + n * 1000),
    })),
  );
  let open: DueWindow | undefined = {
    projectId,
    low: now,
    lowId: "ffffffff-ffff-ffff-ffff-ffffffffffff",
    high: new Date(now.getTime() + 2 * DAY),
  };
  let [seen, longest] = [0, 0];
  while (open) {
    const asked: DueWindow = open;
    const rows = await house.house.database.read((q) => readDue(q, [asked]), MAINTENANCE_TURN);
    [seen, longest] = [seen + rows.length, Math.max(longest, rows.length)];
    const last = rows.at(-1);
    open = last?.hasMore ? { ...asked, low: last.notAfter, lowId: last.id } : undefined;
  }
  assert.equal(seen, 30);
  assert.ok(longest < 30, String(longest));
});
