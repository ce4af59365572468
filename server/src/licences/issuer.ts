/**
 * The instance is its own licensor. Its signing key is an instance key of the keyring, so every node can sign; the
 * owner finds the same key as a file in the data folder and can sign on a machine that reaches no server.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { KeyObject } from "node:crypto";
import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import type { Db } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import type { LicencePayload } from "./document/contract.ts";
import { privateKeyFromSeed, publicDerOf, signLicence } from "./document/model.ts";
import { licenceChanged } from "./events.ts";
import { registerIssuer } from "./store.ts";

export const KEY_FILE = "licence-signing-key.pem";

interface LicenceIssuerNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly log: Log;
}

export interface LicenceIssuer {
  ensure(dataDir: string | undefined): Promise<void>;
  sign(payload: LicencePayload): string;
}

export function createIssuer({ db, clock, keyring, log }: LicenceIssuerNeeds): LicenceIssuer {
  let known: KeyObject | undefined;
  const key = (): KeyObject => (known ??= privateKeyFromSeed(keyring.instanceKey("licence-signing")));

  const register = () =>
    db.write(
      async (tx) => {
        const isNew = await registerIssuer(tx, {
          id: newId(),
          publicKey: publicDerOf(key()),
          at: clock.now(),
        });
        if (!isNew) return;
        // Nobody did this, so it leaves no audit row: one written this early would also come before its month is made.
        log.info("the instance's licence signing key was registered");
        // Documents that were refused for their unknown signature may be good now.
        tx.emit(licenceChanged({ orgId: null }));
      },
      { audited: false }, // at every start but the first there is nothing to change
    );

  return {
    async ensure(dataDir) {
      await register();
      if (dataDir !== undefined) await keepKeyFile(join(dataDir, KEY_FILE), key(), log);
    },
    sign: (payload) => signLicence(payload, key()),
  };
}

/** Written once and never again: a file that someone put there is theirs. The keyring stays the truth. */
async function keepKeyFile(path: string, key: KeyObject, log: Log): Promise<void> {
  const pem = key.export({ format: "pem", type: "pkcs8" }) as string;
  try {
    await writeFile(path, pem, { flag: "wx", mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") {
      return log.warn(
        { path, reason: (error as Error).message },
        "the licence signing key cannot be written to the data folder",
      );
    }
    const present = await readFile(path, "utf8").catch(() => undefined);
    if (present?.trim() !== pem.trim()) {
      log.warn(
        { path },
        "the licence signing key in the data folder is not this instance's; licences signed with it will be refused",
      );
    }
  }
}
