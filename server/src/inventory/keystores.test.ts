/** Encrypting a keystore takes ten thousand rounds; organisations take turns at it. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { anIdentity } from "../../test/builders.ts";
import { aPki, issue } from "../../test/certificates.ts";
import { openTestHouse, type Client, type TestHouse } from "../../test/harness.ts";

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

test("a caller who loses the right while waiting for a keystore gets none, and the key is not decrypted", async () => {
  const { project, profile } = await aPki(house);
  const { certificateId } = await issue(house.owner, profile.id);
  const reader = await anIdentity(house.owner, house.base, project.id, { roles: [{ role: "admin" }] });
  const wish = { format: "pkcs12", password: "correct horse" };
  let served = 0;
  const crowd = Array.from({ length: CROWD }, async () => {
    const path = `/api/v1/cert-manager/certificates/${certificateId}/keystore`;
    const { status } = await reader.client.post(path, wish);
    if (status === 200) served += 1;
    return status;
  });
  await Promise.race(crowd);
  const gone = await house.owner.delete(`/api/v1/projects/${project.id}/identities/${reader.id}`);
  assert.equal(gone.status, 200, JSON.stringify(gone.body));
  const before = served;
  const after = (await Promise.all(crowd)).filter((status) => status === 200).length - before;
  // The one whose turn it was when the right went.
  assert.ok(after <= 2, `${after} were served afterwards, ${before} before`);
});
