/**
 * The file of a whole project: one line that says how the key is derived from the passphrase, then one
 * authenticated ciphertext. A wrong passphrase, a cut or a flipped bit anywhere refuses the whole file.
 */
import { randomBytes, scrypt } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { z } from "zod";
import { decrypt, encryptLong } from "../../platform/crypto/index.ts";
import { hasMoreParts } from "../../platform/json-parts.ts";
import { concatInChunks, Pace } from "../../platform/pace.ts";
import { badRequest, invalid, invalidField, Problem } from "../../platform/problem.ts";
import { issuesOf } from "../../platform/http/envelope.ts";
import { LARGE_BODY } from "../../platform/http/endpoint.ts";
import { checkRules } from "../../permissions/index.ts";
import {
  archive,
  archivedSecret,
  type Archive,
  type ArchivedRole,
  type ArchivedSecret,
  type NewArchive,
} from "../archive/contract.ts";
import { jsonOf } from "../archive/model.ts";

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
  const file: Buffer[] = [Buffer.from(`${head}\n`)];
  for (let at = 0; at < box.length; at += SLICE_BYTES) file.push(box.subarray(at, at + SLICE_BYTES));
  return concatInChunks(file);
}

const SLICE_BYTES = 1024 * 1024;

/** Of the document inside: some two hundred thousand secrets. */
const MOST_PARTS = 5_000_000;
/** Secrets that are checked at once, before yielding. */
const SLICE = 1000;

const CHUNK_LETTERS = 64 * 1024;

async function write(content: NewArchive): Promise<Buffer> {
  const parts: Buffer[] = [];
  const pace = new Pace();
  let text = "";
  for (const piece of jsonOf(content)) {
    text += piece;
    if (text.length >= CHUNK_LETTERS) {
      parts.push(Buffer.from(text));
      text = "";
    }
    if (pace.isDue()) await pace.rest();
  }
  return concatInChunks([...parts, Buffer.from(text)]);
}
const unread = archive.extend({ secrets: z.array(z.unknown()).max(1_000_000) });

/** The content of a file is treated like a request, and its errors are reported in the same way. */
function inFile<T>(place: readonly (string | number)[], read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw error;
    throw invalid(issuesOf(error).map((issue) => ({ ...issue, path: ["file", ...place, ...issue.path] })));
  }
}

/** As a role that is sent by itself. */
function judgeRole(role: ArchivedRole, at: number): void {
  const place = ["file", "roles", at, "permissions"];
  if (JSON.stringify(role.permissions).length > LARGE_BODY)
    throw invalidField(place, `must have at most ${LARGE_BODY} characters together`);
  const checked = checkRules(role.permissions, "project");
  if (!checked.ok)
    throw invalid(
      checked.issues.map(({ path, message }) => ({ code: "custom", path: [...place, ...path], message })),
    );
}

/** History must be a history: numbered without gaps, and a secret that was deleted came back. */
const hasGap = ({ history }: ArchivedSecret): boolean =>
  (history?.versions ?? []).some((one, at, all) => at > 0 && one.version !== (all[at - 1]?.version ?? 0) + 1);

async function read(content: unknown): Promise<Archive> {
  const { secrets, ...rest } = inFile([], () => unread.parse(content));
  for (const [at, role] of rest.roles.entries()) judgeRole(role, at);
  const known: ArchivedSecret[] = [];
  for (let from = 0; from < secrets.length; from += SLICE) {
    for (const [at, one] of secrets.slice(from, from + SLICE).entries()) {
      const secret = inFile(["secrets", from + at], () => archivedSecret.parse(one));
      if (hasGap(secret)) throw badRequest("The history in the file has gaps.");
      known.push(secret);
    }
    await setImmediate();
  }
  return { ...rest, secrets: known };
}

export const notBase64 = () => invalidField(["file"], "file must be base64 text");
const tooManyParts = () =>
  invalidField(
    ["file"],
    `the project in the file is made of more than ${MOST_PARTS} values: export less at once`,
  );
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
    if (hasMoreParts(text, MOST_PARTS)) throw tooManyParts();
    return await read(JSON.parse(text));
  } catch (error) {
    throw error instanceof Problem ? error : unreadable();
  }
}
