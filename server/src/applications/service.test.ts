import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { anIdentity, aRole, unique } from "../../test/builders.ts";
import { aPki, issue, ok, type Pki } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";

const APPLICATIONS = "/api/v1/cert-manager/applications";

describe("applications", () => {
  let house: TestHouse;
  let pki: Pki;
  before(async () => {
    house = await openTestHouse();
    pki = await aPki(house);
  });
  after(() => house.close());

  test("an application uses profiles of its own project only", async () => {
    const other = await aPki(house);
    const make = (profileIds: readonly string[]) =>
      house.owner.post(APPLICATIONS, {
        name: unique("application"),
        projectId: pki.project.id,
        profileIds,
      });
    assert.equal((await make([pki.profile.id])).status, 200);
    assert.equal((await make([pki.profile.id, other.profile.id])).status, 404);
    assert.equal((await make([randomUUID()])).status, 404);
  });

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

  test("an application gets certificates only under the profiles that are attached to it", async () => {
    const { application } = ok(
      await house.owner.post(APPLICATIONS, { name: unique("application"), projectId: pki.project.id }),
    );
    const ask = () =>
      house.owner.post("/api/v1/cert-manager/certificates", {
        profileId: pki.profile.id,
        applicationId: application.id,
        attributes: { commonName: "x" },
      });
    const refused = await ask();
    assert.equal(refused.status, 400);
    assert.match(refused.body.message, /not attached/);
    const attached = `${APPLICATIONS}/${application.id}/profiles`;
    ok(await house.owner.post(attached, { profileIds: [pki.profile.id] }));
    ok(await ask());
    ok(await house.owner.delete(`${attached}/${pki.profile.id}`));
    assert.equal((await ask()).status, 400);
  });

  test("what somebody may not see is neither listed nor counted, and pages are full", async () => {
    const one = await aPki(house);
    for (const name of ["a-hidden", "b-hidden", "c-seen", "d-hidden", "e-seen"])
      ok(await house.owner.post(APPLICATIONS, { name, projectId: one.project.id }));
    const role = await aRole(house.owner, one.project.id, [
      { subject: "pki-applications", action: "read", conditions: { name: { $glob: "*-seen" } } },
    ]);
    const { client } = await anIdentity(house.owner, house.base, one.project.id, { roles: [{ role }] });
    const page = async (query: string) => {
      const { applications, total } = ok(
        await client.get(`${APPLICATIONS}?projectId=${one.project.id}${query}`),
      );
      return [applications.map(({ name }: { name: string }) => name), total];
    };
    assert.deepEqual(await page("&limit=1"), [["c-seen"], 2]);
    assert.deepEqual(await page("&limit=1&offset=1"), [["e-seen"], 2]);
    assert.deepEqual(await page("&search=hidden"), [[], 0]);
  });

  test("another name gives nobody a right to the application that they had not", async () => {
    const name = unique("prod");
    const { application } = ok(await house.owner.post(APPLICATIONS, { name, projectId: pki.project.id }));
    const role = await aRole(house.owner, pki.project.id, [
      { subject: "pki-applications", action: ["read", "edit", "delete"] },
      {
        subject: "pki-applications",
        action: "delete",
        inverted: true,
        conditions: { name: { $glob: "prod-*" } },
      },
    ]);
    const { client } = await anIdentity(house.owner, house.base, pki.project.id, { roles: [{ role }] });
    const path = `${APPLICATIONS}/${application.id}`;
    assert.equal((await client.delete(path)).status, 403);
    assert.equal((await client.patch(path, { name: unique("free") })).status, 403);
    ok(await client.patch(path, { name: unique("prod"), description: "as bound as before" }));
  });
});
