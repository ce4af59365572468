/**
 * M3: the same question by every way that shows a certificate. Whatever rules a caller holds about certificates, the
 * lists, searches, previews and single reads agree on which there are, and with a literal reading of the rules.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import { compileRules, type Rule } from "../../src/permissions/index.ts";
import { anIdentity, aRole } from "../builders.ts";
import { aPki, issue, ok, type Pki } from "../certificates.ts";
import { openTestHouse, type Client, type TestHouse } from "../harness.ts";
import { sized } from "../full-size.ts";

const CM = "/api/v1/cert-manager";
const LISTS: readonly Rule[] = [
  { subject: "certificate-profiles", action: "read" },
  { subject: "pki-alerts", action: ["read", "create"] },
];
const HOSTS = ["a.dev.test", "b.dev.test", "admin.dev.test", "a.prod.test", "b.prod.test", "*.prod.test"];

interface Made {
  readonly id: string;
  readonly attributes: Readonly<
    Record<string, string | readonly string[] | readonly { key: string; value: string }[]>
  >;
}

const scalar = fc.oneof(
  fc.constantFrom(...HOSTS.map((name) => ({ $eq: name }))),
  fc.constantFrom(...["*.dev.test", "a.*", "*prod*", "*"].map(($glob) => ({ $glob }))),
  fc.subarray(HOSTS, { minLength: 1 }).map(($in) => ({ $in })),
  fc.constantFrom(...HOSTS).map(($ne) => ({ $ne })),
);
const conditions = fc.record(
  {
    commonName: scalar,
    altNames: scalar,
    friendlyName: fc.constantFrom({ $eq: "blue" }, { $ne: "blue" }),
    status: fc.constantFrom({ $eq: "active" }, { $eq: "revoked" }),
    metadata: fc.constant({ $elemMatch: { key: { $eq: "team" }, value: { $eq: "blue" } } }),
  },
  { requiredKeys: [] },
);
const ruleOf = (inverted: boolean): fc.Arbitrary<Rule> =>
  conditions.map((given) => ({
    subject: "certificates",
    action: ["read"],
    ...(Object.keys(given).length === 0 ? {} : { conditions: given }),
    inverted,
  }));

describe("M3 every way to a certificate", () => {
  let house: TestHouse;
  let pki: Pki;
  let reader: { id: string; client: Client };
  let roleId: string;
  let alertId: string;
  const made: Made[] = [];

  before(async () => {
    house = await openTestHouse();
    pki = await aPki(house);
    for (const [index, name] of HOSTS.entries()) {
      const isBlue = index % 2 === 0;
      const issued = await issue(
        house.owner,
        pki.profile.id,
        { commonName: name, altNames: [{ type: "dns_name", value: name }], ttl: "10d" },
        isBlue ? { friendlyName: "blue", metadata: [{ key: "team", value: "blue" }] } : {},
      );
      const { certificate } = ok(await house.owner.get(`${CM}/certificates/${issued.certificateId}`));
      made.push({
        id: issued.certificateId,
        attributes: {
          commonName: name,
          altNames: [name],
          serialNumber: certificate.serialNumber,
          friendlyName: isBlue ? "blue" : "",
          status: "active",
          metadata: certificate.metadata,
        },
      });
    }
    const alert = await house.owner.post(`${CM}/alerts`, {
      name: "all",
      projectId: pki.project.id,
      eventType: "expiration",
      alertBefore: "30d",
      filters: [],
      channels: [{ channelType: "email", config: { recipients: ["a@example.com"] }, enabled: true }],
    });
    alertId = ok(alert, "creating an alert").alert.id;
    const role = await aRole(house.owner, pki.project.id, LISTS);
    reader = await anIdentity(house.owner, house.base, pki.project.id, { roles: [{ role }] });
    roleId = ok(await house.owner.get(`/api/v1/projects/${pki.project.id}/roles/slug/${role}`)).role.id;
  });
  after(() => house.close());

  const give = async (rules: readonly Rule[]): Promise<void> => {
    ok(
      await house.owner.patch(`/api/v1/projects/${pki.project.id}/roles/${roleId}`, {
        permissions: [...LISTS, ...rules],
      }),
    );
  };
  const ours = (ids: readonly string[]): string[] => made.flatMap(({ id }) => (ids.includes(id) ? [id] : []));
  const idsOf = (rows: readonly { id: string }[]): string[] => ours(rows.map(({ id }) => id));

  const pages = async (read: (offset: number) => Promise<readonly { id: string }[]>): Promise<string[]> => {
    const met: { id: string }[] = [];
    for (let offset = 0; ; offset += 2) {
      const rows = await read(offset);
      met.push(...rows);
      if (rows.length < 2) return idsOf(met);
    }
  };
  const searched = async (): Promise<string[] | 403> => {
    const met: { id: string }[] = [];
    for (let cursor = ""; ;) {
      const path = `/api/v1/projects/${pki.project.id}/certificates/search?limit=2${cursor && `&cursor=${cursor}`}`;
      const { status, body } = await reader.client.get(path);
      if (status === 403) return 403;
      assert.equal(status, 200);
      met.push(...body.certificates);
      if (body.nextCursor === null) return idsOf(met);
      const inside = Buffer.from(body.nextCursor, "base64url").toString("latin1");
      for (const { id } of made) assert.ok(!inside.includes(id), "a cursor names nobody");
      cursor = body.nextCursor;
    }
  };
  const oneByOne = async (path: string): Promise<string[]> => {
    const met: string[] = [];
    for (const { id } of made) {
      const { status } = await reader.client.get(`${CM}/certificates/${id}${path}`);
      assert.ok(status === 200 || status === 403, String(status));
      if (status === 200) met.push(id);
    }
    return met;
  };
  const listed = () =>
    pages(
      async (offset) =>
        ok(
          await reader.client.get(
            `${CM}/certificate-profiles/${pki.profile.id}/certificates?limit=2&offset=${offset}`,
          ),
        ).certificates,
    );
  const found = () =>
    pages(
      async (offset) =>
        ok(
          await reader.client.get(
            `${CM}/certificate-profiles/${pki.profile.id}/certificates?limit=2&search=test&offset=${offset}`,
          ),
        ).certificates,
    );
  const ofAlert = async () => {
    const all = ok(await reader.client.get(`${CM}/alerts/${alertId}/certificates?limit=100`));
    assert.equal(all.total, all.certificates.length, "what is hidden is not counted");
    return pages(
      async (offset) =>
        ok(await reader.client.get(`${CM}/alerts/${alertId}/certificates?limit=2&offset=${offset}`))
          .certificates,
    );
  };
  const previewed = async () => {
    const wish = { projectId: pki.project.id, filters: [], alertBefore: "30d", limit: 100 };
    return idsOf(ok(await reader.client.post(`${CM}/alerts/preview/certificates`, wish)).certificates);
  };

  it("agrees on what there is, whatever the rules say", async () => {
    const seen = { all: 0, some: 0, none: 0 };
    const rules = fc
      .tuple(
        fc.array(ruleOf(false), { minLength: 1, maxLength: 2 }),
        fc.array(ruleOf(true), { maxLength: 2 }),
      )
      .map((both) => both.flat());
    await fc.assert(
      fc.asyncProperty(rules, async (given) => {
        await give(given);
        const ability = compileRules(given);
        const expected = made.flatMap(({ id, attributes }) =>
          ability.can("read", "certificates", attributes) ? [id] : [],
        );
        const isPossible = ability.can("read", "certificates");
        assert.deepEqual(await searched(), isPossible ? expected : 403, "search");
        for (const [way, ids] of [
          ["profile list", await listed()],
          ["profile search", await found()],
          ["alert", await ofAlert()],
          ["preview", await previewed()],
          ["one by one", await oneByOne("")],
          ["body", await oneByOne("/certificate")],
          ["bundle", await oneByOne("/bundle")],
        ] as const)
          assert.deepEqual(ids, expected, `${way}: ${JSON.stringify(given)}`);
        const calendar = await reader.client.post(`${CM}/alerts/calendars`, { projectId: pki.project.id });
        assert.equal(calendar.status, ability.can("read", "certificates", {}) ? 200 : 403, "calendar");
        seen[expected.length === 0 ? "none" : expected.length === made.length ? "all" : "some"] += 1;
      }),
      { numRuns: sized(7, 25) },
    );
    // Of a few random ones none may be of that kind.
    assert.ok(seen.some > sized(-1, 3), JSON.stringify(seen));
  });

  it("is open by the list's own right where no rule speaks of certificates, and a denial holds there, too", async () => {
    await give([]);
    const all = made.map(({ id }) => id);
    assert.deepEqual(await listed(), all);
    assert.deepEqual(await previewed(), all);
    assert.equal(await searched(), 403);
    await give([
      {
        subject: "certificates",
        action: "read",
        inverted: true,
        conditions: { commonName: { $glob: "*.prod.test" } },
      },
    ]);
    const open = made.flatMap(({ id, attributes }) =>
      /prod/.test(String(attributes["commonName"])) ? [] : [id],
    );
    assert.deepEqual(await listed(), open);
    assert.deepEqual(await previewed(), open);
    assert.deepEqual(await ofAlert(), open);
  });
});

describe("M4 a certificate from elsewhere under a profile", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse();
  });
  after(() => house.close());

  it("takes the right to have one issued there", async () => {
    const [pki, elsewhere] = [await aPki(house), await aPki(house)];
    const foreign = await issue(house.owner, elsewhere.profile.id);
    const role = await aRole(house.owner, pki.project.id, [
      { subject: "certificates", action: ["import", "read"] },
      { subject: "certificate-profiles", action: "read" },
    ]);
    const importer = await anIdentity(house.owner, house.base, pki.project.id, { roles: [{ role }] });
    const body = {
      certificatePem: foreign.certificate,
      privateKeyPem: foreign.privateKey,
      projectId: pki.project.id,
    };
    const path = `${CM}/certificates/import-certificate`;
    assert.equal((await importer.client.post(path, { ...body, profileId: pki.profile.id })).status, 403);
    assert.equal((await importer.client.post(path, body)).status, 200, "and none to keep one beside them");
    assert.equal((await house.owner.post(path, { ...body, profileId: pki.profile.id })).status, 200);
  });
});
