/** Finds the command that was meant, runs it, and turns what happened into an exit code: 0 done, 1 failed, 2 misused. */
import { createClient, USER_AGENT } from "./client.ts";
import { helpOf, parseArguments, type Command } from "./command.ts";
import { COMMANDS } from "./commands/index.ts";
import { Failure, UsageError } from "./failure.ts";
import { findTarget } from "./session.ts";
import type { World } from "./world.ts";

function listOf(commands: readonly Command[]): string {
  const width = Math.max(...commands.map((command) => command.words.join(" ").length));
  return commands.map((command) => `  ${command.words.join(" ").padEnd(width)}  ${command.about}`).join("\n");
}

const overview = (commands: readonly Command[]): string =>
  [
    "Usage: keyward <command> [options]",
    "",
    listOf(commands),
    "",
    "keyward <command> --help tells more about one.",
  ].join("\n");

const startsWith = (argv: readonly string[], words: readonly string[]): boolean =>
  words.every((word, index) => argv[index] === word);

async function run(argv: readonly string[], world: World): Promise<void> {
  const [first] = argv;
  const wantsHelp = argv.includes("--help") || argv.includes("-h");
  if (first === "--version") return world.print(USER_AGENT.replace("/", " "));
  if (first === undefined || first.startsWith("-") || first === "help") {
    if (first === undefined) throw new UsageError(overview(COMMANDS));
    if (!wantsHelp && first !== "help")
      throw new UsageError(`Name a command before ${first}.\n\n${overview(COMMANDS)}`);
    return world.print(overview(COMMANDS));
  }
  const command = COMMANDS.find(({ words }) => startsWith(argv, words));
  if (!command) {
    const sameNoun = COMMANDS.filter(({ words }) => words[0] === first);
    const known = overview(sameNoun.length > 0 ? sameNoun : COMMANDS);
    if (wantsHelp && sameNoun.length > 0) return world.print(known);
    throw new UsageError(
      `There is no command ${argv.slice(0, sameNoun.length > 0 ? 2 : 1).join(" ")}.\n\n${known}`,
    );
  }
  if (wantsHelp) return world.print(helpOf(command));
  await runCommand(command, argv.slice(command.words.length), world);
}

async function runCommand(command: Command, rest: readonly string[], world: World): Promise<void> {
  try {
    const given = parseArguments(command, rest);
    const client = createClient(await findTarget(world, given.text("url")), world.now);
    const answer = (value: unknown, pretty: () => string) =>
      world.print(given.has("json") ? JSON.stringify(value, null, 2) : pretty());
    await command.run({ world, client, arguments: given, answer });
  } catch (error) {
    if (error instanceof UsageError)
      throw new UsageError(`${error.message}\nSee keyward ${command.words.join(" ")} --help.`);
    throw error;
  }
}

export async function main(argv: readonly string[], world: World): Promise<number> {
  try {
    await run(argv, world);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof Failure)) throw error;
    world.complain(error.message);
    return error instanceof UsageError ? 2 : 1;
  }
}
