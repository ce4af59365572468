import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { unique } from "../../../test/builders.ts";
import { aPki, issue, ok, type Pki } from "../../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";

const APPLICATIONS = "/api/v1/cert-manager/applications";

describe("applications", () => {
  let house: TestHouse;
  let pki: Pki;
  before(async () => {
    house = await openTestHouse();
    pki = await aPki(house);
  });
  after(() => house.close());

  test("the list says how many certificates and profiles each has", async () => {
    const make = async (profileIds: readonly string[]) =>
      ok(
        await house.owner.post(APPLICATIONS, {
          name: unique("application"),
          projectId: pki.project.id,
          profileIds,
        }),
      ).application;
    const [busy, idle] = [await make([pki.profile.id]), await make([])];
    for (let count = 0; count < 3; count += 1)
      await issue(house.owner, pki.profile.id, {}, { applicationId: busy.id });
    await issue(house.owner, pki.profile.id);
    const { applications } = ok(await house.owner.get(`${APPLICATIONS}?projectId=${pki.project.id}`));
    const counts = (id: string) => {
      const found = applications.find((each: { id: string }) => each.id === id);
      return [found.certificateCount, found.profileCount, found.memberCount];
    };
    assert.deepEqual(
      [counts(busy.id), counts(idle.id)],
      [
        [3, 1, 0],
        [0, 0, 0],
      ],
    );
  });
});
