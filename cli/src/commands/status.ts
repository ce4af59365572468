import { status as contract } from "@keyward/server";
import type { Command } from "../command.ts";
import { facts } from "../printing.ts";

const status: Command = {
  words: ["status"],
  about: "Is the server well, and are you logged in?",
  options: {},
  async run({ client, world, answer }) {
    const { url, token, expiresAt } = client.target;
    const server = await client.call(contract.getStatus);
    const isOver = expiresAt !== undefined && new Date(expiresAt) <= world.now();
    const session =
      token === undefined
        ? "not logged in"
        : isOver
          ? `ended at ${expiresAt}`
          : expiresAt === undefined
            ? "token from KEYWARD_TOKEN"
            : `until ${expiresAt}`;
    answer({ url, ...server, session }, () =>
      facts({ server: url, message: server.message, date: server.date, session }),
    );
  },
};

export const statusCommands: readonly Command[] = [status];
