/** A whole project in one file: what travels, what the dry run promises, and what a damaged file gives away (nothing). */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { aProject, anIdentity, aRole } from "../../../test/builders.ts";
import {
  openTestHouse,
  type Answer,
  type Client,
  type Tenant,
  type TestHouse,
} from "../../../test/harness.ts";
import { planImport } from "./model.ts";
import { openArchive, sealArchive } from "./service/seal-archive.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

// Many projects one after the other: on a busy machine this takes longer than a test usually may.
const LONG = { timeout: 900_000 };
const passphrase = "correct horse battery";
const ok = (answer: Answer) => {
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};

async function exported(tenant: Tenant, id: string, more: Record<string, unknown> = {}): Promise<Buffer> {
  const response = await fetch(`${house.base}/api/v1/projects/${id}/export`, {
    method: "POST",
    headers: { authorization: `Bearer ${tenant.token}`, "content-type": "application/json" },
    body: JSON.stringify({ passphrase, ...more }),
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  assert.equal(response.status, 200, bytes.toString("utf8").slice(0, 500));
  return bytes;
}
const taken = (client: Client, id: string, file: Buffer, more: Record<string, unknown> = {}) =>
  client.post(`/api/v1/projects/${id}/import`, { passphrase, file: file.toString("base64"), ...more });

/** A project as its own file tells it, without what differs by nature. */
async function told(tenant: Tenant, id: string) {
  const file = await openArchive(await exported(tenant, id, { includeRoles: true }), passphrase);
  const sorted = <T>(list: readonly T[], nameOf: (one: T) => string) =>
    [...list].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  return {
    environments: sorted(file.environments, (one) => one.slug),
    tags: sorted(file.tags, (one) => one.slug),
    folders: sorted(file.folders, (one) => `${one.environment}:${one.path}`),
    secrets: sorted(
      file.secrets.map((one) => ({ ...one, tags: [...one.tags].sort() })),
      (one) => `${one.environment}:${one.path}:${one.key}`,
    ),
    imports: file.imports,
    roles: sorted(file.roles, (one) => one.slug),
  };
}

async function aFullProject(tenant: Tenant) {
  const [{ id }, other] = [await aProject(tenant), await aProject(tenant, { slug: "shared-things" })];
  ok(await tenant.post(`/api/v1/projects/${id}/environments`, { name: "Quality", slug: "qa" }));
  const { tag } = ok(
    await tenant.post(`/api/v1/projects/${id}/tags`, { slug: "db", name: "DB", color: "red" }),
  );
  ok(
    await tenant.post("/api/v2/folders", {
      projectId: id,
      environment: "qa",
      path: "/a",
      name: "b",
      description: "deep",
    }),
  );
  const at = { projectId: id, environment: "qa", secretPath: "/a/b" };
  ok(
    await tenant.post("/api/v4/secrets/OLD_NAME", {
      ...at,
      secretValue: "first",
      secretComment: "why",
      secretMetadata: [
        { key: "team", value: "core" },
        { key: "pin", value: "1234", isEncrypted: true },
      ],
      tagIds: [tag.id],
      skipMultilineEncoding: true,
      secretReminderNote: "soon",
      secretReminderRepeatDays: 7,
    }),
  );
  house.clock.advance(60_000);
  ok(
    await tenant.patch("/api/v4/secrets/OLD_NAME", { ...at, newSecretName: "KEY", secretValue: "${dev.H}" }),
  );
  ok(await tenant.post("/api/v4/secrets/H", { projectId: id, environment: "dev", secretValue: "host" }));
  const add = (from: Record<string, unknown>) =>
    tenant.post("/api/v2/secret-imports", { projectId: id, environment: "dev", import: from });
  ok(await add({ sourceProjectId: other.id, environment: "prod", path: "/" }));
  ok(await add({ environment: "qa", path: "/a/b" }));
  ok(await add({ environment: "prod", path: "/" }));
  await aRole(tenant, id, [
    { subject: "secrets", action: ["readValue"], conditions: { environment: { $eq: "qa" } } },
  ]);
  return id;
}

test("R-09 everything travels: tree, references, imports in their order, tags, reminders, roles and history", async () => {
  const source = await house.newTenant();
  const target = await house.newTenant();
  const from = await aFullProject(source);
  const { id: into } = await aProject(target);
  const file = await exported(source, from, { includeHistory: true, includeRoles: true });

  const lonely = ok(await taken(target, into, file, { dryRun: true }));
  assert.deepEqual(lonely.imports.unresolved, ["dev:/ ← shared-things:prod:/"]);
  assert.deepEqual([lonely.versions, lonely.roles.created.length, lonely.secrets.created.length], [1, 1, 2]);
  await aProject(target, { slug: "shared-things" });
  const dry = ok(await taken(target, into, file, { dryRun: true }));
  assert.deepEqual(dry.imports.unresolved, []);
  assert.deepEqual(dry.imports.created, [
    "dev:/ ← shared-things:prod:/",
    "dev:/ ← qa:/a/b",
    "dev:/ ← prod:/",
  ]);
  const done = ok(await taken(target, into, file));
  assert.deepEqual(done, { ...dry, dryRun: false });
  assert.deepEqual(await told(target, into), await told(source, from));

  const { secret } = ok(
    await target.get(`/api/v4/secrets/KEY?projectId=${into}&environment=qa&secretPath=/a/b`),
  );
  assert.deepEqual([secret.secretValue, secret.version], ["host", 2]);
  const { versions } = ok(await target.get(`/api/v4/secrets/id/${secret.id}/versions`));
  assert.deepEqual(
    versions.map((v: Record<string, unknown>) => [
      v["version"],
      v["secretKey"],
      v["secretValue"],
      v["secretComment"],
    ]),
    [
      [2, "KEY", "${dev.H}", "why"],
      [1, "OLD_NAME", "first", "why"],
    ],
  );
  const then = versions[1];
  const listed = ok(await source.get(`/api/v4/secrets?projectId=${from}&environment=qa&recursive=true`));
  const original = ok(await source.get(`/api/v4/secrets/id/${listed.secrets[0].id}/versions`)).versions[1];
  assert.deepEqual([then.createdAt, secret.createdAt], [original.createdAt, original.createdAt]);
  assert.deepEqual([then.actor.actorType, then.actor.actorId], ["imported", null]);
  assert.equal(then.secretMetadata[1].value, "1234");
  const back = ok(await target.post(`/api/v4/secrets/id/${secret.id}/rollback`, { version: 1 })).secret;
  assert.deepEqual([back.secretValue, back.version, back.secretReminderRepeatDays], ["first", 3, 7]);
});

test("history that came in a file does not make a rollback bring back what was never here", async () => {
  const source = await house.newTenant();
  const target = await house.newTenant();
  const from = await aFullProject(source);
  house.clock.advance(3_600_000);
  const { id: into } = await aProject(target, { slug: "shared-things" });
  ok(await target.post(`/api/v1/projects/${into}/environments`, { name: "Quality", slug: "qa" }));
  ok(await target.post("/api/v2/folders", { projectId: into, environment: "qa", path: "/a", name: "b" }));
  house.clock.advance(60_000);
  const before = house.clock.now().toISOString();
  house.clock.advance(60_000);
  ok(await taken(target, into, await exported(source, from, { includeHistory: true })));
  const back = ok(
    await target.post(`/api/v1/projects/${into}/secrets/rollback`, {
      environment: "qa",
      secretPath: "/",
      recursive: true,
      at: before,
    }),
  );
  assert.deepEqual(
    back.changes.map(
      (one: Record<string, unknown>) => `${one["change"] as string} ${one["secretKey"] as string}`,
    ),
    ["delete KEY"],
  );
});

test("an import that was made from the target itself becomes its own, and what would import itself is left out", async () => {
  const tenant = await house.newTenant();
  const [one, two] = [await aProject(tenant), await aProject(tenant)];
  const add = (environment: string) =>
    tenant.post("/api/v2/secret-imports", {
      projectId: one.id,
      environment: "dev",
      import: { sourceProjectId: two.id, environment, path: "/" },
    });
  ok(await add("dev"));
  ok(await add("prod"));
  const file = await exported(tenant, one.id);
  const done = ok(await taken(tenant, two.id, file));
  assert.deepEqual(done.imports.created, ["dev:/ ← prod:/"]);
  assert.deepEqual(done.imports.unresolved, ["dev:/ ← dev:/"]);
  const again = ok(await taken(tenant, two.id, file));
  assert.deepEqual([again.imports.created, again.imports.unchanged], [[], 1]);
});

test("whoever lacks a right for any of it changes nothing at all, and the dry run says so too", async () => {
  const source = await house.newTenant();
  const from = await aFullProject(source);
  const file = await exported(source, from, { includeRoles: true, includeHistory: true });
  const { id: into } = await aProject(source);
  const all = { action: ["read", "create", "edit", "delete"] };
  const role = await aRole(source, into, [
    { subject: "secrets", action: ["read", "create", "edit"] },
    { subject: "secret-folders", ...all },
    { subject: "environments", ...all },
    { subject: "tags", ...all },
    { subject: "role", ...all },
  ]);
  const helper = await anIdentity(source, house.base, into, { roles: [{ role }] });
  const before = await told(source, into);
  for (const dryRun of [true, false])
    assert.equal((await taken(helper.client, into, file, { dryRun })).status, 403, `dry: ${dryRun}`);
  assert.deepEqual(await told(source, into), before);
});

test("a dry run tells nobody of folders and imports that they may not see", async () => {
  const { id: into } = await aProject(house.owner);
  const at = { projectId: into, environment: "dev" };
  for (const name of ["hidden", "source"]) ok(await house.owner.post("/api/v2/folders", { ...at, name }));
  const source = { environment: "dev", path: "/source" };
  ok(await house.owner.post("/api/v2/secret-imports", { ...at, path: "/hidden", import: source }));
  const rules = (action: readonly string[]) => [
    { subject: "secrets", action: ["describeSecret", "create"] },
    { subject: "secrets", action: "readValue", conditions: { secretPath: { $eq: "/guess" } } },
    { subject: "tags", action: "read" },
    { subject: ["secret-folders", "secret-imports"], action: [...action, "create", "edit"] },
  ];
  const someone = async (action: readonly string[]) => {
    const role = await aRole(house.owner, into, rules(action));
    return (await anIdentity(house.owner, house.base, into, { roles: [{ role }] })).client;
  };
  const content = {
    project: { name: "p", slug: "p" },
    environments: [{ slug: "dev", name: "Development" }],
    tags: [],
    folders: ["/hidden", "/guess"].map((path) => ({ environment: "dev", path, description: null })),
    secrets: [],
    imports: ["/source", "/nothing"].map((sourcePath) => ({
      environment: "dev",
      path: "/hidden",
      sourceProject: null,
      sourceEnvironment: "dev",
      sourcePath,
      isReplication: false,
    })),
    roles: [],
  };
  const file = await sealArchive(content, passphrase);
  const blind = ok(await taken(await someone([]), into, file, { dryRun: true }));
  assert.deepEqual([...blind.folders.created].sort(), ["dev:/guess", "dev:/hidden"]);
  assert.deepEqual([...blind.imports.unresolved].sort(), [
    "dev:/hidden ← dev:/nothing",
    "dev:/hidden ← dev:/source",
  ]);
  const seeing = ok(await taken(await someone(["read"]), into, file, { dryRun: true }));
  assert.deepEqual(seeing.folders.created, ["dev:/guess"]);
});

test("history and roles leave only with somebody who may read them, and an old name that is closed stays closed", async () => {
  const tenant = await house.newTenant();
  const from = await aFullProject(tenant);
  const plain = [
    { subject: "secrets", action: "read" },
    { subject: "secret-folders", action: "read" },
    { subject: "secret-imports", action: "read" },
    { subject: "tags", action: "read" },
  ];
  const status = async (rules: readonly unknown[], more: Record<string, unknown>) => {
    const role = await aRole(tenant, from, rules);
    const { client } = await anIdentity(tenant, house.base, from, { roles: [{ role }] });
    return (await client.post(`/api/v1/projects/${from}/export`, { passphrase, ...more })).status;
  };
  assert.equal(await status(plain, {}), 200);
  assert.equal(await status(plain, { includeRoles: true }), 403);
  assert.equal(await status(plain, { includeHistory: true }), 403);
  const withHistory = [...plain, { subject: "secret-rollback", action: "read" }];
  assert.equal(await status(withHistory, { includeHistory: true }), 200);
  const closed = {
    subject: "secrets",
    action: "readValue",
    inverted: true,
    conditions: { secretName: { $eq: "OLD_NAME" } },
  };
  assert.equal(await status([...withHistory, closed], {}), 200);
  assert.equal(await status([...withHistory, closed], { includeHistory: true }), 403);
});

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
  // Every byte of the head, and of the box those that are something of their own: nonce, first, last, tag.
  const inBox = [0, 1, 11, 12, 13, 27, 28, 29, 40].map((at) => head + at);
  const places = [
    ...Array.from({ length: head }, (_, at) => at),
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

// Any project into any other: the dry run changes nothing, the import does exactly what it said, and then nothing is left to do.
const place = fc.constantFrom("dev:/", "dev:/x", "prod:/", "prod:/x/y", "qa:/");
const world = fc.record({
  secrets: fc.array(
    fc.record({
      place,
      key: fc.constantFrom("A", "B"),
      value: fc.constantFrom("1", "2"),
      comment: fc.constantFrom("", "c"),
      isTagged: fc.boolean(),
      days: fc.constantFrom(null, 3),
    }),
    { maxLength: 5 },
  ),
  imports: fc.array(fc.record({ into: place, from: place }), { maxLength: 4 }),
  color: fc.constantFrom("red", "blue"),
  describe: fc.boolean(),
});
type World = typeof world extends fc.Arbitrary<infer T> ? T : never;

async function build(tenant: Tenant, { secrets, imports, color, describe }: World): Promise<string> {
  const { id } = await aProject(tenant);
  const spot = (text: string) => {
    const [environment = "", path = "/"] = text.split(":");
    return { environment, path };
  };
  const used: string[] = [
    ...secrets.map((one) => one.place),
    ...imports.flatMap((one) => [one.into, one.from]),
  ];
  if (used.some((text) => text.startsWith("qa")))
    ok(await tenant.post(`/api/v1/projects/${id}/environments`, { name: "Quality", slug: "qa" }));
  const { tag } = ok(await tenant.post(`/api/v1/projects/${id}/tags`, { slug: "t", color }));
  for (const [environment, path, name] of [
    ["dev", "/", "x"],
    ["prod", "/x", "y"],
  ] as const)
    if (used.includes(`${environment}:${path === "/" ? "" : path}/${name}`))
      ok(
        await tenant.post("/api/v2/folders", {
          projectId: id,
          environment,
          path,
          name,
          ...(describe ? { description: "d" } : {}),
        }),
      );
  for (const { key, value, comment, isTagged, days, place: at } of secrets) {
    const { environment, path } = spot(at);
    await tenant.post(`/api/v4/secrets/${key}`, {
      projectId: id,
      environment,
      secretPath: path,
      secretValue: value,
      secretComment: comment,
      tagIds: isTagged ? [tag.id] : [],
      secretReminderRepeatDays: days,
    });
  }
  for (const { into, from } of imports)
    await tenant.post("/api/v2/secret-imports", { projectId: id, ...spot(into), import: spot(from) });
  return id;
}

test(
  "an import does exactly what its dry run said, whatever is in the file and whatever was there",
  LONG,
  async () => {
    const tenant = await house.newTenant();
    await fc.assert(
      fc.asyncProperty(world, world, fc.boolean(), async (one, other, includeHistory) => {
        const [from, into] = [await build(tenant, one), await build(tenant, other)];
        const file = await exported(tenant, from, { includeHistory });
        const [source, before] = [await told(tenant, from), await told(tenant, into)];
        const dry = ok(await taken(tenant, into, file, { dryRun: true }));
        assert.deepEqual(await told(tenant, into), before, "a dry run changes nothing");
        const done = ok(await taken(tenant, into, file));
        assert.deepEqual(done, { ...dry, dryRun: false });
        const now = await told(tenant, into);

        const placeOf = (secret: { environment: string; path: string; key: string }) =>
          `${secret.environment}:${secret.path}:${secret.key}`;
        const index = (list: typeof now.secrets) => new Map(list.map((secret) => [placeOf(secret), secret]));
        const [was, is] = [index(before.secrets), index(now.secrets)];
        assert.deepEqual(
          [...is.keys()].filter((name) => !was.has(name)).sort(),
          [...dry.secrets.created].sort(),
          "created is what is new",
        );
        const isOther = (name: string) => JSON.stringify(was.get(name)) !== JSON.stringify(is.get(name));
        assert.deepEqual(
          [...was.keys()].filter(isOther).sort(),
          [...dry.secrets.updated].sort(),
          "updated is what is different",
        );
        for (const secret of source.secrets) assert.deepEqual(is.get(placeOf(secret)), secret);
        const folders = (list: typeof now.folders) =>
          list.map((folder) => `${folder.environment}:${folder.path}`);
        // Of a new environment the root came with it.
        const made = folders(now.folders).filter((name) => !folders(before.folders).includes(name));
        assert.deepEqual(made.filter((name) => !name.endsWith(":/")).sort(), [...dry.folders.created].sort());
        const importsAt = (list: typeof now.imports, environment: string, path: string) =>
          list
            .filter((each) => each.environment === environment && each.path === path)
            .map((each) => `${each.sourceEnvironment}:${each.sourcePath}`);
        for (const { environment, path } of source.folders) {
          const wanted = importsAt(source.imports, environment, path);
          assert.deepEqual(importsAt(now.imports, environment, path).slice(0, wanted.length), wanted);
        }
        const again = ok(await taken(tenant, into, file, { dryRun: true }));
        for (const kind of ["environments", "tags", "folders", "secrets", "imports", "roles"])
          assert.deepEqual(
            [again[kind].created, again[kind].updated],
            [[], []],
            `nothing is left to do: ${kind}`,
          );
      }),
      { numRuns: 5 },
    );
  },
);

test("a project that others are writing to is exported by whoever may read all of it", LONG, async () => {
  const tenant = await house.newTenant();
  const { id } = await aProject(tenant);
  let isOver = false;
  const write = async (name: string) => {
    for (let n = 0; !isOver; n += 1)
      ok(
        await tenant.post(`/api/v4/secrets/${name}_${n}`, {
          projectId: id,
          environment: "dev",
          secretValue: "1",
        }),
      );
  };
  const writers = ["A", "B", "C", "D"].map(write);
  try {
    for (let n = 0; n < 20; n += 1) await exported(tenant, id);
  } finally {
    isOver = true;
    await Promise.all(writers);
  }
});

test("history is exported only by whoever may read it where it was written", async () => {
  const tenant = await house.newTenant();
  const { id } = await aProject(tenant);
  for (const name of ["closed", "open"])
    ok(await tenant.post("/api/v2/folders", { projectId: id, environment: "dev", name }));
  const at = { projectId: id, environment: "dev" };
  const { secret } = ok(
    await tenant.post("/api/v4/secrets/A", { ...at, secretPath: "/closed", secretValue: "old-canary" }),
  );
  ok(
    await tenant.post("/api/v4/secrets/move", {
      projectId: id,
      sourceEnvironment: "dev",
      sourceSecretPath: "/closed",
      destinationEnvironment: "dev",
      destinationSecretPath: "/open",
      secretIds: [secret.id],
    }),
  );
  ok(await tenant.patch("/api/v4/secrets/A", { ...at, secretPath: "/open", secretValue: "new" }));
  const role = await aRole(tenant, id, [
    { subject: "secrets", action: "read" },
    { subject: "secret-folders", action: "read" },
    { subject: "secret-imports", action: "read" },
    { subject: "tags", action: "read" },
    { subject: "secret-rollback", action: "read" },
    {
      subject: "secrets",
      action: "readValue",
      inverted: true,
      conditions: { secretPath: { $glob: "/closed/**" } },
    },
  ]);
  const { client } = await anIdentity(tenant, house.base, id, { roles: [{ role }] });
  const carry = (includeHistory: boolean) =>
    client.post(`/api/v1/projects/${id}/export`, { passphrase, includeHistory });
  assert.equal((await carry(false)).status, 200);
  assert.equal((await carry(true)).status, 403);
});

test("environments travel alone when they are asked for alone", async () => {
  const tenant = await house.newTenant();
  const { id } = await aProject(tenant);
  for (const environment of ["dev", "prod"])
    ok(await tenant.post("/api/v4/secrets/A", { projectId: id, environment, secretValue: environment }));
  const file = await openArchive(await exported(tenant, id, { environments: ["prod"] }), passphrase);
  assert.deepEqual(
    [file.environments.map(({ slug }) => slug), file.secrets.map(({ value }) => value)],
    [["prod"], ["prod"]],
  );
  const unknown = await tenant.post(`/api/v1/projects/${id}/export`, { passphrase, environments: ["none"] });
  assert.equal(unknown.status, 404);
});

test("an export that no import would take is refused", LONG, async () => {
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

test("a file's imports are planned in a time that grows with their number", async () => {
  const imports = Array.from({ length: 60_000 }, (_, n) => ({
    environment: "dev",
    path: "/",
    sourceProject: null,
    sourceEnvironment: "dev",
    sourcePath: `/f${n}`,
    isReplication: false,
  }));
  const nothing = { environments: [], tags: [], folders: [], secrets: [], roles: [] };
  const file = { ...nothing, project: { name: "p", slug: "p" }, imports };
  const started = process.cpuUsage();
  const plan = await planImport(file, { ...nothing, imports: imports.toReversed() }, () => true);
  const { user } = process.cpuUsage(started);
  assert.deepEqual([plan.imports.created.length, plan.imports.unresolved.length], [0, 0]);
  assert.ok(plan.imports.updated.length > 59_000);
  assert.ok(user < 10_000_000, `${user} µs`);
});

test("folders and imports are exported only by whoever may read them", async () => {
  const tenant = await house.newTenant();
  const { id } = await aProject(tenant);
  ok(await tenant.post("/api/v4/secrets/A", { projectId: id, environment: "dev", secretValue: "1" }));
  for (const environment of ["staging", "prod"])
    ok(await tenant.post("/api/v4/secrets/A", { projectId: id, environment, secretValue: "1" }));
  const reading = (subject: string) => ({ subject, action: "read" });
  const exporter = async (...subjects: string[]) => {
    const role = await aRole(tenant, id, subjects.map(reading));
    return (await anIdentity(tenant, house.base, id, { roles: [{ role }] })).client;
  };
  const carry = async (client: Client) =>
    (await client.post(`/api/v1/projects/${id}/export`, { passphrase })).status;
  const few = await exporter("secrets", "tags", "secret-folders");
  assert.equal(await carry(few), 200);
  assert.equal(await carry(await exporter("secrets", "tags")), 403);
  ok(
    await tenant.post("/api/v2/secret-imports", {
      projectId: id,
      environment: "dev",
      import: { environment: "prod", path: "/" },
    }),
  );
  assert.equal(await carry(few), 403);
  assert.equal(await carry(await exporter("secrets", "tags", "secret-folders", "secret-imports")), 200);
});
