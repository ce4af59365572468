/**
 * Where the token of the last login lies: a file that only its owner reads. The token belongs to the server it came
 * from and is never sent to another one, whatever --url says.
 */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Failure, UsageError } from "./failure.ts";
import type { World } from "./world.ts";

interface Session {
  readonly url: string;
  readonly token: string;
  readonly expiresAt: string;
}

export interface ServerTarget {
  readonly url: string;
  readonly token: string | undefined;
  /** When the token ends, if it is known. */
  readonly expiresAt: string | undefined;
}

const DEFAULT_URL = "http://localhost:8080";

export const sessionPath = ({ env, home }: World): string =>
  join(env["XDG_CONFIG_HOME"] || join(home, ".config"), "keyward", "session.json");

const isSession = (value: unknown): value is Session =>
  typeof value === "object" &&
  value !== null &&
  ["url", "token", "expiresAt"].every((key) => typeof (value as Record<string, unknown>)[key] === "string");

async function readSession(world: World): Promise<Session | undefined> {
  const path = sessionPath(world);
  try {
    const value: unknown = JSON.parse(await readFile(path, "utf8"));
    return isSession(value) ? value : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new Failure(`The session in ${path} cannot be read: ${(error as Error).message}`);
  }
}

/** Written beside and moved into place: at no moment is there half a session, or one that others may read. */
export async function writeSession(world: World, session: Session): Promise<void> {
  const path = sessionPath(world);
  const beside = `${path}.${process.pid}`;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFile(beside, `${JSON.stringify(session)}\n`, { mode: 0o600 });
    await rename(beside, path);
  } catch (error) {
    throw new Failure(`The session cannot be kept in ${path}: ${(error as Error).message}`);
  }
}

function checkUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !["http:", "https:"].includes(url.protocol))
    throw new UsageError(`Not the address of a server: ${text}`);
  return text.replace(/\/+$/, "");
}

export async function findTarget(world: World, urlOption: string | undefined): Promise<ServerTarget> {
  const session = await readSession(world);
  const given = urlOption ?? (world.env["KEYWARD_URL"] || undefined);
  const url = checkUrl(given ?? session?.url ?? DEFAULT_URL);
  const token = world.env["KEYWARD_TOKEN"] || undefined;
  if (token !== undefined) return { url, token, expiresAt: undefined };
  const isItsServer = session?.url === url;
  return {
    url,
    token: isItsServer ? session.token : undefined,
    expiresAt: isItsServer ? session.expiresAt : undefined,
  };
}
