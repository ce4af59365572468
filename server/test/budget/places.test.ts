/** Every request has a budget: folders, imports, references, tags, history and whole projects at their bounds. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, unique } from "../builders.ts";
import type { Client } from "../harness.ts";
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
const query = (fields: Record<string, string>): string => `?${new URLSearchParams(fields)}`;
const batch = "/api/v4/secrets/batch";
const folders = "/api/v1/folders";
const passphrase = "correct horse battery";

const fill = async (projectId: string, secretPath: string, secrets: object[]) =>
  accepted(await owner.patch(batch, { projectId, environment: "dev", secretPath, mode: "upsert", secrets }));

/** A thousand folders, and one for those that have enough. */
async function makeFolders(projectId: string, path: string, nameOf: (n: number) => string): Promise<void> {
  const make = async (name: string) =>
    accepted(await owner.post(folders, { projectId, environment: "dev", path, name }));
  await Promise.all(
    many(8, async (part) => {
      for (let n = part; n < 1000; n += 8) await make(nameOf(n));
    }),
  );
  if (path === "/") await make("extra");
}

describe("no stretch of 50 ms, places", { skip: !canWatch }, () => {
  it("references at their bound", async () => {
    const { id: projectId } = await aProject(owner);
    await fill(
      projectId,
      "/",
      many(1000, (n) => ({ secretKey: `A_${n}`, secretValue: "x".repeat(300) })),
    );
    const secrets = many(25, (n) => ({
      secretKey: `R_${n}`,
      secretValue: many(390, (m) => `\${A_${m}}`).join(""),
    }));
    await ground.withinBudget("write references", async (round) => {
      await fill(
        projectId,
        "/",
        many(25, (n) => ({
          secretKey: `W_${n}`,
          secretValue: `${round}${many(1000, (m) => `\${A_${m}}`).join("")}`,
        })),
      );
    });
    accepted(
      await owner.call("DELETE", batch, {
        body: { projectId, environment: "dev", secrets: many(25, (n) => ({ secretKey: `W_${n}` })) },
      }),
    );
    await fill(projectId, "/", secrets);
    await ground.withinBudget("expand references", async (round) => {
      await fill(projectId, "/", [{ secretKey: "A_0", secretValue: `${round}` }]);
      accepted(await owner.get(`/api/v4/secrets${query({ projectId, environment: "dev" })}`));
    });
  });

  it("many folders: listed, moved, deleted", async () => {
    const { id: projectId } = await aProject(owner);
    const makeTree = async (): Promise<void> => {
      accepted(await owner.post(folders, { projectId, environment: "dev", name: "tree" }));
      await makeFolders(projectId, "/tree", (n) => `f${n}`.padEnd(200, "x"));
      await fill(
        projectId,
        "/tree",
        many(2000, (n) => ({ secretKey: `S_${n}`, secretValue: "v".repeat(800) })),
      );
    };
    await makeTree();
    await ground.withinBudget("list folders", async () => {
      const path = `${folders}${query({ projectId, environment: "dev", path: "/tree" })}`;
      assert.equal(accepted(await owner.get(path)).folders.length, 1000);
    });
    await ground.withinBudget("list recursively", async () => {
      const path = `/api/v4/secrets${query({ projectId, environment: "dev", recursive: "true" })}`;
      assert.equal(accepted(await owner.get(path)).secrets.length, 2000);
    });
    let name = "tree";
    await ground.withinBudget("rename a tree", async (round) => {
      const body = { projectId, environment: "dev", name: `tree${round}` };
      accepted(await owner.patch(`${folders}/${name}`, body));
      ({ name } = body);
    });
    await ground.withinBudget(
      "delete a tree",
      async () => {
        accepted(
          await owner.call("DELETE", `${folders}/${name}`, { body: { projectId, environment: "dev" } }),
        );
        name = "tree";
      },
      { prepare: (round) => (round === 0 ? Promise.resolve() : makeTree()) },
    );
  });

  it("imports of as many folders as one may import", async () => {
    const { id: projectId } = await aProject(owner);
    await makeFolders(projectId, "/", (n) => `i${n}`);
    for (let n = 0; n < 50; n += 1)
      await fill(
        projectId,
        `/i${n}`,
        many(100, (m) => ({ secretKey: `S_${n}_${m}`, secretValue: "v" })),
      );
    await ground.fill(
      `INSERT INTO secret_imports (id, project_id, folder_id, source_project_id, source_environment_id, source_path, position, is_replication, created_at, updated_at)
       SELECT gen_random_uuid(), r.project_id, r.id, r.project_id, r.environment_id, '/i' || n, n + 1, false, now(), now()
       FROM folders r CROSS JOIN generate_series(0, 998) n JOIN environments e ON e.id = r.environment_id
       WHERE r.project_id = $1 AND r.path = '/' AND e.slug = 'dev'`,
      [projectId],
    );
    const imported = (path: string) =>
      owner.post("/api/v2/secret-imports", {
        projectId,
        environment: "dev",
        path: "/",
        import: { environment: "dev", path },
      });
    accepted(await imported("/i999"));
    const refused = await imported("/extra");
    assert.equal(refused.status, 400, JSON.stringify(refused.body));
    assert.match(refused.body.message, /at most 1,000 imports/);
    await ground.withinBudget("list imports", async () => {
      const path = `/api/v2/secret-imports${query({ projectId, environment: "dev" })}`;
      assert.equal(accepted(await owner.get(path)).secretImports.length, 1000);
    });
    await ground.withinBudget("list through imports", async (round) => {
      await fill(projectId, "/i0", [{ secretKey: "S", secretValue: `${round}` }]);
      const path = `/api/v4/secrets${query({ projectId, environment: "dev", includeImports: "true" })}`;
      const { imports } = accepted(await owner.get(path));
      assert.ok(imports.length >= 50, `${imports.length} imports`);
    });
  });

  it("tags and history", async () => {
    const { id: projectId } = await aProject(owner);
    const ids: string[] = [];
    for (let n = 0; n < 100; n += 1)
      ids.push(
        accepted(
          await owner.post(`/api/v1/projects/${projectId}/tags`, { slug: unique("tag"), color: "#fff" }),
        ).tag?.id ?? "",
      );
    const secrets = many(1000, (n) => ({ secretKey: `S_${n}`, secretValue: "v", tagIds: ids }));
    await ground.withinBudget("write tags", async (round) => {
      await fill(
        projectId,
        "/",
        secrets.map((one) => ({ ...one, secretValue: `${round}` })),
      );
    });
    await ground.withinBudget("list tags", async () => {
      accepted(await owner.get(`/api/v4/secrets${query({ projectId, environment: "dev" })}`));
    });
    const before = new Date().toISOString();
    await ground.withinBudget("roll back", async (round) => {
      await fill(
        projectId,
        "/",
        secrets.map((one) => ({ ...one, secretValue: `later ${round}` })),
      );
      accepted(
        await owner.post(`/api/v1/projects/${projectId}/secrets/rollback`, {
          environment: "dev",
          secretPath: "/",
          at: before,
        }),
      );
    });
    await ground.withinBudget("delete a tag", async (round) => {
      accepted(await owner.delete(`/api/v1/projects/${projectId}/tags/${ids[round]}`));
    });
  });

  it("a whole project in a file", async () => {
    const { id: projectId } = await aProject(owner);
    await fill(
      projectId,
      "/",
      many(5000, (m) => ({ secretKey: `S_${m}`, secretValue: "v".repeat(1000) })),
    );
    let file = Buffer.alloc(0);
    await ground.withinBudget("export a project", async () => {
      const answer = await fetch(`${ground.base}/api/v1/projects/${projectId}/export`, {
        method: "POST",
        headers: { authorization: `Bearer ${ground.owner.token}`, "content-type": "application/json" },
        body: JSON.stringify({ passphrase }),
      });
      file = Buffer.from(await answer.arrayBuffer());
      assert.equal(answer.status, 200);
    });
    await ground.withinBudget("import a project", async () => {
      const { id } = await aProject(owner);
      const { secrets } = accepted(
        await owner.post(`/api/v1/projects/${id}/import`, { passphrase, file: file.toString("base64") }),
      );
      assert.equal(secrets.created.length, 5000);
    });
    await ground.withinBudget("import it once more", async () => {
      accepted(
        await owner.post(`/api/v1/projects/${projectId}/import`, {
          passphrase,
          file: file.toString("base64"),
        }),
      );
    });
  });
});
