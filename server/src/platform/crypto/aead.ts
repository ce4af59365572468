/**
 * AES-256-GCM with the context as additional data (AAD). The context names what the ciphertext belongs to (project,
 * table, row, column, version); a ciphertext moved to another row or column cannot be decrypted. Nonces are 96 random
 * bits drawn here and nowhere else: callers cannot supply one, so a nonce cannot be repeated by mistake.
 *
 * Layout: 1 byte format (1) | 12 bytes nonce | 16 bytes tag | ciphertext.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { Pace } from "../pace.ts";

const FORMAT = 1;
const NONCE = 12;
const TAG = 16;
const HEAD = 1 + NONCE + TAG;

export class DecryptError extends Error {
  override readonly name = "DecryptError";
}

/** Every part is length-prefixed, so that ("ab","c") and ("a","bc") are different contexts. */
export function contextOf(parts: readonly string[]): Buffer {
  return Buffer.from(parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join("|"));
}

export function encrypt(key: Buffer, plain: Buffer | string, context: readonly string[]): Buffer {
  const nonce = randomBytes(NONCE);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(contextOf(context));
  const body = typeof plain === "string" ? cipher.update(plain, "utf8") : cipher.update(plain);
  cipher.final();
  return Buffer.concat([Buffer.of(FORMAT), nonce, cipher.getAuthTag(), body], HEAD + body.length);
}

const SLICE = 1024 * 1024;

/** The same for what is many megabytes long, in chunks. */
export async function encryptLong(key: Buffer, plain: Buffer, context: readonly string[]): Promise<Buffer> {
  const nonce = randomBytes(NONCE);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(contextOf(context));
  const box = Buffer.allocUnsafe(HEAD + plain.length);
  const pace = new Pace();
  for (let at = 0; at < plain.length; at += SLICE) {
    cipher.update(plain.subarray(at, at + SLICE)).copy(box, HEAD + at);
    if (pace.isDue()) await pace.rest();
  }
  cipher.final();
  box[0] = FORMAT;
  nonce.copy(box, 1);
  cipher.getAuthTag().copy(box, 1 + NONCE);
  return box;
}

export function decrypt(key: Buffer, box: Buffer, context: readonly string[]): Buffer {
  if (box.length < HEAD || box[0] !== FORMAT) throw new DecryptError("not a ciphertext of this format");
  const decipher = createDecipheriv("aes-256-gcm", key, box.subarray(1, 1 + NONCE), { authTagLength: TAG });
  decipher.setAAD(contextOf(context));
  decipher.setAuthTag(box.subarray(1 + NONCE, HEAD));
  const body = decipher.update(box.subarray(HEAD));
  try {
    decipher.final();
  } catch {
    throw new DecryptError("the ciphertext does not belong to this key and place");
  }
  return body;
}

/** Key derivation: independent subkeys from one key, each bound to its purpose. */
export const deriveKey = (key: Buffer, purpose: string): Buffer =>
  Buffer.from(hkdfSync("sha256", key, Buffer.alloc(0), `keyward/${purpose}`, 32));
