/** Projects in files, for tests. */
import assert from "node:assert/strict";
import { openArchive } from "../src/secret-files/service/seal-archive.ts";
import { aProject, aRole } from "./builders.ts";
import type { Answer, Client, Tenant, TestHouse } from "./harness.ts";

export const passphrase = "correct horse battery";
export const ok = (answer: Answer) => {
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};

export async function exported(
  base: string,
  tenant: Tenant,
  id: string,
  more: Record<string, unknown> = {},
): Promise<Buffer> {
  const response = await fetch(`${base}/api/v1/projects/${id}/export`, {
    method: "POST",
    headers: { authorization: `Bearer ${tenant.token}`, "content-type": "application/json" },
    body: JSON.stringify({ passphrase, ...more }),
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  assert.equal(response.status, 200, bytes.toString("utf8").slice(0, 500));
  return bytes;
}
export const taken = (client: Client, id: string, file: Buffer, more: Record<string, unknown> = {}) =>
  client.post(`/api/v1/projects/${id}/import`, { passphrase, file: file.toString("base64"), ...more });

/** A project as its own file tells it, without what differs by nature. */
export async function told(base: string, tenant: Tenant, id: string) {
  const file = await openArchive(await exported(base, tenant, id, { includeRoles: true }), passphrase);
  const sorted = <T>(list: readonly T[], nameOf: (one: T) => string) =>
    [...list].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  return {
    environments: sorted(file.environments, (one) => one.slug),
    tags: sorted(file.tags, (one) => one.slug),
    folders: sorted(file.folders, (one) => `${one.environment}:${one.path}`),
    secrets: sorted(
      file.secrets.map((one) => ({ ...one, tags: [...one.tags].sort() })),
      (one) => `${one.environment}:${one.path}:${one.key}`,
    ),
    imports: file.imports,
    roles: sorted(file.roles, (one) => one.slug),
  };
}

/** With something of everything that a file can hold. */
export async function aFullProject({ clock }: Pick<TestHouse, "clock">, tenant: Tenant) {
  const [{ id }, other] = [await aProject(tenant), await aProject(tenant, { slug: "shared-things" })];
  ok(await tenant.post(`/api/v1/projects/${id}/environments`, { name: "Quality", slug: "qa" }));
  const { tag } = ok(
    await tenant.post(`/api/v1/projects/${id}/tags`, { slug: "db", name: "DB", color: "red" }),
  );
  ok(
    await tenant.post("/api/v2/folders", {
      projectId: id,
      environment: "qa",
      path: "/a",
      name: "b",
      description: "deep",
    }),
  );
  const at = { projectId: id, environment: "qa", secretPath: "/a/b" };
  ok(
    await tenant.post("/api/v4/secrets/OLD_NAME", {
      ...at,
      secretValue: "first",
      secretComment: "why",
      secretMetadata: [
        { key: "team", value: "core" },
        { key: "pin", value: "1234", isEncrypted: true },
      ],
      tagIds: [tag.id],
      skipMultilineEncoding: true,
      secretReminderNote: "soon",
      secretReminderRepeatDays: 7,
    }),
  );
  clock.advance(60_000);
  ok(
    await tenant.patch("/api/v4/secrets/OLD_NAME", { ...at, newSecretName: "KEY", secretValue: "${dev.H}" }),
  );
  ok(await tenant.post("/api/v4/secrets/H", { projectId: id, environment: "dev", secretValue: "host" }));
  const add = (from: Record<string, unknown>) =>
    tenant.post("/api/v2/secret-imports", { projectId: id, environment: "dev", import: from });
  ok(await add({ sourceProjectId: other.id, environment: "prod", path: "/" }));
  ok(await add({ environment: "qa", path: "/a/b" }));
  ok(await add({ environment: "prod", path: "/" }));
  await aRole(tenant, id, [
    { subject: "secrets", action: ["readValue"], conditions: { environment: { $eq: "qa" } } },
  ]);
  return id;
}
