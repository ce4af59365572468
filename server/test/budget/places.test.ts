/** Every request has a budget: folders, imports, references, tags, history and whole projects at their bounds. */
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
const passphrase = "correct horse battery";

const fill = async (projectId: string, secretPath: string, secrets: object[]) =>
  accepted(await owner.patch(batch, { projectId, environment: "dev", secretPath, mode: "upsert", secrets }));

describe("no stretch of 50 ms, places", { skip: !canWatch, timeout: 600_000 }, () => {
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
    const file = "/api/v1/folders";
    for (const name of ["tree", "other"])
      accepted(await owner.post(file, { projectId, environment: "dev", name }));
    await Promise.all(
      many(8, async (part) => {
        for (let n = part; n < 1000; n += 8)
          accepted(
            await owner.post(file, {
              projectId,
              environment: "dev",
              path: "/tree",
              name: `f${n}`.padEnd(200, "x"),
            }),
          );
      }),
    );
    await fill(
      projectId,
      "/tree",
      many(5000, (n) => ({ secretKey: `S_${n}`, secretValue: "v".repeat(800) })),
    );
    await ground.withinBudget("list folders", async () => {
      accepted(await owner.get(`${file}${query({ projectId, environment: "dev", path: "/tree" })}`));
    });
    await ground.withinBudget("list recursively", async () => {
      accepted(
        await owner.get(`/api/v4/secrets${query({ projectId, environment: "dev", recursive: "true" })}`),
      );
    });
    await ground.withinBudget("rename a tree", async (round) => {
      accepted(
        await owner.patch(`${file}/${round === 0 ? "tree" : `tree${round - 1}`}`, {
          projectId,
          environment: "dev",
          name: `tree${round}`,
        }),
      );
    });
    const { folders } = accepted(await owner.get(`${file}${query({ projectId, environment: "dev" })}`));
    await ground.withinBudget("delete a tree", async (round) => {
      const name = (folders as { name: string }[]).find((one) => one.name.startsWith("tree"))?.name;
      if (round === 0)
        accepted(await owner.call("DELETE", `${file}/${name}`, { body: { projectId, environment: "dev" } }));
    });
  });

  it("imports of many folders", async () => {
    const { id: projectId } = await aProject(owner);
    for (let n = 0; n < 100; n += 1) {
      accepted(await owner.post("/api/v1/folders", { projectId, environment: "dev", name: `i${n}` }));
      await fill(
        projectId,
        `/i${n}`,
        many(50, (m) => ({ secretKey: `S_${n}_${m}`, secretValue: "v" })),
      );
      accepted(
        await owner.post("/api/v2/secret-imports", {
          projectId,
          environment: "dev",
          path: "/",
          import: { environment: "dev", path: `/i${n}` },
        }),
      );
    }
    await ground.withinBudget("list through imports", async (round) => {
      await fill(projectId, "/i0", [{ secretKey: "S", secretValue: `${round}` }]);
      accepted(await owner.get(`/api/v4/secrets${query({ projectId, environment: "dev" })}`));
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
    for (let n = 0; n < 4; n += 1) {
      accepted(await owner.post("/api/v1/folders", { projectId, environment: "dev", name: `p${n}` }));
      await fill(
        projectId,
        `/p${n}`,
        many(5000, (m) => ({ secretKey: `S_${m}`, secretValue: "v".repeat(1000) })),
      );
    }
    let file = Buffer.alloc(0);
    await ground.withinBudget("export a project", async () => {
      const answer = await fetch(`${ground.base}/api/v1/projects/${projectId}/export`, {
        method: "POST",
        headers: { authorization: `Bearer ${ground.owner.token}`, "content-type": "application/json" },
        body: JSON.stringify({ passphrase }),
      });
      file = Buffer.from(await answer.arrayBuffer());
    });
    await ground.withinBudget("import a project", async () => {
      const { id } = await aProject(owner);
      accepted(
        await owner.post(`/api/v1/projects/${id}/import`, { passphrase, file: file.toString("base64") }),
      );
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
