import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { aProject, anIdentity, aRole } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { sized } from "../../test/full-size.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const at = (projectId: string, more: Record<string, unknown> = {}) => ({
  projectId,
  environment: "dev",
  secretPath: "/",
  ...more,
});

test("the history of a secret is read, also after its end, and any version comes back as a new one", async () => {
  const { id: projectId } = await aProject(house.owner);
  const { secret } = (await house.owner.post("/api/v4/secrets/A", at(projectId, { secretValue: "one" })))
    .body;
  await house.owner.patch("/api/v4/secrets/A", at(projectId, { secretValue: "two" }));
  const back = await house.owner.post(`/api/v4/secrets/id/${secret.id}/rollback`, { version: 1 });
  assert.equal(back.status, 200, JSON.stringify(back.body));
  assert.deepEqual([back.body.secret.version, back.body.secret.secretValue], [3, "one"]);
  await house.owner.delete("/api/v4/secrets/A", at(projectId));
  const history = await house.owner.get(`/api/v4/secrets/id/${secret.id}/versions`);
  assert.equal(history.status, 200, JSON.stringify(history.body));
  assert.deepEqual(
    history.body.versions.map(
      (v: { version: number; secretValue: string; change: string }) =>
        `${v.version} ${v.change} ${v.secretValue}`,
    ),
    ["4 delete ", "3 update one", "2 update two", "1 create one"],
  );
  assert.equal(history.body.versions[0].actor.actorId, house.owner.identityId);
  const revived = await house.owner.post(`/api/v4/secrets/id/${secret.id}/rollback`, { version: 2 });
  assert.equal(revived.status, 200, JSON.stringify(revived.body));
  const now = (await house.owner.get(`/api/v4/secrets/A?projectId=${projectId}&environment=dev`)).body.secret;
  assert.deepEqual([now.id, now.version, now.secretValue], [secret.id, 5, "two"]);
  assert.equal(
    (await house.owner.post(`/api/v4/secrets/id/${secret.id}/rollback`, { version: 99 })).status,
    404,
  );
  const viewer = await anIdentity(house.owner, house.base, projectId, { roles: [{ role: "viewer" }] });
  assert.equal(
    (await viewer.client.post(`/api/v4/secrets/id/${secret.id}/rollback`, { version: 1 })).status,
    403,
  );
});

test("an environment goes back to a moment: names, values, folders; and a dry run changes nothing", async () => {
  const { id: projectId } = await aProject(house.owner);
  const put = (key: string, secretPath: string, secretValue: string) =>
    house.owner.post(`/api/v4/secrets/${key}`, at(projectId, { secretPath, secretValue }));
  await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name: "api" });
  await put("A", "/", "1");
  await put("B", "/api", "2");
  house.clock.advance(1000);
  const moment = house.clock.now().toISOString();
  house.clock.advance(1000);
  await house.owner.patch(
    "/api/v4/secrets/A",
    at(projectId, { secretValue: "changed", newSecretName: "RENAMED" }),
  );
  await put("C", "/", "new");
  await house.owner.delete("/api/v1/folders/api", { workspaceId: projectId, environment: "dev" });
  const url = `/api/v1/projects/${projectId}/secrets/rollback`;
  const dry = await house.owner.post(url, { environment: "dev", recursive: true, at: moment, dryRun: true });
  assert.equal(dry.status, 200, JSON.stringify(dry.body));
  const tree = async () =>
    (
      await house.owner.get(`/api/v4/secrets?projectId=${projectId}&environment=dev&recursive=true`)
    ).body.secrets.map(
      (s: { secretPath: string; secretKey: string; secretValue: string }) =>
        `${s.secretPath} ${s.secretKey}=${s.secretValue}`,
    );
  assert.deepEqual(await tree(), ["/ C=new", "/ RENAMED=changed"]);
  const done = await house.owner.post(url, { environment: "dev", recursive: true, at: moment });
  assert.equal(done.status, 200, JSON.stringify(done.body));
  assert.deepEqual(
    done.body.changes.map((c: { change: string; secretKey: string }) => `${c.change} ${c.secretKey}`).sort(),
    ["create B", "delete C", "update A"],
  );
  assert.deepEqual(await tree(), ["/ A=1", "/api B=2"]);
  assert.equal(
    (
      await house.owner.post(url, {
        environment: "dev",
        at: new Date(house.clock.millis() + 60_000).toISOString(),
      })
    ).status,
    400,
  );
});

interface Step {
  readonly kind: "put" | "remove" | "rename" | "move" | "swap";
  readonly key: string;
  readonly other: string;
  readonly value: string;
}
const KEYS = ["A", "B", "C"];
const steps = fc.array(
  fc.record({
    kind: fc.constantFrom("put", "remove", "rename", "move"),
    key: fc.constantFrom(...KEYS),
    other: fc.constantFrom(...KEYS),
    value: fc.string({ maxLength: 5 }),
  }),
  { minLength: 3, maxLength: 10 },
) as fc.Arbitrary<Step[]>;

test("after any changes, going back to any moment restores exactly what was there, and versions have no gaps", async () => {
  const perform = async (projectId: string, { kind, key, other, value }: Step): Promise<void> => {
    const secretPath = key === "C" ? "/f" : "/";
    const here = at(projectId, { secretPath });
    if (kind === "put") {
      const made = await house.owner.post(`/api/v4/secrets/${key}`, { ...here, secretValue: value });
      if (made.status === 400)
        await house.owner.patch(`/api/v4/secrets/${key}`, { ...here, secretValue: value });
    } else if (kind === "remove") await house.owner.delete(`/api/v4/secrets/${key}`, here);
    else if (kind === "rename")
      await house.owner.patch(`/api/v4/secrets/${key}`, { ...here, newSecretName: other });
    else {
      const found = await house.owner.get(
        `/api/v4/secrets/${key}?projectId=${projectId}&environment=dev&secretPath=${secretPath}`,
      );
      if (found.status === 200) {
        await house.owner.post("/api/v4/secrets/move", {
          projectId,
          sourceEnvironment: "dev",
          sourceSecretPath: secretPath,
          destinationEnvironment: "dev",
          destinationSecretPath: secretPath === "/" ? "/f" : "/",
          secretIds: [found.body.secret.id],
        });
      }
    }
  };
  const snapshot = async (projectId: string) =>
    (
      await house.owner.get(
        `/api/v4/secrets?projectId=${projectId}&environment=dev&recursive=true&expandSecretReferences=false`,
      )
    ).body.secrets
      .map(
        (s: { secretPath: string; secretKey: string; secretValue: string; id: string }) =>
          `${s.secretPath} ${s.secretKey}=${s.secretValue} ${s.id}`,
      )
      .sort();
  await fc.assert(
    fc.asyncProperty(steps, fc.nat(), async (list, pick) => {
      const { id: projectId } = await aProject(house.owner);
      await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name: "f" });
      const moments: { at: string; state: string[] }[] = [];
      for (const step of list) {
        await perform(projectId, step);
        moments.push({ at: house.clock.now().toISOString(), state: await snapshot(projectId) });
        house.clock.advance(1000);
      }
      const wanted = moments[pick % moments.length];
      assert.ok(wanted);
      const done = await house.owner.post(`/api/v1/projects/${projectId}/secrets/rollback`, {
        environment: "dev",
        recursive: true,
        at: wanted.at,
      });
      assert.equal(done.status, 200, JSON.stringify(done.body));
      assert.deepEqual(await snapshot(projectId), wanted.state);
      const client = await house.house.database.connect();
      const { rows } = await client.query(
        "SELECT 1 FROM secret_versions WHERE project_id = $1 GROUP BY secret_id HAVING max(version) <> count(*) OR min(version) <> 1",
        [projectId],
      );
      const { rows: torn } = await client.query(
        "SELECT 1 FROM secrets s WHERE project_id = $1 AND version <> (SELECT max(v.version) FROM secret_versions v WHERE v.secret_id = s.id)",
        [projectId],
      );
      await client.end();
      assert.deepEqual([rows, torn], [[], []]);
    }),
    { numRuns: sized(7, 25) },
  );
});

test("deleting an environment announces every name in it", async () => {
  const project = await aProject(house.owner);
  const seen: string[] = [];
  house.house.tail.onFacts((facts) => {
    for (const fact of facts) {
      const data = fact.data as { projectId: string; path: string; keys?: string[]; change?: string };
      if (fact.name === "secrets.changed" && data.projectId === project.id)
        seen.push(`${data.change} ${data.path} ${data.keys?.join(",")}`);
      if (fact.name === "project.changed" && data.projectId === project.id) seen.push("project");
    }
  });
  await house.owner.post("/api/v2/folders", { projectId: project.id, environment: "dev", name: "f" });
  await house.owner.post("/api/v4/secrets/A", at(project.id, { secretValue: "1" }));
  await house.owner.post("/api/v4/secrets/B", at(project.id, { secretPath: "/f", secretValue: "1" }));
  const dev = project.environments.find((environment) => environment.slug === "dev");
  assert.equal(
    (await house.owner.delete(`/api/v1/projects/${project.id}/environments/${dev?.id}`)).status,
    200,
  );
  while (!seen.includes("project")) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(seen, ["create / A", "create /f B", "delete / A", "delete /f B", "project"]);
  assert.equal((await house.owner.delete(`/api/v1/projects/${project.id}`)).status, 200);
  const client = await house.house.database.connect();
  const { rows } = await client.query(
    "SELECT (SELECT count(*) FROM secrets WHERE project_id = $1)::int AS a, (SELECT count(*) FROM secret_versions WHERE project_id = $1)::int AS b",
    [project.id],
  );
  await client.end();
  assert.deepEqual(rows, [{ a: 0, b: 0 }]);
});

test("a permission is explained by the rule that settles it", async () => {
  const { id: projectId } = await aProject(house.owner);
  const role = await aRole(house.owner, projectId, [
    { subject: "secrets", action: "read", conditions: { environment: { $eq: "dev" } } },
    {
      subject: "secrets",
      action: "readValue",
      inverted: true,
      conditions: { secretPath: { $glob: "/closed/**" } },
    },
  ]);
  const reader = await anIdentity(house.owner, house.base, projectId, { roles: [{ role }] });
  const ask = async (more: string, client = reader.client) =>
    (
      await client.get(
        `/api/v1/projects/${projectId}/permissions/explain?subject=secrets&action=readValue&environment=dev&secretName=A&${more}`,
      )
    ).body;
  assert.equal((await ask("secretPath=/")).allowed, true);
  const denied = await ask("secretPath=/closed/x");
  assert.deepEqual([denied.allowed, denied.decidedBy.inverted], [false, true]);
  assert.equal((await ask(`secretPath=/closed&identityId=${reader.id}`, house.owner)).allowed, false);
  assert.equal(
    (await reader.client.get(`/api/v1/projects/${projectId}/permissions/explain?subject=secretz&action=read`))
      .status,
    422,
  );
});
