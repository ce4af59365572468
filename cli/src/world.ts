import { homedir } from "node:os";
import { text } from "node:stream/consumers";

/** Everything a command touches besides files and the network, so that a test can be the terminal. */
export interface World {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  now(): Date;
  /** What was piped in, to its end. */
  readInput(): Promise<string>;
  /** The result; `print` ends the line. */
  print(text: string): void;
  /** Remarks and complaints, which must not get into a pipe. */
  complain(text: string): void;
}

export const processWorld: World = {
  env: process.env,
  home: homedir(),
  now: () => new Date(),
  readInput: () => text(process.stdin),
  print: (line) => void process.stdout.write(`${line}\n`),
  complain: (line) => void process.stderr.write(`${line}\n`),
};
