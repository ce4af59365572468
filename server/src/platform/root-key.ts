/** The embedded default keeps its root key beside its data: made at the first start, readable by its owner alone. */
import { randomBytes } from "node:crypto";
import { access, link, mkdir, open, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError, parseRootKey } from "./config.ts";
import { Redacted } from "./redacted.ts";

const FILE = "root.key";

export async function readOrCreateRootKey(dataDir: string): Promise<Redacted<Buffer>> {
  const path = join(dataDir, FILE);
  await mkdir(dataDir, { recursive: true }).catch((error: Error) => {
    throw new ConfigError(`KEYWARD_DATA_DIR cannot be used: ${error.message}.`);
  });
  const known = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw new ConfigError(`The root key file ${path} cannot be read: ${error.message}.`);
  });
  if (known === undefined) await create(path, dataDir);
  try {
    return new Redacted(parseRootKey(known ?? (await readFile(path, "utf8"))));
  } catch {
    throw new ConfigError(`The root key file ${path} does not hold 32 bytes in base64.`);
  }
}

/** Written and synced before it gets its name (atomic rename): half a key would be a lost key. */
async function create(path: string, dataDir: string): Promise<void> {
  // A new key beside old data would only hide that the old key is gone.
  const hasData = await access(join(dataDir, "postgres", "PG_VERSION")).then(
    () => true,
    () => false,
  );
  if (hasData)
    throw new ConfigError(
      `The data folder ${dataDir} holds a database but no ${FILE}. Restore that file from your backup, or set KEYWARD_ROOT_KEY.`,
    );
  const draft = `${path}.${process.pid}.new`;
  const file = await open(draft, "wx", 0o600).catch((error: Error) => {
    throw new ConfigError(`KEYWARD_DATA_DIR cannot be written to: ${error.message}.`);
  });
  try {
    await file.writeFile(`${randomBytes(32).toString("base64")}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  try {
    await link(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await unlink(draft);
  }
}
