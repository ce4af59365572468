/**
 * A licence document is one line of text that can be mailed, pasted and checked without a network:
 *
 *     KEYWARD-LICENCE-1.<payload>.<signature>
 *
 * Both parts are base64url. The payload is JSON with its keys in one order, its features sorted and its moments in
 * one notation, so that one licence has exactly one text; whatever reads differently is refused before anything
 * else is believed. The signature (Ed25519) covers the prefix too: a signature that the same key made for
 * something else can never be taken for a licence.
 *
 * This file runs in a browser. Making and checking signatures is `model.ts` beside it.
 */
import { z } from "zod";

export const LICENCE_PREFIX = "KEYWARD-LICENCE-1";
export const LICENCE_MAX_LENGTH = 16 * 1024;
const SIGNATURE_BYTES = 64;

const lowerUuid = z.uuid().lowercase();
/** A plan's or a feature's name. Plain ASCII: two names that look alike are alike. */
export const licenceWord = z
  .string()
  .regex(
    /^[A-Za-z][A-Za-z0-9-]{0,63}$/,
    "must be up to 64 letters, digits or hyphens that start with a letter",
  );
const instant = z
  .string()
  .refine((text) => isCanonicalInstant(text), "must be a moment as 2030-01-31T00:00:00.000Z");

function isCanonicalInstant(text: string): boolean {
  const at = new Date(text);
  return /^\d{4}-/.test(text) && !Number.isNaN(at.getTime()) && at.toISOString() === text;
}

export const licencePayload = z
  .strictObject({
    id: lowerUuid,
    /** Null: for every organisation of the instance. */
    orgId: lowerUuid.nullable(),
    plan: licenceWord,
    features: z.array(licenceWord).max(64),
    notBefore: instant,
    notAfter: instant,
    issuedAt: instant,
  })
  .refine((payload) => payload.notBefore < payload.notAfter, "must not end before it begins");
export type LicencePayload = Readonly<z.output<typeof licencePayload>>;

export interface ParsedLicence {
  readonly payload: LicencePayload;
  /** What the signature covers. */
  readonly signedText: string;
  /** Base64url of 64 bytes. */
  readonly signature: string;
}

// Everything in a payload is ASCII, so bytes and characters are the same thing here.
const toBase64Url = (bytes: string): string =>
  btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** Undefined unless the text is the one way to write its bytes. */
function fromBase64Url(text: string): string | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(text) || text.length % 4 === 1) return undefined;
  const bytes = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return toBase64Url(bytes) === text ? bytes : undefined;
}

function canonicalJson(payload: LicencePayload): string {
  const { id, orgId, plan, notBefore, notAfter, issuedAt } = payload;
  const features = [...new Set(payload.features)].sort();
  return JSON.stringify({ id, orgId, plan, features, notBefore, notAfter, issuedAt });
}

/** The text to sign; throws if the payload is none. */
export const licenceTextToSign = (payload: LicencePayload): string =>
  `${LICENCE_PREFIX}.${toBase64Url(canonicalJson(licencePayload.parse(payload)))}`;

export const joinLicence = (signedText: string, signature: Uint8Array): string =>
  `${signedText}.${toBase64Url(String.fromCharCode(...signature))}`;

function parsePayload(json: string): LicencePayload | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  const payload = licencePayload.safeParse(value);
  return payload.success && canonicalJson(payload.data) === json ? payload.data : undefined;
}

/** The parts of a well-formed document; says nothing about whether its signature is anyone's. */
export function parseLicence(document: string): ParsedLicence | undefined {
  if (document.length > LICENCE_MAX_LENGTH) return undefined;
  const [prefix, body = "", signature = "", ...rest] = document.split(".");
  if (prefix !== LICENCE_PREFIX || rest.length > 0) return undefined;
  const json = fromBase64Url(body);
  const payload = json === undefined ? undefined : parsePayload(json);
  if (!payload || fromBase64Url(signature)?.length !== SIGNATURE_BYTES) return undefined;
  return { payload, signedText: `${prefix}.${body}`, signature };
}
