/** An import goes on only as long as its caller has access: what is done stays and is reported, and a retry completes it. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, anIdentity, until } from "../../test/builders.ts";
import { openTestHouse, type Answer, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const passphrase = "correct horse battery";
const PATIENCE_MS = 15_000;
const ok = (answer: Answer) => {
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};
const admin = { roles: [{ role: "admin" }] };

/** A file with a secret in /a and one in /b: two batches. Both folders exist in the target project. */
async function stage(more: Record<string, unknown>) {
  const source = await aProject(house.owner);
  const target = await aProject(house.owner);
  for (const { id: projectId } of [source, target])
    for (const name of ["a", "b"])
      ok(await house.owner.post("/api/v2/folders", { projectId, environment: "dev", path: "/", name }));
  for (const secretPath of ["/a", "/b"]) {
    const at = { projectId: source.id, environment: "dev", secretPath };
    ok(await house.owner.post("/api/v4/secrets/KEY", { ...at, secretValue: "old" }));
    ok(await house.owner.patch("/api/v4/secrets/KEY", { ...at, secretValue: "new" }));
  }
  const response = await fetch(`${house.base}/api/v1/projects/${source.id}/export`, {
    method: "POST",
    headers: { authorization: `Bearer ${house.owner.token}`, "content-type": "application/json" },
    body: JSON.stringify({ passphrase, ...more }),
  });
  assert.equal(response.status, 200);
  const file = Buffer.from(await response.arrayBuffer()).toString("base64");
  const identity = await anIdentity(house.owner, house.base, target.id, admin);
  const take = (token: string) =>
    house.as(token).post(`/api/v1/projects/${target.id}/import`, { passphrase, file });
  return { projectId: target.id, identity, take };
}

const query = (text: string, values: unknown[] = []) =>
  withClient(house.database.server, house.database.connection.database, async (client) =>
    client.query(text, values),
  );

/** Begins the import, lets it come as far as its first batch, and lets it go on when `meanwhile` is over. */
async function between(projectId: string, begin: () => Promise<Answer>, meanwhile: () => Promise<unknown>) {
  return withClient(house.database.server, house.database.connection.database, async (client) => {
    await client.query("BEGIN");
    await client.query("SELECT pg_advisory_xact_lock(project_lock_key($1))", [projectId]);
    const answering = begin();
    await until(async () => {
      const { rows } = await query(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      return rows.length > 0;
    }, PATIENCE_MS);
    await meanwhile();
    await client.query("ROLLBACK");
    return answering;
  });
}

const hasKey = async (projectId: string, path: string) =>
  (await house.owner.get(`/api/v4/secrets/KEY?projectId=${projectId}&environment=dev&secretPath=${path}`))
    .status === 200;

async function importsTold(projectId: string) {
  const { auditLogs } = ok(
    await house.owner.get(`/api/v1/organization/audit-logs?projectId=${projectId}&eventType=import-project`),
  );
  return auditLogs.map((one: { event: { metadata: unknown } }) => one.event.metadata);
}

for (const includeHistory of [false, true])
  test(`a token that was revoked between two batches${includeHistory ? " with history" : ""}: the next is not applied`, async () => {
    const { projectId, identity, take } = await stage({ includeHistory });
    const stopped = await between(
      projectId,
      () => take(identity.token),
      () =>
        house.anonymous
          .post("/api/v1/auth/token/revoke", { accessToken: identity.token })
          .then((answer) => ok(answer)),
    );
    assert.deepEqual([await hasKey(projectId, "/a"), await hasKey(projectId, "/b")], [true, false]);
    assert.equal(stopped.status, 401);
    assert.equal(stopped.body.error, "UnauthorizedError");
    assert.match(stopped.body.message, /stays.*import the file again/);
    const [told] = await importsTold(projectId);
    assert.equal(told.isComplete, false);
    assert.equal(told.secrets, 1);

    const again = ok(await take(house.owner.token));
    assert.deepEqual(again.secrets.created, ["dev:/b:KEY"]);
    assert.equal(await hasKey(projectId, "/b"), true);
  });

for (const includeHistory of [false, true])
  test(`an identity that lost its rights between two batches${includeHistory ? " with history" : ""} writes nothing more`, async () => {
    const { projectId, identity, take } = await stage({ includeHistory });
    const stopped = await between(
      projectId,
      () => take(identity.token),
      async () =>
        ok(
          await house.owner.patch(`/api/v1/projects/${projectId}/memberships/identities/${identity.id}`, {
            roles: [{ role: "viewer" }],
          }),
        ),
    );
    assert.deepEqual([await hasKey(projectId, "/a"), await hasKey(projectId, "/b")], [true, false]);
    assert.equal(stopped.status, 403);
    assert.match(stopped.body.message, /stays.*import the file again/);
  });
