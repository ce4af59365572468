/**
 * The file that a whole project travels in: one line that says how the key is made from the passphrase, then one
 * authenticated ciphertext. A wrong passphrase, a cut or a flipped bit anywhere refuses the whole file.
 */
import { randomBytes, scrypt } from "node:crypto";
import { z } from "zod";
import { decrypt, encrypt } from "../../../platform/crypto/index.ts";
import { badRequest } from "../../../platform/problem.ts";
import { secretMetadata } from "../../contract.ts";
import { folderPath, secretName } from "../../paths/contract.ts";

const MAGIC = "keyward-project-1";
const COST = { N: 2 ** 15, r: 8, p: 1, maxmem: 128 * 1024 * 1024 };
const MAX_HEAD = 256;

const archive = z.object({
  project: z.object({ name: z.string(), slug: z.string() }),
  environments: z.array(z.object({ slug: z.string(), name: z.string() })).max(1000),
  tags: z.array(z.object({ slug: z.string(), name: z.string(), color: z.string() })).max(10_000),
  folders: z
    .array(z.object({ environment: z.string(), path: folderPath, description: z.string().nullable() }))
    .max(100_000),
  secrets: z
    .array(
      z.object({
        environment: z.string(),
        path: folderPath,
        key: secretName,
        value: z.string(),
        comment: z.string(),
        metadata: secretMetadata,
        tags: z.array(z.string()),
        skipMultiline: z.boolean().nullable(),
        reminderNote: z.string().nullable(),
        reminderDays: z.number().nullable(),
      }),
    )
    .max(1_000_000),
  /** Those within the project; what came from elsewhere cannot be taken along. */
  imports: z
    .array(
      z.object({
        environment: z.string(),
        path: folderPath,
        sourceEnvironment: z.string(),
        sourcePath: folderPath,
      }),
    )
    .max(100_000),
});
export type Archive = z.output<typeof archive>;

const keyOf = (passphrase: string, salt: Buffer): Promise<Buffer> =>
  new Promise((resolve, reject) =>
    scrypt(passphrase.normalize("NFKC"), salt, 32, COST, (error, key) =>
      error ? reject(error) : resolve(key),
    ),
  );

export async function sealArchive(content: Archive, passphrase: string): Promise<Buffer> {
  const salt = randomBytes(16);
  const head = `${MAGIC} scrypt ${salt.toString("base64url")}`;
  const box = encrypt(await keyOf(passphrase, salt), JSON.stringify(content), [head]);
  return Buffer.concat([Buffer.from(`${head}\n`), box]);
}

const unreadable = () =>
  badRequest(
    "The file cannot be opened: it is not a project export, it is damaged, or the passphrase is another one.",
  );

export async function openArchive(file: Buffer, passphrase: string): Promise<Archive> {
  const end = file.subarray(0, MAX_HEAD).indexOf("\n");
  const head = end < 0 ? "" : file.subarray(0, end).toString("latin1");
  const salt = /^keyward-project-1 scrypt ([A-Za-z0-9_-]{22})$/.exec(head)?.[1];
  if (salt === undefined) throw unreadable();
  const key = await keyOf(passphrase, Buffer.from(salt, "base64url"));
  try {
    return archive.parse(JSON.parse(decrypt(key, file.subarray(end + 1), [head]).toString("utf8")));
  } catch {
    throw unreadable();
  }
}
