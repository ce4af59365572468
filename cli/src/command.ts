/**
 * A command is a value: its words, what it says about itself, what it takes, what it does. Parsing and help are
 * made from it, here and nowhere else.
 */
import { parseArgs } from "node:util";
import type { Client } from "./client.ts";
import { UsageError } from "./failure.ts";
import type { World } from "./world.ts";

interface Option {
  readonly type: "string" | "boolean";
  readonly about: string;
  /** What the value stands for in the help: `<id>`. */
  readonly value?: string;
  readonly multiple?: boolean;
}

export interface Call {
  readonly world: World;
  readonly client: Client;
  readonly arguments: Arguments;
  /** With --json the answer as it is; otherwise what `pretty` makes of it. */
  answer(value: unknown, pretty: () => string): void;
}

export interface Command {
  /** `["licence", "issue"]` */
  readonly words: readonly string[];
  readonly about: string;
  /** Names of what may stand without a dash: `["<name>"]`. */
  readonly operands?: readonly string[];
  readonly options: Readonly<Record<string, Option>>;
  readonly notes?: string;
  run(call: Call): Promise<void>;
}

const SHARED_OPTIONS = {
  url: {
    type: "string",
    value: "<url>",
    about: "The server; else KEYWARD_URL, else the one you logged in to",
  },
  json: { type: "boolean", about: "Print JSON for programs" },
  help: { type: "boolean", about: "Print this help" },
} as const satisfies Record<string, Option>;

type Values = Record<string, string | boolean | (string | boolean)[] | undefined>;

export class Arguments {
  readonly #values: Values;
  readonly #operands: readonly string[];

  constructor(values: Values, operands: readonly string[]) {
    this.#values = values;
    this.#operands = operands;
  }

  text(name: string): string | undefined {
    const value = this.#values[name];
    return typeof value === "string" ? value : undefined;
  }

  texts(name: string): string[] {
    const value = this.#values[name];
    return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
  }

  has(name: string): boolean {
    return this.#values[name] === true;
  }

  /** An operand, or an option that says the same: `create deploy-bot` and `create --name deploy-bot`. */
  operandOr(index: number, name: string): string {
    const [operand, option] = [this.#operands[index], this.text(name)];
    if (operand !== undefined && option !== undefined)
      throw new UsageError(`Give --${name} once: ${operand} or ${option}?`);
    const value = operand ?? option;
    if (value === undefined || value === "") throw new UsageError(`--${name} is missing.`);
    return value;
  }

  required(name: string): string {
    const value = this.text(name);
    if (value === undefined || value === "") throw new UsageError(`--${name} is missing.`);
    return value;
  }

  wholeNumber(name: string): number | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    if (!/^\d{1,9}$/.test(value)) throw new UsageError(`--${name} must be a whole number.`);
    return Number(value);
  }
}

export function parseArguments(command: Command, argv: readonly string[]): Arguments {
  const entries = Object.entries<Option>({ ...command.options, ...SHARED_OPTIONS });
  const options = Object.fromEntries(
    entries.map(([name, { type, multiple }]) => [name, { type, multiple: multiple ?? false }]),
  );
  try {
    const { values, positionals } = parseArgs({
      args: [...argv],
      options,
      allowPositionals: true,
      strict: true,
    });
    const surplus = positionals[command.operands?.length ?? 0];
    if (surplus !== undefined) throw new UsageError(`Unexpected argument: ${surplus}`);
    return new Arguments(values as Values, positionals);
  } catch (error) {
    if (error instanceof TypeError && "code" in error)
      throw new UsageError(error.message.split(". To specify")[0] ?? error.message);
    throw error;
  }
}

export function helpOf(command: Command): string {
  const entries = Object.entries<Option>({ ...command.options, ...SHARED_OPTIONS });
  const left = ([name, option]: [string, Option]) =>
    `  --${name}${option.type === "string" ? ` ${option.value ?? "<text>"}` : ""}`;
  const width = Math.max(...entries.map((entry) => left(entry).length));
  const lines = entries.map(
    (entry) => `${left(entry).padEnd(width)}  ${entry[1].about}${entry[1].multiple ? " (may repeat)" : ""}`,
  );
  const usage = [
    "keyward",
    ...command.words,
    ...(command.operands ?? []).map((operand) => `[${operand}]`),
    "[options]",
  ].join(" ");
  return [
    command.about,
    "",
    `Usage: ${usage}`,
    "",
    ...lines,
    ...(command.notes === undefined ? [] : ["", command.notes]),
  ].join("\n");
}
