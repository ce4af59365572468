/** Every request has a budget: roles, alerts and subscriptions at their bounds. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { anIdentity, aProject, aRole, unique } from "../builders.ts";
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
const rolesOf = (projectId: string) => `/api/v1/projects/${projectId}/roles`;

/** As many cases as a rule can be cut into, each to be compared with every rule of the other side. */
const wideRule = (n: number) => ({
  subject: "secrets",
  action: ["readValue", "create", "edit", "delete"],
  conditions: {
    secretName: { $in: many(80, (m) => `name_${n}_${m}`) },
    secretPath: { $glob: `/a${n}/**` },
  },
});
const patternRule = (n: number) => ({
  subject: "secrets",
  action: ["readValue"],
  conditions: { secretName: { $glob: `*a${n}*b` } },
});
const largestRules = () => [...many(130, wideRule), ...many(370, patternRule)];
const denials = () =>
  many(500, (n) => ({
    subject: "secrets",
    action: ["readValue", "create", "edit"],
    inverted: true,
    conditions: { secretName: { $in: many(20, (m) => `other_${n}_${m}`) } },
  }));

describe("no stretch of 50 ms, rights", { skip: !canWatch }, () => {
  it("the largest roles: made, changed, listed, given, compared", async () => {
    const project = await aProject(owner);
    const permissions = largestRules();
    let roleId = "";
    await ground.withinBudget("create the largest role", async () => {
      roleId = accepted(
        await owner.post(rolesOf(project.id), { slug: unique("role"), name: "R", permissions }),
      ).role.id;
    });
    await ground.withinBudget("create a role of the most values", async () => {
      const { role } = accepted(
        await owner.post(rolesOf(project.id), {
          slug: unique("role"),
          name: "R",
          permissions: many(470, () => ({
            subject: "secrets",
            action: ["readValue"],
            conditions: Object.fromEntries(
              ["secretName", "environment", "secretPath", "secretTags"].map((name) => [
                name,
                { $in: many(100, () => (name === "secretPath" ? "/" : "a")) },
              ]),
            ),
          })),
        }),
      );
      assert.equal(role.permissions.length, 470);
    });
    await ground.withinBudget("refuse a role of unknown conditions", async () => {
      const conditions = Object.fromEntries(many(24_000, (n) => [`c${n}`, ""]));
      const answer = await owner.post(rolesOf(project.id), {
        slug: unique("role"),
        name: "R",
        permissions: many(3, () => ({ subject: "secrets", action: "readValue", conditions })),
      });
      assert.equal(answer.status, 422);
      assert.equal(answer.body.message.length, 50);
    });
    await ground.withinBudget("change the largest role", async (round) => {
      accepted(
        await owner.patch(`${rolesOf(project.id)}/${roleId}`, {
          permissions: permissions.map((rule) => ({
            ...rule,
            conditions: { ...rule.conditions, environment: `e${round}` },
          })),
        }),
      );
    });
    const holding = await aRole(owner, project.id, [
      { subject: "role", action: ["create", "edit", "read"] },
      { subject: "identity", action: ["create", "edit", "read", "grantPrivileges"].slice(0, 3) },
      ...permissions.slice(0, 498),
    ]);
    const denying = await aRole(owner, project.id, denials());
    const holder = await anIdentity(owner, ground.base, project.id, {
      roles: [{ role: holding }, { role: denying }],
    });
    await ground.withinBudget("judge the largest role by the largest rights", async () => {
      const answer = await holder.client.post(rolesOf(project.id), {
        slug: unique("role"),
        name: "R",
        permissions: permissions.slice(0, 498),
      });
      assert.ok([200, 403].includes(answer.status), JSON.stringify(answer.body).slice(0, 1000));
    });
    const { identity } = accepted(await owner.post("/api/v1/identities", { name: unique("i") }));
    const small = await Promise.all(
      many(45, (n) =>
        aRole(
          owner,
          project.id,
          many(11, (m) => wideRule(n * 11 + m)),
        ),
      ),
    );
    await ground.withinBudget("give as many roles as one may hold", async (round) => {
      const path = `/api/v1/projects/${project.id}/memberships/identities/${identity.id}`;
      const roles = small.map((role) => ({ role }));
      const answer = await (round === 0 ? owner.post(path, { roles }) : owner.patch(path, { roles }));
      accepted(answer);
    });
    await ground.withinBudget("judge many roles by the largest rights", async () => {
      const path = `/api/v1/projects/${project.id}/memberships/identities/${identity.id}`;
      const answer = await holder.client.patch(path, { roles: small.slice(0, 44).map((role) => ({ role })) });
      assert.ok([200, 403].includes(answer.status), JSON.stringify(answer.body).slice(0, 1000));
    });
  });

  it("as many roles as a project may have", async () => {
    const project = await aProject(owner);
    // Of a megabyte each, as much as a body takes, until they have sixteen together.
    const permissions = many(440, (n) => ({
      subject: "secrets",
      action: ["readValue"],
      conditions: { secretName: { $in: many(100, (m) => `name-${n}-${m}`.padEnd(18, "x")) } },
    }));
    let count = 0;
    let answer = await owner.post(rolesOf(project.id), { slug: "r-0", name: "R", permissions });
    for (; answer.status === 200 && count < 50; count += 1)
      answer = await owner.post(rolesOf(project.id), { slug: `r-${count + 1}`, name: "R", permissions });
    assert.equal(answer.status, 400);
    assert.match(answer.body.message, /more than 16 MB together/);
    assert.ok(count >= 15, `${count} roles`);
    await ground.withinBudget("list roles", async () => {
      const { roles } = accepted(await owner.get(rolesOf(project.id)));
      assert.ok(roles.length >= count, `${roles.length}`);
    });
  });

  it("alerts with the most filters", async () => {
    const project = await aProject(owner, { type: "cert-manager" });
    const filters = many(50, (n) => ({
      field: n % 2 === 0 ? "common_name" : "any",
      operator: n % 2 === 0 ? "equals" : "matches",
      value: many(n % 2 === 0 ? 37 : 3, (m) => (n % 2 === 0 ? `name${m}` : `*a${n}*${m}*`).padEnd(40, "x")),
    }));
    const alert = (more: object = {}) => ({
      name: unique("alert"),
      eventType: "expiration",
      alertBefore: "30d",
      filters,
      channels: [{ config: { recipients: ["ops@example.com"] } }],
      projectId: project.id,
      ...more,
    });
    await ground.withinBudget("create an alert", async () => {
      accepted(await owner.post("/api/v1/cert-manager/alerts", alert()));
    });
    const long = many(50, () => ({
      field: "any",
      value: many(4, (m) => `*${"a?".repeat(500)}${m}*`),
      operator: "matches",
    }));
    await ground.withinBudget("create an alert of long patterns", async () => {
      accepted(await owner.post("/api/v1/cert-manager/alerts", alert({ filters: long })));
    });
    // As many values as an alert may have, ten channels.
    const large = alert({
      filters: many(50, (n) => ({
        field: "san",
        operator: "equals",
        value: many(20, (m) => `${n}-${m}.`.padEnd(200, "x")),
      })),
      channels: many(10, (n) => ({ config: { recipients: many(10, (m) => `${n}-${m}@example.com`) } })),
    });
    await Promise.all(
      many(4, async () => {
        for (let n = 0; n < 25; n += 1)
          accepted(await owner.post("/api/v1/cert-manager/alerts", { ...large, name: unique("alert") }));
      }),
    );
    await ground.withinBudget("list alerts", async () => {
      const { alerts } = accepted(
        await owner.get(`/api/v1/cert-manager/alerts?projectId=${project.id}&limit=100`),
      );
      assert.equal(alerts.length, 100);
    });
    await ground.withinBudget("preview", async () => {
      accepted(
        await owner.post("/api/v1/cert-manager/alerts/preview/certificates", {
          filters: long,
          alertBefore: "30d",
          projectId: project.id,
        }),
      );
    });
  });

  it("documents", async () => {
    // The first print is what counts, and a server prints it once.
    const other = await openGround();
    await other.withinBudget("OpenAPI", async () => accepted(await other.owner.get("/api/docs/json")), {
      rounds: 1,
    });
    await other.close();
  });
});
