/**
 * Access tokens: JWS compact serialisation, HMAC-SHA-256. Only Keyward issues and only Keyward reads them, so the
 * header is not negotiated: a token whose first part is not byte for byte ours is refused before anything is
 * parsed. That leaves no room for `alg: none`, key confusion, `kid` lookups, `jku` or `crit`.
 */
import { createHmac, timingSafeEqual } from "node:crypto";

const HEADER = Buffer.from('{"alg":"HS256","typ":"JWT"}').toString("base64url");
const MAX_LENGTH = 4096;

const mac = (key: Buffer, text: string): string => createHmac("sha256", key).update(text).digest("base64url");

export type Claims = Readonly<Record<string, unknown>>;

export function signToken(key: Buffer, claims: Claims): string {
  const body = `${HEADER}.${Buffer.from(JSON.stringify(claims)).toString("base64url")}`;
  return `${body}.${mac(key, body)}`;
}

/** The claims if the token is ours and unaltered; undefined otherwise. Says nothing about time. */
export function openToken(key: Buffer, token: string): Claims | undefined {
  if (token.length > MAX_LENGTH || !token.startsWith(`${HEADER}.`)) return undefined;
  const end = token.lastIndexOf(".");
  const signature = Buffer.from(token.slice(end + 1));
  const expected = Buffer.from(mac(key, token.slice(0, end)));
  if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) return undefined;
  return JSON.parse(Buffer.from(token.slice(HEADER.length + 1, end), "base64url").toString()) as Record<
    string,
    unknown
  >;
}
