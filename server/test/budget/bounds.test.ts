/** What a tenant can make many of ends somewhere: the last one is taken, one more is a clear refusal, and all are shown in chunks. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
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

/** The last that there is room for, and one more. */
async function refusedAfterOne(make: (n: number) => Promise<Answer>, why: RegExp): Promise<void> {
  accepted(await make(1));
  const refused = await make(2);
  assert.equal(refused.status, 400, JSON.stringify(refused.body));
  assert.match(refused.body.message, why);
}

describe("bounds", { skip: !canWatch }, () => {
  it("environments of a project", async () => {
    const { id } = await aProject(owner);
    await ground.fill(
      `INSERT INTO environments (id, project_id, name, slug, position, created_at, updated_at)
       SELECT gen_random_uuid(), $1, repeat('n', 60) || n, 'env-' || n, 10 + n, now(), now()
       FROM generate_series(1, 999 - (SELECT count(*) FROM environments WHERE project_id = $1)) n`,
      [id],
    );
    const path = `/api/v1/projects/${id}/environments`;
    await refusedAfterOne(
      (n) => owner.post(path, { name: `Last ${n}`, slug: `last-${n}` }),
      /at most 1,000 environments/,
    );
    await ground.withinBudget("a project of the most environments", async () => {
      const { project } = accepted(await owner.get(`/api/v1/projects/${id}`));
      assert.equal(project.environments.length, 1000);
    });
  });

  it("tags of a project", async () => {
    const { id } = await aProject(owner);
    await ground.fill(
      `INSERT INTO tags (id, project_id, slug, name, color, created_at, updated_at)
       SELECT gen_random_uuid(), $1, 'tag-' || n, repeat('n', 60), '#fff', now(), now() FROM generate_series(1, 9999) n`,
      [id],
    );
    const path = `/api/v1/projects/${id}/tags`;
    await refusedAfterOne(
      (n) => owner.post(path, { slug: `last-${n}`, color: "#fff" }),
      /at most 10,000 tags/,
    );
    await ground.withinBudget("the most tags", async () => {
      assert.equal(accepted(await owner.get(path)).tags.length, 10_000);
    });
  });

  it("roles of an organisation", async () => {
    const path = "/api/v1/organization/roles";
    const role = (n: number) => ({
      slug: `last-${n}`,
      name: "Last",
      permissions: [{ subject: "audit-logs", action: ["read"] }],
    });
    const first = accepted(await owner.post(path, { ...role(0), slug: "first" })).role;
    await ground.fill(
      `INSERT INTO roles SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'slug', 'role-' || n))).*
       FROM roles r CROSS JOIN generate_series(1, 498) n WHERE r.id = $1`,
      [first.id],
    );
    await refusedAfterOne((n) => owner.post(path, role(n)), /500 custom roles already/);
    await ground.withinBudget("the most roles", async () => {
      assert.ok(accepted(await owner.get(path)).roles.length > 500);
    });
  });
});
