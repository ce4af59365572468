import { universalAuth } from "@keyward/server";
import type { Arguments, Command } from "../command.ts";
import { UsageError } from "../failure.ts";
import { sessionPath, writeSession } from "../session.ts";
import type { World } from "../world.ts";

/** A secret on a command line stands in the shell's history and in everyone's list of processes; so there are two other ways. */
async function secretOf(given: Arguments, world: World): Promise<string> {
  const option = given.text("client-secret");
  const secret =
    option === "-" ? (await world.readInput()).trim() : (option ?? world.env["KEYWARD_CLIENT_SECRET"] ?? "");
  if (secret === "")
    throw new UsageError(
      "The client secret is missing: set KEYWARD_CLIENT_SECRET, or pipe it in with --client-secret -.",
    );
  return secret;
}

const isPlainAndFar = (url: string): boolean => {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !["localhost", "127.0.0.1", "[::1]"].includes(hostname);
};

const login: Command = {
  words: ["login"],
  about: "Log in as a machine identity; the token is kept in ~/.config/keyward/session.json",
  options: {
    "client-id": { type: "string", value: "<id>", about: "Client id; else KEYWARD_CLIENT_ID" },
    "client-secret": {
      type: "string",
      value: "<secret|->",
      about: "Client secret, - to read it from stdin; else KEYWARD_CLIENT_SECRET",
    },
  },
  async run({ world, client, arguments: given, answer }) {
    const clientId = given.text("client-id") ?? world.env["KEYWARD_CLIENT_ID"];
    if (!clientId)
      throw new UsageError("The client id is missing: give --client-id or set KEYWARD_CLIENT_ID.");
    const clientSecret = await secretOf(given, world);
    const { url } = client.target;
    if (isPlainAndFar(url))
      world.complain(`Warning: ${url} is not encrypted; the secret can be read on its way.`);
    const granted = await client.call(universalAuth.universalLogin, { body: { clientId, clientSecret } });
    const expiresAt = new Date(world.now().getTime() + granted.expiresIn * 1000).toISOString();
    await writeSession(world, { url, token: granted.accessToken, expiresAt });
    answer({ url, expiresAt, session: sessionPath(world) }, () => `Logged in to ${url} until ${expiresAt}.`);
    if (world.env["KEYWARD_TOKEN"])
      world.complain("Note: KEYWARD_TOKEN is set and goes before this session.");
  },
};

export const loginCommands: readonly Command[] = [login];
