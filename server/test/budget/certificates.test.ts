/** Every request has a budget: policies, names and certificates at their bounds. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject } from "../builders.ts";
import { anIntermediate, aProfile, aRoot, issue } from "../certificates.ts";
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

describe("no stretch of 50 ms, certificates", { skip: !canWatch }, () => {
  it("the most patterns of a policy against the most names of a certificate", async () => {
    const { id: projectId } = await aProject(owner, { type: "cert-manager" });
    const root = await aRoot(owner, projectId, {});
    const pattern = (n: number) => `${"*a".repeat(15)}b${n}`;
    const sans = many(1, () => ({
      type: "dns_name",
      allowed: ["*"],
      denied: many(200, pattern),
    }));
    const subject = many(1, () => ({ type: "common_name", allowed: ["*"], denied: many(200, pattern) }));
    const profile = await aProfile(owner, projectId, root.id, { policy: { sans, subject } });
    // Of a wildcard name every name that it stands for is asked about, too.
    const altNames = many(100, (n) => ({
      type: "dns_name",
      value: `${n % 2 === 0 ? "*." : ""}${many(4, () => "a".repeat(57)).join(".")}.a${n}`,
    }));
    await ground.withinBudget("issue against the most patterns", async () => {
      const answer = await owner.post(`${CM}/certificates`, {
        profileId: profile.id,
        attributes: { commonName: "a".repeat(60), altNames, ttl: "1d" },
      });
      accepted(answer);
    });
  });

  it("an authority under the most constraints", async () => {
    const { id: projectId } = await aProject(owner, { type: "cert-manager" });
    const names = (of: string) =>
      many(100, (n) => ({
        type: "dns_name",
        value: `${of}${n}.${"a".repeat(60)}.${"b".repeat(60)}.example`,
      }));
    const nameConstraints = { permitted: names("p"), excluded: names("e") };
    const root = await aRoot(owner, projectId, { nameConstraints });
    let wanted = { id: "", csr: "" };
    const prepare = async () => {
      const { id } = await anIntermediate(owner, projectId, null);
      wanted = { id, csr: accepted(await owner.get(`${CM}/ca/internal/${id}/csr`)).csr };
    };
    let signed: { certificate: string; certificateChain: string };
    const sign = async () => {
      signed = accepted(
        await owner.post(`${CM}/ca/internal/${root.id}/sign-intermediate`, {
          csr: wanted.csr,
          notAfter: new Date(Date.now() + 86_400_000).toISOString(),
          nameConstraints,
        }),
      );
    };
    await ground.withinBudget("sign under constraints", sign, { prepare });
    await ground.withinBudget(
      "import under constraints",
      async () => {
        const { certificate, certificateChain } = signed;
        accepted(
          await owner.post(`${CM}/ca/internal/${wanted.id}/import-certificate`, {
            certificate,
            certificateChain,
          }),
        );
      },
      {
        prepare: async () => {
          await prepare();
          await sign();
        },
      },
    );
    const profile = await aProfile(owner, projectId, wanted.id);
    await ground.withinBudget("issue under constraints", async () => {
      const altNames = many(100, (n) => ({
        type: "dns_name",
        value: `x.p${n}.${"a".repeat(60)}.${"b".repeat(60)}.example`,
      }));
      const attributes = { commonName: altNames[0]?.value.slice(0, 0), altNames, ttl: "1h" };
      accepted(await owner.post(`${CM}/certificates`, { profileId: profile.id, attributes }));
    });
  });

  it("pages of certificates; all of them exported, renewed and revoked", async () => {
    const { id: projectId } = await aProject(owner, { type: "cert-manager" });
    const root = await aRoot(owner, projectId);
    const profile = await aProfile(owner, projectId, root.id);
    const fill = () =>
      Promise.all(
        many(4, async (part) => {
          for (let n = part; n < 100; n += 4)
            await issue(owner, profile.id, {
              altNames: many(100, (m) => ({ type: "dns_name", value: `${n}-${m}.example.com` })),
              ttl: "30d",
            });
        }),
      );
    await fill();
    await ground.withinBudget("a page of a profile", async () => {
      const path = `${CM}/certificate-profiles/${profile.id}/certificates?limit=100`;
      assert.equal(accepted(await owner.get(path)).certificates.length, 100);
    });
    await ground.withinBudget("search", async () => {
      const path = `/api/v1/projects/${projectId}/certificates/search?limit=1000`;
      assert.ok(accepted(await owner.get(path)).certificates.length >= 100);
    });
    await ground.withinBudget("export certificates", async () => {
      const text = accepted(await owner.get(`/api/v1/projects/${projectId}/certificates/export`)) as string;
      assert.ok(text.trim().split("\n").length >= 100);
    });
    // Each round finds those that the round before has made.
    await ground.withinBudget("renew all", async () => {
      const { done, failed } = accepted(
        await owner.post(`/api/v1/projects/${projectId}/certificates/bulk-renew`, { query: {}, limit: 100 }),
      );
      // Among them is the authority's own, which is not renewed like this.
      assert.ok(done >= 99, JSON.stringify(failed));
    });
    await ground.withinBudget(
      "revoke all",
      async () => {
        const { matched, done } = accepted(
          await owner.post(`/api/v1/projects/${projectId}/certificates/bulk-revoke`, {
            query: {},
            limit: 10_000,
            revocationReason: "SUPERSEDED",
            dryRun: false,
          }),
        );
        assert.ok(done >= 100, `${done} of ${matched}`);
      },
      { prepare: (round) => (round === 0 ? Promise.resolve() : fill()) },
    );
  });
});
