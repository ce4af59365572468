/** Sealing a keystore takes ten thousand rounds; organisations take turns at it. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aPki, issue } from "../../../test/certificates.ts";
import { openTestHouse, type Client, type TestHouse } from "../../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const CROWD = 40;

test("one organisation's many keystores let another's pass", async () => {
  const other = await house.newTenant();
  const [theirs, ours] = [await aPki(house), await aPki({ ...house, owner: other })];
  const [busy, one] = [await issue(house.owner, theirs.profile.id), await issue(other, ours.profile.id)];
  const keystoreOf = async (client: Client, id: string) =>
    (
      await client.post(`/api/v1/cert-manager/certificates/${id}/keystore`, {
        format: "pkcs12",
        password: "correct horse",
      })
    ).status;
  let served = 0;
  const crowd = Array.from({ length: CROWD }, async () => {
    const status = await keystoreOf(house.owner, busy.certificateId);
    served += 1;
    return status;
  });
  await Promise.race(crowd);
  assert.equal(await keystoreOf(other, one.certificateId), 200);
  const before = served;
  assert.deepEqual(new Set(await Promise.all(crowd)), new Set([200]));
  assert.ok(before < CROWD / 2, `${before} of ${CROWD} were served before the other's one`);
});
