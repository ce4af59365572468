import { projects as contract } from "@keyward/server";
import type { Command } from "../command.ts";
import { UsageError } from "../failure.ts";
import { facts, table } from "../printing.ts";

const list: Command = {
  words: ["projects", "list"],
  about: "The projects that you are a member of",
  options: { type: { type: "string", value: "<type>", about: "secret-manager or cert-manager" } },
  async run({ client, arguments: given, answer }) {
    const type = given.text("type");
    const { projects } = await client.call(contract.listProjects, {
      query: type === undefined ? {} : { type },
    });
    answer(projects, () =>
      table(
        ["id", "name", "slug", "type", "created"],
        projects.map((each) => [each.id, each.name, each.slug, each.type, each.createdAt]),
      ),
    );
  },
};

const create: Command = {
  words: ["projects", "create"],
  about: "Create a project; you become its admin",
  operands: ["<name>"],
  options: {
    name: { type: "string", value: "<name>", about: "Its name" },
    slug: {
      type: "string",
      value: "<slug>",
      about: "Its short name in addresses; made from the name if absent",
    },
    type: { type: "string", value: "<type>", about: "secret-manager (default) or cert-manager" },
    description: { type: "string", about: "What it is for" },
  },
  async run({ client, arguments: given, answer }) {
    const type = contract.projectType.safeParse(given.text("type") ?? "secret-manager");
    if (!type.success) throw new UsageError("--type must be secret-manager or cert-manager.");
    const [slug, projectDescription] = [given.text("slug"), given.text("description")];
    const body = {
      projectName: given.operandOr(0, "name"),
      type: type.data,
      ...(slug === undefined ? {} : { slug }),
      ...(projectDescription === undefined ? {} : { projectDescription }),
    };
    const { project } = await client.call(contract.createProject, { body });
    answer(project, () =>
      facts({ id: project.id, name: project.name, slug: project.slug, type: project.type }),
    );
  },
};

export const projectCommands: readonly Command[] = [list, create];
