import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { anIdentity, aRole, unique } from "../../test/builders.ts";
import { aPki, aProfile, ok, type Pki } from "../../test/certificates.ts";
import { clientOf, openTestHouse, type Client, type TestHouse } from "../../test/harness.ts";

const PROFILES = "/api/v1/cert-manager/certificate-profiles";
const CERTS = "/api/v1/cert-manager/certificates";

describe("certificate profiles", () => {
  let house: TestHouse;
  let pki: Pki;
  before(async () => {
    house = await openTestHouse();
    pki = await aPki(house);
  });
  after(() => house.close());

  const holding = async (rules: readonly Record<string, unknown>[]): Promise<Client> => {
    const role = await aRole(house.owner, pki.project.id, rules);
    return (await anIdentity(house.owner, house.base, pki.project.id, { roles: [{ role }] })).client;
  };

  test("a change keeps what others changed a moment before, on whichever node", async () => {
    const node = await house.openNode();
    const there = clientOf(node.base, house.owner.token);
    try {
      for (let times = 0; times < 15; times += 1) {
        const { id } = await aProfile(house.owner, pki.project.id, pki.root.id);
        ok(await there.get(`${PROFILES}/${id}`));
        ok(await house.owner.patch(`${PROFILES}/${id}`, { description: "told here" }));
        const { certificateProfile } = ok(
          await there.patch(`${PROFILES}/${id}`, { defaults: { ttlDays: 7 } }),
        );
        assert.deepEqual(
          [certificateProfile.description, certificateProfile.defaults],
          ["told here", { ttlDays: 7 }],
        );
      }
    } finally {
      await node.close();
    }
  });

  test("a change of one part of the renewal keeps the others", async () => {
    const { id } = await aProfile(house.owner, pki.project.id, pki.root.id, {
      apiConfig: { autoRenew: true, renewBeforePercent: 20 },
    });
    const patch = async (apiConfig: Record<string, unknown>) => {
      const { autoRenew, renewBeforeDays, renewBeforePercent } = ok(
        await house.owner.patch(`${PROFILES}/${id}`, { apiConfig }),
      ).certificateProfile.apiConfig;
      return [autoRenew, renewBeforeDays, renewBeforePercent];
    };
    assert.deepEqual(await patch({ renewBeforeDays: 10 }), [true, 10, null], "one of the two counts");
    assert.deepEqual(await patch({ autoRenew: false }), [false, 10, null]);
    assert.deepEqual(await patch({ autoRenew: true, renewBeforePercent: 30 }), [true, null, 30]);
    assert.deepEqual(await patch({ renewBeforePercent: null }), [true, null, null]);
    assert.deepEqual(await patch({}), [true, null, null]);
  });

  test("another slug gives nobody a right to the profile that they had not", async () => {
    const [prod, dev] = [unique("prod"), unique("dev")];
    const profile = await aProfile(house.owner, pki.project.id, pki.root.id, { slug: prod });
    const barred = await holding([
      { subject: "certificate-profiles", action: ["read", "edit", "issue-cert"] },
      {
        subject: "certificate-profiles",
        action: "issue-cert",
        inverted: true,
        conditions: { slug: { $glob: "prod-*" } },
      },
    ]);
    const body = { profileId: profile.id, attributes: { commonName: "x" } };
    assert.equal((await barred.post(CERTS, body)).status, 403);
    assert.equal((await barred.patch(`${PROFILES}/${profile.id}`, { slug: dev })).status, 403);
    ok(
      await barred.patch(`${PROFILES}/${profile.id}`, {
        slug: prod,
        description: "the same slug is no other",
      }),
    );
    assert.equal((await barred.post(CERTS, body)).status, 403);
    ok(await house.owner.patch(`${PROFILES}/${profile.id}`, { slug: dev }));
    ok(await barred.post(CERTS, body));
    ok(await barred.patch(`${PROFILES}/${profile.id}`, { slug: unique("other") }));
    assert.equal(
      (await barred.patch(`${PROFILES}/${profile.id}`, { slug: unique("prod") })).status,
      200,
      "a loss is no gain",
    );
  });

  test("what somebody may not see is neither listed nor counted, and pages are full", async () => {
    const one = await aPki(house);
    for (const slug of ["a-hidden", "b-hidden", "c-seen", "d-hidden", "e-seen"])
      await aProfile(house.owner, one.project.id, one.root.id, { slug });
    const role = await aRole(house.owner, one.project.id, [
      { subject: "certificate-profiles", action: "read", conditions: { slug: { $glob: "*-seen" } } },
    ]);
    const { client } = await anIdentity(house.owner, house.base, one.project.id, { roles: [{ role }] });
    const page = async (query: string) => {
      const { certificateProfiles, totalCount } = ok(
        await client.get(`${PROFILES}?projectId=${one.project.id}${query}`),
      );
      return [certificateProfiles.map(({ slug }: { slug: string }) => slug), totalCount];
    };
    assert.deepEqual(await page("&limit=1"), [["c-seen"], 2]);
    assert.deepEqual(await page("&limit=1&offset=1"), [["e-seen"], 2]);
    assert.deepEqual(await page("&search=hidden"), [[], 0]);
  });
});
