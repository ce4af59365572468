/** Every request has a budget: pages of people, identities, trails and versions, logins, explanations and streams. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { sealArchive } from "../../src/secret-files/service/seal-archive.ts";
import { anIdentity, aProject, aRole, credentials, unique } from "../builders.ts";
import { clientOf, OWNER, type Client } from "../harness.ts";
import { PATH as STREAMS } from "../event-streams.ts";
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
const metadata = many(100, (n) => ({ key: `key ${n}`.padEnd(255, "k"), value: "v".repeat(1020) }));
const batch = "/api/v4/secrets/batch";
const PASSPHRASE = "correct horse battery";

describe("no stretch of 50 ms, lists", { skip: !canWatch }, () => {
  it("identities: the most metadata, the longest page, a login", async () => {
    let id = "";
    await ground.withinBudget("the most metadata", async () => {
      ({ id } = accepted(await owner.post("/api/v1/identities", { name: unique("i"), metadata })).identity);
    });
    const { clientId, clientSecret } = await credentials(owner, id);
    await ground.withinBudget("log in", async () => {
      accepted(
        await clientOf(ground.base).post("/api/v1/auth/universal-auth/login", { clientId, clientSecret }),
      );
    });
    await ground.withinBudget("log in with a long secret", async () => {
      const answer = await clientOf(ground.base).post("/api/v1/auth/universal-auth/login", {
        clientId: randomUUID(),
        clientSecret: "x".repeat(1024),
      });
      assert.equal(answer.status, 401);
    });
    await ground.fill(
      `WITH more AS (
         INSERT INTO identities (id, org_id, name, metadata, created_at, updated_at)
         SELECT gen_random_uuid(), $1, 'identity ' || n, $2, now(), now() FROM generate_series(1, 9990) n RETURNING id
       ), places AS (
         INSERT INTO memberships (id, org_id, identity_id, created_at, updated_at)
         SELECT gen_random_uuid(), $1, id, now(), now() FROM more RETURNING id
       ) INSERT INTO membership_roles (id, membership_id, role) SELECT gen_random_uuid(), id, 'no-access' FROM places`,
      [
        ground.owner.orgId,
        JSON.stringify(many(10, (n) => ({ id: randomUUID(), key: `k${n}`, value: "v".repeat(100) }))),
      ],
    );
    await ground.withinBudget("the longest page of identities", async () => {
      const { identities } = accepted(await owner.get("/api/v1/identities?limit=10000"));
      assert.ok(identities.length > 9990, `${identities.length}`);
    });
  });

  it("people: the longest page, a login", async () => {
    await ground.fill(
      `WITH more AS (
         INSERT INTO users (id, email, first_name, last_name, created_at, updated_at)
         SELECT gen_random_uuid(), n || '@example.org', repeat('f', 255), repeat('l', 255), now(), now() FROM generate_series(1, 10000) n RETURNING id
       ), places AS (
         INSERT INTO memberships (id, org_id, user_id, created_at, updated_at)
         SELECT gen_random_uuid(), $1, id, now(), now() FROM more RETURNING id
       ) INSERT INTO membership_roles (id, membership_id, role) SELECT gen_random_uuid(), id, 'no-access' FROM places`,
      [ground.owner.orgId],
    );
    await ground.withinBudget("the longest page of people", async () => {
      const { members } = accepted(await owner.get("/api/v1/organization/members?limit=100"));
      assert.equal(members.length, 100);
    });
    await ground.withinBudget("search for people", async () => {
      accepted(await owner.get("/api/v1/organization/members?limit=100&search=ffl"));
    });
    await ground.withinBudget("log in with a password", async () => {
      accepted(await clientOf(ground.base).post("/api/v3/auth/login", OWNER));
    });
  });

  it("the audit trail", async () => {
    await ground.fill(
      `INSERT INTO audit_log (id, at, org_id, event, actor_type, actor_name, user_agent, metadata)
       SELECT gen_random_uuid(), now(), $1, 'update-role', 'identity', repeat('n', 255), repeat('u', 512), $2 FROM generate_series(1, 1001) n`,
      [
        ground.owner.orgId,
        JSON.stringify({
          permissions: many(150, (n) => ({ subject: "secrets", action: ["readValue", `${n}`] })),
        }),
      ],
    );
    await ground.withinBudget("the longest page of the trail", async () => {
      const { auditLogs } = accepted(await owner.get("/api/v1/organization/audit-logs?limit=1000"));
      assert.equal(auditLogs.length, 1000);
    });
  });

  it("an explanation of the most rules", async () => {
    const { id: projectId } = await aProject(owner);
    const rule = (n: number) => ({
      subject: "secrets",
      action: ["readValue", "create", "edit", "delete"],
      inverted: n % 2 === 0,
      conditions: { secretName: { $in: many(60, (m) => `name_${n}_${m}`) } },
    });
    const roles = [
      await aRole(owner, projectId, many(500, rule)),
      await aRole(owner, projectId, many(500, rule)),
    ];
    const { id: identityId } = await anIdentity(owner, ground.base, projectId, {
      roles: roles.map((role) => ({ role })),
    });
    const asked = new URLSearchParams({
      subject: "secrets",
      action: "readValue",
      identityId,
      environment: "dev",
      secretPath: `/${"p".repeat(255)}`,
      secretName: "N".repeat(255),
    });
    await ground.withinBudget("explain", async () => {
      const { considered } = accepted(
        await owner.get(`/api/v1/projects/${projectId}/permissions/explain?${asked}`),
      );
      assert.ok(considered.length >= 1000, `${considered.length}`);
    });
  });

  it("versions of the largest values", async () => {
    const { id } = await aProject(owner);
    const state = {
      key: "LARGE",
      value: "x\n".repeat(500_000),
      comment: "",
      metadata: [],
      tags: [],
      skipMultiline: null,
      reminderNote: null,
      reminderDays: null,
    };
    const at = "2026-01-01T00:00:00.000Z";
    const versions = many(30, (n) => ({
      ...state,
      version: n + 1,
      change: n === 0 ? ("create" as const) : ("update" as const),
      at,
      by: "x",
    }));
    const file = await sealArchive(
      {
        project: { name: "P", slug: "p" },
        environments: [{ slug: "dev", name: "Dev" }],
        tags: [],
        folders: [],
        secrets: [{ ...state, environment: "dev", path: "/", history: { createdAt: at, versions } }],
        imports: [],
      },
      PASSPHRASE,
    );
    const path = `/api/v1/projects/${id}/import`;
    accepted(await owner.post(path, { passphrase: PASSPHRASE, file: file.toString("base64") }));
    const listed = accepted(await owner.get(`/api/v4/secrets?projectId=${id}&environment=dev`));
    await ground.withinBudget("list versions", async () => {
      const answer = accepted(
        await owner.get(`/api/v4/secrets/id/${listed.secrets[0].id}/versions?limit=100`),
      );
      assert.equal(answer.versions.length, 31);
    });
  });

  it("streams with the most globs", async () => {
    const { id: projectId } = await aProject(owner);
    const folder = many(2, (n) => `${n}`.padEnd(240, "a"));
    let path = "";
    for (const name of folder) {
      accepted(
        await owner.post("/api/v1/folders", { projectId, environment: "dev", path: path || "/", name }),
      );
      path += `/${name}`;
    }
    accepted(
      await owner.post("/api/v1/admin/licences", {
        organizationId: ground.owner.orgId,
        plan: "enterprise",
        days: 30,
      }),
    );
    const register = many(100, (n) => ({
      event: "secret:create",
      conditions: { environmentSlug: "dev", secretPath: `/${"*a".repeat(5)}${n}b/*` },
    }));
    const ends: AbortController[] = [];
    const subscribe = async () => {
      const end = new AbortController();
      const answer = await fetch(`${ground.base}${STREAMS}`, {
        method: "POST",
        headers: { authorization: `Bearer ${ground.owner.token}`, "content-type": "application/json" },
        body: JSON.stringify({ projectId, register: register.slice(0, 85) }),
        signal: end.signal,
      });
      assert.equal(answer.status, 200, answer.ok ? "" : await answer.text());
      ends.push(end);
    };
    await ground.withinBudget("subscribe", () => subscribe(), {
      prepare: async () => {
        for (const end of ends.splice(0)) end.abort();
      },
    });
    while (ends.length < 4) await subscribe();
    await ground.withinBudget("announce", async (round) => {
      accepted(
        await owner.post(batch, {
          projectId,
          environment: "dev",
          secretPath: path,
          secrets: many(2000, (n) => ({ secretKey: `S_${round}_${n}`, secretValue: "v" })),
        }),
      );
    });
    for (const end of ends) end.abort();
  });
});
