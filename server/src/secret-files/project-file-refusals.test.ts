/** A whole project in one file: what is refused, and what a damaged file gives away (nothing). */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../test/harness.ts";
import { exported as exportedFrom, ok, passphrase, taken } from "../../test/project-files.ts";
import { openArchive, sealArchive } from "./service/seal-archive.ts";
import { fullOnly, sized } from "../../test/full-size.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const exported = (tenant: Tenant, id: string, more: Record<string, unknown> = {}) =>
  exportedFrom(house.base, tenant, id, more);

test("R-08 a file in which any one bit is different, or that was cut, is refused as a whole", async () => {
  const content = {
    project: { name: "p", slug: "p" },
    environments: [{ slug: "dev", name: "Dev" }],
    tags: [],
    folders: [],
    secrets: [],
    imports: [],
    roles: [],
  };
  const file = await sealArchive(content, passphrase);
  assert.deepEqual((await openArchive(file, passphrase)).environments, content.environments);
  const refused = async (bytes: Buffer, what: string) =>
    assert.rejects(openArchive(bytes, passphrase), /cannot be opened/, what);
  const head = file.indexOf("\n") + 1;
  // Every byte of the head (in the small run every fourth), and of the box those that are something of their own: nonce, first, last, tag.
  const inBox = [0, 1, 11, 12, 13, 27, 28, 29, 40].map((at) => head + at);
  const places = [
    ...Array.from({ length: head }, (_, at) => at).filter((at) => at % sized(4, 1) === 0),
    ...inBox,
    file.length - 17,
    file.length - 1,
  ];
  for (const at of places) {
    const torn = Buffer.from(file);
    torn[at] = (torn[at] ?? 0) ^ (1 << (at % 8));
    await refused(torn, `a flipped bit in byte ${at} of ${file.length}`);
  }
  for (const length of [0, 1, head - 1, head, head + 12, file.length - 1])
    await refused(file.subarray(0, length), `cut to ${length}`);
  await refused(Buffer.concat([file, Buffer.from([0])]), "one byte more");
});

test("what a file holds must be what could have been typed in", async () => {
  const { id } = await aProject(house.owner);
  const base = {
    project: { name: "p", slug: "p" },
    environments: [{ slug: "dev", name: "Dev" }],
    tags: [{ slug: "t", name: "T", color: "" }],
    folders: [],
    secrets: [],
    imports: [],
    roles: [],
  };
  const secret = {
    environment: "dev",
    path: "/",
    key: "K",
    value: "v",
    comment: "",
    metadata: [],
    tags: [],
    skipMultiline: null,
    reminderNote: null,
    reminderDays: null,
  };
  const version = {
    ...secret,
    version: 1,
    change: "create" as const,
    at: "2026-01-01T00:00:00.000Z",
    by: "x",
  };
  const bad = [
    { ...base, environments: [{ slug: "No Slug", name: "x" }] },
    { ...base, tags: [{ slug: "a b", name: "x", color: "" }] },
    { ...base, folders: [{ environment: "dev", path: "/../x", description: null }] },
    { ...base, secrets: [{ ...secret, key: "a/b" }] },
    { ...base, secrets: [{ ...secret, value: "x".repeat(1024 * 1024 + 1) }] },
    { ...base, roles: [{ slug: "r", name: "R", permissions: [{ subject: "no such", action: "read" }] }] },
    { ...base, roles: [{ slug: "r", name: "R", permissions: ["x".repeat(1024 * 1024)] }] },
    {
      ...base,
      secrets: [
        {
          ...secret,
          history: {
            createdAt: "2026-01-01T00:00:00.000Z",
            versions: [version, { ...version, version: 3 }],
          },
        },
      ],
    },
  ];
  for (const [at, content] of bad.entries()) {
    const answer = await taken(house.owner, id, await sealArchive(content, passphrase), { dryRun: true });
    const said = `file ${at}: ${JSON.stringify(answer.body)}`;
    if (at === bad.length - 1) assert.equal(answer.status, 400, said);
    else {
      assert.equal(answer.status, 422, said);
      assert.equal(answer.body.message[0].path[0], "file", said);
    }
  }
  assert.equal(
    (await taken(house.owner, id, await sealArchive({ ...base, secrets: [secret] }, passphrase))).status,
    200,
  );
});

test("an export that no import would take is refused", { skip: fullOnly }, async () => {
  const tenant = await house.newTenant();
  const { id } = await aProject(tenant);
  for (const environment of ["dev", "staging"]) {
    for (let batch = 0; batch < 4; batch += 1) {
      const secrets = Array.from({ length: 7 }, (_, n) => ({
        secretKey: `S${batch}_${n}`,
        secretValue: "x".repeat(1_000_000),
      }));
      ok(await tenant.post("/api/v4/secrets/batch", { projectId: id, environment, secrets }));
    }
  }
  const refused = await tenant.post(`/api/v1/projects/${id}/export`, { passphrase });
  assert.equal(refused.status, 400, JSON.stringify(refused.body).slice(0, 300));
  await exported(tenant, id, { environments: ["dev"] });
});
