/** Every request has a budget: policies, names and certificates at their bounds. */
import { after, before, describe, it } from "node:test";
import { aProject } from "../builders.ts";
import { aProfile, aRoot, issue } from "../certificates.ts";
import type { Client } from "../harness.ts";
import { accepted, canWatch, openGround, type Ground } from "./ground.ts";

let ground: Ground;
let owner: Client;
before(async () => {
  ground = await openGround();
  ({ owner } = ground);
});
after(() => ground.close());

const CM = "/api/v1/cert-manager";
const many = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));

describe("no stretch of 50 ms, certificates", { skip: !canWatch, timeout: 600_000 }, () => {
  it("the most patterns of a policy against the most names of a certificate", async () => {
    const { id: projectId } = await aProject(owner, { type: "cert-manager" });
    const root = await aRoot(owner, projectId);
    const pattern = (n: number) => `${"*a".repeat(15)}b${n}`;
    const sans = many(1, () => ({
      type: "dns_name",
      allowed: ["*"],
      denied: many(200, pattern),
    }));
    const subject = many(1, () => ({ type: "common_name", allowed: ["*"], denied: many(200, pattern) }));
    const profile = await aProfile(owner, projectId, root.id, { policy: { sans, subject } });
    const altNames = many(100, (n) => ({
      type: "dns_name",
      value: many(4, () => "a".repeat(58))
        .join(".")
        .concat(`.a${n}`)
        .slice(0, 250),
    }));
    await ground.withinBudget("issue against the most patterns", async () => {
      const answer = await owner.post(`${CM}/certificates`, {
        profileId: profile.id,
        attributes: { commonName: "a".repeat(60), altNames, ttl: "1d" },
      });
      if (![200, 400, 422].includes(answer.status)) accepted(answer);
      if (process.env["KEYWARD_BUDGET_SHOW"] && answer.status !== 200)
        process.stderr.write(`${JSON.stringify(answer.body).slice(0, 400)}\n`);
    });
  });

  it("pages of certificates, and all of them revoked", async () => {
    const { id: projectId } = await aProject(owner, { type: "cert-manager" });
    const root = await aRoot(owner, projectId);
    const profile = await aProfile(owner, projectId, root.id);
    await Promise.all(
      many(4, async (part) => {
        for (let n = part; n < 120; n += 4)
          await issue(owner, profile.id, {
            altNames: many(100, (m) => ({ type: "dns_name", value: `${n}-${m}.example.com` })),
            ttl: "30d",
          });
      }),
    );
    await ground.withinBudget("a page of a profile", async () => {
      accepted(await owner.get(`${CM}/certificate-profiles/${profile.id}/certificates?limit=100`));
    });
    await ground.withinBudget("search", async () => {
      accepted(await owner.get(`/api/v1/projects/${projectId}/certificates/search?limit=1000`));
    });
    await ground.withinBudget("revoke all", async (round) => {
      if (round > 0) return;
      accepted(
        await owner.post(`/api/v1/projects/${projectId}/certificates/bulk-revoke`, {
          query: {},
          limit: 10_000,
          revocationReason: "SUPERSEDED",
          dryRun: false,
        }),
      );
    });
  });
});
