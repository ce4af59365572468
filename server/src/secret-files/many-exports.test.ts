/** Exports of whole projects take turns: an organisation that asks for many at once waits behind itself. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const CROWD = 24;

async function exported(tenant: Tenant, id: string): Promise<number> {
  const response = await fetch(`${house.base}/api/v1/projects/${id}/export`, {
    method: "POST",
    headers: { authorization: `Bearer ${tenant.token}`, "content-type": "application/json" },
    body: JSON.stringify({ passphrase: "correct horse battery" }),
  });
  await response.arrayBuffer();
  return response.status;
}

test("one organisation's many exports let another's pass", async () => {
  const [busy, other] = [await house.newTenant(), await house.newTenant()];
  const [theirs, ours] = [await aProject(busy), await aProject(other)];
  let served = 0;
  const crowd = Array.from({ length: CROWD }, async () => {
    const status = await exported(busy, theirs.id);
    served += 1;
    return status;
  });
  await Promise.race(crowd);
  assert.equal(await exported(other, ours.id), 200);
  const before = served;
  assert.deepEqual(new Set(await Promise.all(crowd)), new Set([200]));
  assert.ok(before < CROWD / 2, `${before} of ${CROWD} were served before the other's one`);
});
