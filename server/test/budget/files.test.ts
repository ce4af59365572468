/** Every request has a budget: whole projects in a file, each list in it as long as it may be. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { sealArchive } from "../../src/secret-files/service/seal-archive.ts";
import { aProject } from "../builders.ts";
import type { Answer, Client } from "../harness.ts";
import { accepted, canWatch, openGround, type Ground } from "./ground.ts";

let ground: Ground;
let owner: Client;
before(async () => {
  ground = await openGround();
  ({ owner } = ground);
});
after(() => ground.close());

const many = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));
const passphrase = "correct horse battery";

const NOTHING = {
  project: { name: "P", slug: "p" },
  environments: [{ slug: "dev", name: "Development" }],
  tags: [],
  folders: [],
  secrets: [],
  imports: [],
  roles: [],
};
const state = {
  comment: "",
  metadata: [],
  tags: [],
  skipMultiline: null,
  reminderNote: null,
  reminderDays: null,
};
const secret = (key: string, more: object = {}) => ({
  environment: "dev",
  path: "/",
  key,
  value: "v",
  ...state,
  ...more,
});

const sealed = async (more: Partial<Parameters<typeof sealArchive>[0]>): Promise<string> =>
  (await sealArchive({ ...NOTHING, ...more }, passphrase)).toString("base64");
const take = (id: string, file: string, more: object = {}): Promise<Answer> =>
  owner.post(`/api/v1/projects/${id}/import`, { passphrase, file, ...more });
async function give(id: string, more: object): Promise<void> {
  const answer = await fetch(`${ground.base}/api/v1/projects/${id}/export`, {
    method: "POST",
    headers: { authorization: `Bearer ${ground.owner.token}`, "content-type": "application/json" },
    body: JSON.stringify({ passphrase, ...more }),
  });
  await answer.arrayBuffer();
  assert.equal(answer.status, 200);
}

describe("no stretch of 50 ms, files of projects", { skip: !canWatch }, () => {
  it("a long history", async () => {
    const versions = many(15_000, (n) => ({
      version: n + 1,
      change: n === 0 ? ("create" as const) : ("update" as const),
      key: "KEY",
      value: `value ${n}`.padEnd(200, "x"),
      ...state,
      at: "2026-01-01T00:00:00.000Z",
      by: "somebody",
    }));
    const history = { createdAt: "2026-01-01T00:00:00.000Z", versions };
    const file = await sealed({ secrets: [secret("KEY", { history })] });
    let id = "";
    await ground.withinBudget("import a long history", async () => {
      ({ id } = await aProject(owner));
      assert.equal(accepted(await take(id, file)).versions, versions.length);
    });
    await ground.withinBudget("export a long history", () => give(id, { includeHistory: true }));
  });

  it("many roles of many rules", async () => {
    const permissions = many(500, (n) => ({
      subject: "secrets",
      action: ["readValue", "create", "edit"],
      conditions: { secretName: { $in: many(10, (m) => `name_${n}_${m}`) }, environment: "dev" },
    }));
    const roles = many(60, (n) => ({ slug: `role-${n}`, name: `Role ${n}`, permissions }));
    const file = await sealed({ roles });
    let id = "";
    await ground.withinBudget("import many roles", async () => {
      ({ id } = await aProject(owner));
      assert.equal(accepted(await take(id, file)).roles.created.length, roles.length);
    });
    await ground.withinBudget("import many roles once more", async () => {
      assert.equal(accepted(await take(id, file)).roles.unchanged, roles.length);
    });
    await ground.withinBudget("export many roles", () => give(id, { includeRoles: true }));
  });

  it("many imports", async () => {
    const folders = many(1000, (n) => ({ environment: "dev", path: `/f${n}`, description: null }));
    const imports = many(100_000, (n) => ({
      environment: "dev",
      path: `/f${n % 100}`,
      sourceEnvironment: "dev",
      sourcePath: `/f${Math.floor(n / 100)}`,
    })).filter(({ path, sourcePath }) => path !== sourcePath);
    const file = await sealed({ folders, imports });
    const { id } = await aProject(owner);
    await ground.withinBudget("import many imports", async () => {
      assert.equal(accepted(await take(id, file, { dryRun: true })).imports.created.length, imports.length);
    });
  });

  it("many secrets of the longest names", async () => {
    const path = `/${many(2, (n) => `${n}`.padEnd(250, "f")).join("/")}`;
    const file = await sealed({
      secrets: many(30_000, (n) => secret(`S${n}_`.padEnd(255, "N"), { path, value: "" })),
    });
    const { id } = await aProject(owner);
    await ground.withinBudget("long names", async () => {
      assert.equal(accepted(await take(id, file, { dryRun: true })).secrets.created.length, 30_000);
    });
  });

  it("many short secrets", async () => {
    const file = await sealed({ secrets: many(60_000, (n) => secret(`S${n}`)) });
    const { id } = await aProject(owner);
    await ground.withinBudget("short names", async () => {
      assert.equal(accepted(await take(id, file, { dryRun: true })).secrets.created.length, 60_000);
    });
  });

  it("values of nothing but references", async () => {
    const value = many(1000, (n) => `\${A_${n}}`).join("");
    const file = await sealed({ secrets: many(1000, (n) => secret(`S${n}`, { value })) });
    const { id } = await aProject(owner);
    await ground.withinBudget("plan references", async () => {
      accepted(await take(id, file, { dryRun: true }));
    });
  });
});
