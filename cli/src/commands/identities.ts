import { identities as contract } from "@keyward/server";
import type { Client, Reply } from "../client.ts";
import type { Command } from "../command.ts";
import { UsageError } from "../failure.ts";
import { facts, table } from "../printing.ts";

const PROJECT = { type: "string", value: "<id|slug>", about: "The project" } as const;
const PAGE = 1000;

type Identity = Reply<typeof contract.getProjectIdentity>["identity"];

async function everyIdentity(
  client: Client,
  projectId: string,
  search: string | undefined,
): Promise<Identity[]> {
  const found: Identity[] = [];
  for (;;) {
    const query = {
      limit: String(PAGE),
      offset: String(found.length),
      ...(search === undefined ? {} : { search }),
    };
    const { identities } = await client.call(contract.listProjectIdentities, {
      params: { projectId },
      query,
    });
    found.push(...identities);
    if (identities.length < PAGE) return found;
  }
}

const list: Command = {
  words: ["identities", "list"],
  about: "The machine identities of a project",
  options: { project: PROJECT, search: { type: "string", about: "Only those whose name contains this" } },
  async run({ client, arguments: given, answer }) {
    const identities = await everyIdentity(client, given.required("project"), given.text("search"));
    const columns = ["id", "name", "auth", "protected", "created"];
    answer(identities, () =>
      table(
        columns,
        identities.map((each) => [
          each.id,
          each.name,
          each.authMethods.join(",") || "-",
          each.hasDeleteProtection ? "yes" : "no",
          each.createdAt,
        ]),
      ),
    );
  },
};

function pairOf(text: string): { key: string; value: string } {
  const at = text.indexOf("=");
  if (at < 1) throw new UsageError(`--metadata must be key=value, not ${text}`);
  return { key: text.slice(0, at), value: text.slice(at + 1) };
}

const create: Command = {
  words: ["identities", "create"],
  about: "Create a machine identity in a project",
  operands: ["<name>"],
  options: {
    project: PROJECT,
    name: { type: "string", value: "<name>", about: "Its name" },
    role: {
      type: "string",
      value: "<slug>",
      about: "A role in the project; without one it may do nothing yet",
      multiple: true,
    },
    metadata: { type: "string", value: "<key=value>", about: "A note to keep with it", multiple: true },
    protect: { type: "boolean", about: "Refuse its deletion until the protection is taken off" },
  },
  async run({ client, arguments: given, answer }) {
    const body = {
      name: given.operandOr(0, "name"),
      roles: given.texts("role").map((role) => ({ role })),
      metadata: given.texts("metadata").map(pairOf),
      hasDeleteProtection: given.has("protect"),
    };
    const { identity } = await client.call(contract.createProjectIdentity, {
      params: { projectId: given.required("project") },
      body,
    });
    answer(identity, () => facts({ id: identity.id, name: identity.name, project: identity.projectId }));
  },
};

const remove: Command = {
  words: ["identities", "delete"],
  about: "Delete a machine identity; its credentials and tokens end at once",
  operands: ["<id>"],
  options: { project: PROJECT, id: { type: "string", value: "<id>", about: "The identity" } },
  async run({ client, arguments: given, answer }) {
    const params = { projectId: given.required("project"), identityId: given.operandOr(0, "id") };
    const { identity } = await client.call(contract.deleteProjectIdentity, { params });
    answer(identity, () => `Deleted ${identity.name} (${identity.id}).`);
  },
};

export const identityCommands: readonly Command[] = [list, create, remove];
