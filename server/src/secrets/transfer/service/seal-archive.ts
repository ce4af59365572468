/**
 * The file that a whole project travels in: one line that says how the key is made from the passphrase, then one
 * authenticated ciphertext. A wrong passphrase, a cut or a flipped bit anywhere refuses the whole file.
 */
import { randomBytes, scrypt } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { z } from "zod";
import { decrypt, encryptLong } from "../../../platform/crypto/index.ts";
import { hasMoreParts } from "../../../platform/json-parts.ts";
import { Pace } from "../../../platform/pace.ts";
import { badRequest } from "../../../platform/problem.ts";
import {
  archive,
  archivedSecret,
  type Archive,
  type ArchivedSecret,
  type NewArchive,
} from "../archive/contract.ts";

const COST = { N: 2 ** 15, r: 8, p: 1, maxmem: 128 * 1024 * 1024 };
const MAX_HEAD = 256;
// The first version had no roles, no history and no imports from other projects; it is still understood.
const MAGIC = "keyward-project-2";
const HEAD = /^keyward-project-[12] scrypt ([A-Za-z0-9_-]{22})$/;

const keyOf = (passphrase: string, salt: Buffer): Promise<Buffer> =>
  new Promise((resolve, reject) =>
    scrypt(passphrase.normalize("NFKC"), salt, 32, COST, (error, key) =>
      error ? reject(error) : resolve(key),
    ),
  );

export async function sealArchive(content: NewArchive, passphrase: string): Promise<Buffer> {
  const salt = randomBytes(16);
  const head = `${MAGIC} scrypt ${salt.toString("base64url")}`;
  const box = await encryptLong(await keyOf(passphrase, salt), await write(content), [head]);
  return Buffer.concat([Buffer.from(`${head}\n`), box]);
}

/** Of the document inside: some two hundred thousand secrets. */
const MOST_PARTS = 5_000_000;
/** So many secrets are looked through at once; then others get their turn. */
const SLICE = 1000;

async function write({ secrets, ...rest }: NewArchive): Promise<Buffer> {
  const parts = [Buffer.from(`${JSON.stringify(rest).slice(0, -1)},"secrets":[`)];
  const pace = new Pace();
  for (const secret of secrets) {
    parts.push(Buffer.from(`${parts.length > 1 ? "," : ""}${JSON.stringify(secret)}`));
    await pace.giveWay();
  }
  await setImmediate();
  return Buffer.concat([...parts, Buffer.from("]}")]);
}
const unread = archive.extend({ secrets: z.array(z.unknown()).max(1_000_000) });

async function read(content: unknown): Promise<Archive> {
  const { secrets, ...rest } = unread.parse(content);
  const known: ArchivedSecret[] = [];
  for (let from = 0; from < secrets.length; from += SLICE) {
    for (const one of secrets.slice(from, from + SLICE)) known.push(archivedSecret.parse(one));
    await setImmediate();
  }
  return { ...rest, secrets: known };
}

export const unreadable = () =>
  badRequest(
    "The file cannot be opened: it is not a project export, it is damaged, or the passphrase is another one.",
  );

export async function openArchive(file: Buffer, passphrase: string): Promise<Archive> {
  const end = file.subarray(0, MAX_HEAD).indexOf("\n");
  const head = end < 0 ? "" : file.subarray(0, end).toString("latin1");
  const salt = HEAD.exec(head)?.[1];
  if (salt === undefined) throw unreadable();
  const key = await keyOf(passphrase, Buffer.from(salt, "base64url"));
  try {
    const text = decrypt(key, file.subarray(end + 1), [head]).toString("utf8");
    if (hasMoreParts(text, MOST_PARTS)) throw unreadable();
    return await read(JSON.parse(text));
  } catch {
    throw unreadable();
  }
}
