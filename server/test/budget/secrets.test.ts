/** Every request has a budget: secrets at their bounds. */
import { after, before, describe, it } from "node:test";
import { anIdentity, aProject, aRole } from "../builders.ts";
import type { Client } from "../harness.ts";
import { accepted, canWatch, openGround, type Ground } from "./ground.ts";

const BATCH = 5000;
const PARTS = 200_000;

let ground: Ground;
let owner: Client;
before(async () => {
  ground = await openGround();
  ({ owner } = ground);
});
after(() => ground.close());

const nameOf = (n: number, length = 255): string => `S${n}_`.padEnd(length, "N");
const many = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));
const at = (projectId: string, more: object = {}) => ({ projectId, environment: "dev", ...more });
const query = (fields: Record<string, string>): string => `?${new URLSearchParams(fields)}`;

/** The most that a body can be made of: short names, and as many items of metadata as there may be parts. */
const metadataPer = Math.floor((PARTS / BATCH - 9) / 7);
const manyParts = () => ({
  secretMetadata: many(metadataPer, (n) => ({ key: `k${n}`, value: "v", isEncrypted: false })),
});

const batch = "/api/v4/secrets/batch";

describe("no stretch of 50 ms, secrets", { skip: !canWatch }, () => {
  it("batches of the longest names: created, changed, listed, moved, copied, deleted", async () => {
    const project = await aProject(owner);
    const secrets = many(BATCH, (n) => ({ secretKey: nameOf(n), secretValue: "v".repeat(500) }));
    await ground.withinBudget("create a batch", async (round) => {
      accepted(await owner.post("/api/v1/folders", at(project.id, { name: `f${round}` })));
      accepted(await owner.post(batch, at(project.id, { secretPath: `/f${round}`, secrets })));
    });
    await ground.withinBudget("change a batch", async (round) => {
      const changed = secrets.map(({ secretKey }) => ({ secretKey, secretValue: `${round}`.repeat(900) }));
      accepted(await owner.patch(batch, at(project.id, { secretPath: "/f0", secrets: changed })));
    });
    let ids: string[] = [];
    await ground.withinBudget("list them", async () => {
      const listed = accepted(
        await owner.get(`/api/v4/secrets${query(at(project.id, { secretPath: "/f0" }))}`),
      );
      ids = listed.secrets.map(({ id }: { id: string }) => id);
    });
    await ground.withinBudget("list them recursively", async () => {
      accepted(await owner.get(`/api/v4/secrets${query(at(project.id, { recursive: "true" }))}`));
    });
    const way = { projectId: project.id, sourceEnvironment: "dev", secretIds: ids };
    await ground.withinBudget("copy them", async (round) => {
      accepted(await owner.post("/api/v1/folders", at(project.id, { name: `c${round}` })));
      accepted(
        await owner.post("/api/v4/secrets/copy", {
          ...way,
          sourceSecretPath: "/f0",
          destinationEnvironment: "dev",
          destinationSecretPath: `/c${round}`,
        }),
      );
    });
    let here = ["dev", "/f0"];
    await ground.withinBudget("move them", async (round) => {
      accepted(
        await owner.post("/api/v1/folders", at(project.id, { name: `m${round}`, environment: "prod" })),
      );
      const [sourceEnvironment = "", sourceSecretPath = ""] = here;
      const destination = { destinationEnvironment: "prod", destinationSecretPath: `/m${round}` };
      accepted(
        await owner.post("/api/v4/secrets/move", {
          ...way,
          sourceEnvironment,
          sourceSecretPath,
          ...destination,
        }),
      );
      here = ["prod", `/m${round}`];
    });
    await ground.withinBudget("delete them", async (round) => {
      const [environment = "", secretPath = ""] = round === 0 ? here : ["dev", `/f${round}`];
      accepted(
        await owner.call("DELETE", batch, {
          body: {
            projectId: project.id,
            environment,
            secretPath,
            secrets: secrets.map(({ secretKey }) => ({ secretKey })),
          },
        }),
      );
    });
  });

  it("batches of as many parts as a body may have", async () => {
    const project = await aProject(owner);
    const secrets = many(BATCH, (n) => ({ secretKey: nameOf(n, 8), secretValue: "v", ...manyParts() }));
    await ground.withinBudget("create parts", async (round) => {
      accepted(await owner.post("/api/v1/folders", at(project.id, { name: `f${round}` })));
      accepted(await owner.post(batch, at(project.id, { secretPath: `/f${round}`, secrets })));
    });
    await ground.withinBudget("change parts", async (round) => {
      const changed = secrets.map((one) => ({ ...one, secretValue: `${round}` }));
      accepted(await owner.patch(batch, at(project.id, { secretPath: "/f0", secrets: changed })));
    });
    await ground.withinBudget("list parts", async () => {
      accepted(await owner.get(`/api/v4/secrets${query(at(project.id, { secretPath: "/f0" }))}`));
    });
    await ground.withinBudget("delete the folder", async (round) => {
      accepted(await owner.call("DELETE", `/api/v1/folders/f${round}`, { body: at(project.id) }));
    });
  });

  it("batches of the largest values", async () => {
    const project = await aProject(owner);
    const secrets = many(7, (n) => ({ secretKey: `BIG_${n}`, secretValue: "é".repeat(500_000) }));
    await ground.withinBudget("create large values", async (round) => {
      accepted(await owner.post("/api/v1/folders", at(project.id, { name: `f${round}` })));
      accepted(await owner.post(batch, at(project.id, { secretPath: `/f${round}`, secrets })));
    });
    await ground.withinBudget("change large values", async (round) => {
      const changed = secrets.map(({ secretKey }) => ({
        secretKey,
        secretValue: `${round}`.repeat(1_000_000),
      }));
      accepted(await owner.patch(batch, at(project.id, { secretPath: "/f0", secrets: changed })));
    });
    const escaped = many(1, (n) => ({ secretKey: `ESC_${n}`, secretValue: '"\n'.repeat(524_288) }));
    await ground.withinBudget("values of escapes", async (round) => {
      accepted(
        await owner.patch(
          batch,
          at(project.id, {
            mode: "upsert",
            secrets: escaped.map((s) => ({ ...s, secretComment: `${round}` })),
          }),
        ),
      );
    });
  });

  it("files of the most secrets", async () => {
    const project = await aProject(owner);
    const place = { environment: "dev" };
    const content = many(BATCH, (n) => `${nameOf(n)}="${"w".repeat(1200)}"`).join("\n");
    const path = `/api/v1/projects/${project.id}/secrets/import`;
    await ground.withinBudget("a dry run", async () => {
      accepted(await owner.post(path, { ...place, content, dryRun: true }));
    });
    await ground.withinBudget("import a file", async (round) => {
      accepted(await owner.post(path, { ...place, content: content.replaceAll("w", `${round}`) }));
    });
    for (const format of ["dotenv", "json", "yaml"])
      await ground.withinBudget(`export ${format}`, async () => {
        accepted(
          await owner.get(`/api/v1/projects/${project.id}/secrets/export${query({ ...place, format })}`),
        );
      });
    const flat = JSON.stringify(Object.fromEntries(many(BATCH, (n) => [nameOf(n), "x".repeat(1200)])));
    await ground.withinBudget("import json", async () => {
      accepted(await owner.post(path, { ...place, format: "json", content: flat }));
    });
  });

  it("a role of the costliest rules over the longest list", async () => {
    const project = await aProject(owner);
    // Each is judged by itself and they give way between: a part of a batch shows it, and takes seconds.
    const secrets = many(1000, (n) => ({ secretKey: nameOf(n), secretValue: "v" }));
    const pattern = `${"*N".repeat(15)}X`;
    const count = Math.floor(4096 / pattern.length);
    const rules = [
      {
        subject: "secrets",
        action: ["read", "readValue", "describeSecret", "create", "edit"].slice(1),
        conditions: { environment: "dev" },
      },
      ...many(count, () => ({
        subject: "secrets",
        action: ["readValue", "create", "edit"],
        inverted: true,
        conditions: { secretName: { $glob: pattern } },
      })),
      ...many(499 - count, (n) => ({
        subject: "secrets",
        action: ["readValue", "create", "edit"],
        inverted: true,
        conditions: { secretName: { $in: many(20, (m) => `no${n}_${m}`) } },
      })),
    ];
    const role = await aRole(owner, project.id, rules);
    const holder = await anIdentity(owner, ground.base, project.id, { roles: [{ role }] });
    await ground.withinBudget("create under costly rules", async (round) => {
      accepted(await owner.post("/api/v1/folders", at(project.id, { name: `f${round}` })));
      accepted(await holder.client.post(batch, at(project.id, { secretPath: `/f${round}`, secrets })));
    });
    await ground.withinBudget("list under costly rules", async () => {
      accepted(await holder.client.get(`/api/v4/secrets${query(at(project.id, { secretPath: "/f0" }))}`));
    });
    await ground.withinBudget("change under costly rules", async (round) => {
      const changed = secrets.map(({ secretKey }) => ({ secretKey, secretValue: `${round}` }));
      accepted(await holder.client.patch(batch, at(project.id, { secretPath: "/f0", secrets: changed })));
    });
  });
});
