import assert from "node:assert/strict";
import { test } from "node:test";
import { inventory } from "../../test/alert-receiver.ts";
import { aProject } from "../../test/builders.ts";
import { openTestHouse } from "../../test/harness.ts";

const PATH = "/api/v1/cert-manager/alerts";

test("at the end of a month the total counts what is due, not what is due in hours", async () => {
  const own = await openTestHouse({ start: new Date("2027-02-28T12:00:00Z") });
  try {
    const store = inventory(own.house.database, own.owner.orgId);
    const project = (await aProject(own.owner, { type: "cert-manager" })).id;
    const ends = ["03-28T11:00", "03-29T18:00", "03-30T18:00", "03-31T06:00", "04-01T06:00"];
    for (const end of ends)
      await store.issue({
        projectId: project,
        commonName: end,
        notBefore: own.clock.now(),
        notAfter: new Date(`2027-${end}:00Z`),
      });
    for (const [alertBefore, names] of [
      ["1m", ["03-28T11:00", "03-31T06:00"]],
      ["9999y", ends],
      ["31d", ends.slice(0, 4)],
    ] as const)
      for (const [limit, offset] of [
        [1, 0],
        [1, 1],
        [5, 0],
      ] as const) {
        const wish = { projectId: project, filters: [], alertBefore, limit, offset };
        const { body } = await own.owner.post(`${PATH}/preview/certificates`, wish);
        assert.deepEqual(
          [body.total, body.certificates.map((one: { commonName: string }) => one.commonName)],
          [names.length, names.slice(offset, offset + limit)],
          `${alertBefore} ${limit} ${offset}`,
        );
      }
  } finally {
    await own.close();
  }
});
