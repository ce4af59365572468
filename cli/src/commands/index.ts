import type { Command } from "../command.ts";
import { alertCommands } from "./alerts.ts";
import { certificateCommands } from "./certs.ts";
import { eventCommands } from "./events.ts";
import { identityCommands } from "./identities.ts";
import { licenceCommands } from "./licence.ts";
import { loginCommands } from "./login.ts";
import { projectCommands } from "./projects.ts";
import { statusCommands } from "./status.ts";

export const COMMANDS: readonly Command[] = [
  ...loginCommands,
  ...statusCommands,
  ...projectCommands,
  ...identityCommands,
  ...eventCommands,
  ...certificateCommands,
  ...licenceCommands,
  ...alertCommands,
];
