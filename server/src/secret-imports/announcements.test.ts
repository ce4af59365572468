/** Which change announces what: the table of events, row by row. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type Answer, type TestHouse } from "../../test/harness.ts";
import type { NumberedFact } from "../platform/outbox/index.ts";

let house: TestHouse;
let facts: NumberedFact[] = [];
before(async () => {
  house = await openTestHouse();
  house.house.tail.onFacts((more) => void facts.push(...more));
});
after(() => house.close());

interface Told {
  readonly projectId: string;
  readonly environment: string;
  readonly path: string;
  readonly change?: string;
  readonly keys?: readonly string[];
}

async function heard(): Promise<string[]> {
  const marker = await aProject(house.owner);
  while (!facts.some((fact) => (fact.data as { projectId?: string }).projectId === marker.id))
    await new Promise((resolve) => setTimeout(resolve, 5));
  const seen = facts.filter((fact) => fact.name.startsWith("secrets.")).map((fact) => fact.data as Told);
  facts = [];
  return seen.map(({ environment, path, change, keys }) =>
    change === undefined
      ? `mutation ${environment}${path}`
      : `${change} ${environment}${path} ${keys?.join(",")}`,
  );
}
const folderOf = (told: string): string => told.split(" ")[1] ?? "";
const ok = (answer: Answer) => {
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};

test("every way to change secrets announces what it amounts to, names only, in one piece per kind", async () => {
  const { id: projectId, environments } = await aProject(house.owner);
  const at = { projectId, environment: "dev" };
  const says = async (what: string, answer: Answer, expected: readonly string[]) => {
    ok(answer);
    // Within one folder deletions come first; which folder comes first is nobody's promise.
    const inOrder = (told: readonly string[]) =>
      [...told].sort((a, b) => folderOf(a).localeCompare(folderOf(b)));
    assert.deepEqual(inOrder(await heard()), inOrder(expected), what);
    return answer.body;
  };
  const { owner } = house;
  for (const name of ["f", "g"]) await owner.post("/api/v2/folders", { ...at, name });
  await heard();
  const pair = [
    { secretKey: "A", secretValue: "1" },
    { secretKey: "B", secretValue: "1" },
  ];
  const { secret } = await says(
    "create",
    await owner.post("/api/v4/secrets/K", { ...at, secretValue: "1" }),
    ["create dev/ K"],
  );
  await says("update", await owner.patch("/api/v4/secrets/K", { ...at, secretValue: "2" }), [
    "update dev/ K",
  ]);
  await says("rename", await owner.patch("/api/v4/secrets/K", { ...at, newSecretName: "N" }), [
    "delete dev/ K",
    "create dev/ N",
  ]);
  await says("many at once", await owner.post("/api/v4/secrets/batch", { ...at, secrets: pair }), [
    "create dev/ A,B",
  ]);
  await says(
    "many changed",
    await owner.patch("/api/v4/secrets/batch", {
      ...at,
      mode: "upsert",
      secrets: [...pair, { secretKey: "C", secretValue: "1" }],
    }),
    ["create dev/ C", "update dev/ A,B"],
  );
  await says(
    "many deleted",
    await owner.delete("/api/v4/secrets/batch", { ...at, secrets: [{ secretKey: "A" }, { secretKey: "B" }] }),
    ["delete dev/ A,B"],
  );
  await says(
    "a personal override",
    await owner.post("/api/v4/secrets/N", { ...at, secretValue: "x", type: "personal" }),
    [],
  );
  await says("its end", await owner.delete("/api/v4/secrets/N", { ...at, type: "personal" }), []);
  const trip = (kind: string, more: Record<string, unknown>) =>
    owner.post(`/api/v4/secrets/${kind}`, {
      projectId,
      sourceEnvironment: "dev",
      sourceSecretPath: "/",
      destinationEnvironment: "dev",
      destinationSecretPath: "/f",
      secretIds: [secret.id],
      ...more,
    });
  await says("copy", await trip("copy", {}), ["create dev/f N"]);
  await says("copy over", await trip("copy", { shouldOverwrite: true }), ["update dev/f N"]);
  await says("move", await trip("move", { destinationSecretPath: "/g" }), [
    "delete dev/ N",
    "create dev/g N",
  ]);
  house.clock.advance(1000);
  const moment = house.clock.now().toISOString();
  house.clock.advance(1000);
  await says(
    "rollback of one",
    await owner.post(`/api/v4/secrets/id/${secret.id}/rollback`, { version: 1 }),
    ["update dev/g N"],
  );
  await says("delete", await owner.delete("/api/v4/secrets/C", at), ["delete dev/ C"]);
  await says(
    "rollback of a deleted one",
    await owner.post(`/api/v1/projects/${projectId}/secrets/rollback`, {
      environment: "dev",
      recursive: true,
      at: moment,
    }),
    ["create dev/ C", "update dev/g N"],
  );
  await says(
    "import of a file",
    await owner.post(`/api/v1/projects/${projectId}/secrets/import`, {
      environment: "dev",
      content: "C=other\nD=1\n",
    }),
    ["create dev/ D", "update dev/ C"],
  );
  await says(
    "a dry run",
    await owner.post(`/api/v1/projects/${projectId}/secrets/import`, {
      environment: "dev",
      content: "E=1\n",
      dryRun: true,
    }),
    [],
  );

  const place = { ...at, path: "/" };
  const add = (path: string) =>
    owner.post("/api/v2/secret-imports", { ...place, import: { environment: "dev", path } });
  const one = await says("an import is added", await add("/f"), ["mutation dev/"]);
  await says("another", await add("/g"), ["mutation dev/"]);
  const importId = one.secretImport.id as string;
  await says(
    "reordered",
    await owner.patch(`/api/v2/secret-imports/${importId}`, { ...place, import: { position: 2 } }),
    ["mutation dev/"],
  );
  await says(
    "pointed elsewhere",
    await owner.patch(`/api/v2/secret-imports/${importId}`, {
      ...place,
      import: { environment: "prod", path: "/" },
    }),
    ["mutation dev/"],
  );
  await says(
    "a change in an imported folder",
    await owner.patch("/api/v4/secrets/N", { ...at, secretPath: "/g", secretValue: "9" }),
    ["update dev/g N", "mutation dev/"],
  );
  await says("an import is removed", await owner.delete(`/api/v2/secret-imports/${importId}`, place), [
    "mutation dev/",
  ]);
  await says("a folder is renamed", await owner.patch("/api/v2/folders/g", { ...place, name: "h" }), [
    "delete dev/g N",
    "create dev/h N",
    "mutation dev/",
  ]);
  await says(
    "a folder is deleted",
    await owner.delete("/api/v2/folders/h", { ...place, forceDelete: true }),
    ["delete dev/h N"],
  );
  const dev = environments.find(({ slug }) => slug === "dev");
  await says(
    "an environment is deleted",
    await owner.delete(`/api/v1/projects/${projectId}/environments/${dev?.id}`),
    ["delete dev/ C,D", "delete dev/f N"],
  );
});

test("importing a whole project announces every new name", async () => {
  const [from, into] = [await aProject(house.owner), await aProject(house.owner)];
  const passphrase = "correct horse battery";
  await house.owner.post("/api/v4/secrets/A", { projectId: from.id, environment: "dev", secretValue: "1" });
  const response = await fetch(`${house.base}/api/v1/projects/${from.id}/export`, {
    method: "POST",
    headers: { authorization: `Bearer ${house.owner.token}`, "content-type": "application/json" },
    body: JSON.stringify({ passphrase, includeHistory: true }),
  });
  const file = Buffer.from(await response.arrayBuffer()).toString("base64");
  await heard();
  ok(await house.owner.post(`/api/v1/projects/${into.id}/import`, { passphrase, file, dryRun: true }));
  assert.deepEqual(await heard(), []);
  ok(await house.owner.post(`/api/v1/projects/${into.id}/import`, { passphrase, file }));
  assert.deepEqual(await heard(), ["create dev/ A"]);
});

test("an import that several delete at once is deleted and announced once; those that stay keep their order", async () => {
  const { id: projectId } = await aProject(house.owner);
  const at = { projectId, environment: "dev" };
  const { owner } = house;
  const add = async (environment: string) =>
    ok(await owner.post("/api/v2/secret-imports", { ...at, path: "/", import: { environment, path: "/" } }))
      .secretImport;
  const ids: string[] = [(await add("staging")).id, (await add("prod")).id];
  await heard();
  const url = `/api/v2/secret-imports/${ids[0]}`;
  const answers = await Promise.all(Array.from({ length: 6 }, () => owner.delete(url, { ...at, path: "/" })));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 404, 404, 404, 404, 404]);
  assert.deepEqual(await heard(), ["mutation dev/"]);
  const move = () =>
    owner.patch(`/api/v2/secret-imports/${ids[1]}`, { ...at, path: "/", import: { position: 1 } });
  for (const answer of await Promise.all([move(), move(), add("staging").then(() => move())])) ok(answer);
  const { secretImports } = ok(
    await owner.get(`/api/v2/secret-imports?projectId=${projectId}&environment=dev`),
  );
  assert.deepEqual(
    secretImports.map((one: { position: number }) => one.position),
    [1, 2],
  );
});
