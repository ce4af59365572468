/** An RSA key takes long; a caller who loses the right meanwhile gets no certificate. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { anIdentity } from "../../test/builders.ts";
import { aPki, issue } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const CROWD = 16;

test("a caller who loses the right while waiting for a key is issued nothing", async () => {
  const { project, profile, list } = await aPki(house);
  const { client, id } = await anIdentity(house.owner, house.base, project.id, {
    roles: [{ role: "admin" }],
  });
  const crowd = Array.from({ length: CROWD }, () =>
    issue(client, profile.id, { keyAlgorithm: "RSA_2048" }).catch(() => undefined),
  );
  await Promise.race(crowd);
  assert.equal((await house.owner.delete(`/api/v1/projects/${project.id}/identities/${id}`)).status, 200);
  const issued = async () => ((await list("?limit=100")).body.certificates as unknown[]).length;
  const before = await issued();
  await Promise.all(crowd);
  const late = (await issued()) - before;
  assert.ok(before < CROWD, "all were issued before the right went");
  assert.ok(late <= 2, `${late} were issued afterwards, ${before} before`);
});
