import { badRequest, invalidField, Problem } from "../platform/problem.ts";
import { certificateToPem, DerError, X509Error, type Finding } from "@keyward/x509";

const UNIT_SECONDS: Readonly<Record<string, number>> = {
  s: 1,
  m: 60,
  h: 3600,
  d: 86_400,
  w: 604_800,
  y: 31_536_000,
};
const MAX_SECONDS = 100 * 31_536_000;

/** Seconds of `90d`, `12h`, `30m`; a bare number counts seconds. */
export function parseDuration(text: string, field: string): number {
  const match = /^(\d{1,10})\s*([smhdwy]?)$/.exec(text.trim());
  const seconds = Number(match?.[1] ?? 0) * (UNIT_SECONDS[match?.[2] || "s"] ?? 0);
  if (seconds <= 0 || seconds > MAX_SECONDS)
    throw invalidField([field], `${field} must be a duration such as 90d, 12h or 30m`);
  return seconds;
}

const MOMENT = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)(Z|[+-]\d{2}:?\d{2})?)?$/i;

/**
 * A moment in ISO 8601, in UTC where it names no zone. JavaScript alone would take the server's zone then, the second
 * of March for the thirtieth of February, and much that the database cannot read.
 */
export function parseInstant(text: string, field: string): Date {
  const [, day = "", time = "00:00", zone = "Z"] = MOMENT.exec(text) ?? [];
  const at = new Date(`${day}T${time}${zone.toUpperCase().replace(/^(...)(\d\d)$/, "$1:$2")}`);
  const midnight = new Date(`${day}T00:00Z`);
  const isDay = !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day);
  const year = at.getUTCFullYear();
  if (!isDay || Number.isNaN(at.getTime()) || year < 1950 || year > 9999)
    throw invalidField([field], `${field} must be a date and time in ISO 8601`);
  return at;
}

/** Certificates count whole seconds, so the rest is cut off. */
export const parseMoment = (text: string, field: string): Date => toSecond(parseInstant(text, field));

export const toSecond = (at: Date): Date => new Date(Math.floor(at.getTime() / 1000) * 1000);
export const addSeconds = (at: Date, seconds: number): Date => new Date(at.getTime() + seconds * 1000);
export const latest = (...moments: readonly Date[]): Date =>
  new Date(Math.max(...moments.map((at) => at.getTime())));

/** Clocks differ: what is valid from this very second on is refused by a client that lags by one. */
const CLOCK_SLACK_SECONDS = 30;

/**
 * The `notBefore` of something that is to be valid now: a little ago, but never so that a short life is used up by it, and not
 * before its issuer.
 */
export function beginning(now: Date, lifetimeSeconds: number, issuerBegins?: Date): Date {
  const slack = Math.max(0, Math.min(CLOCK_SLACK_SECONDS, Math.floor(lifetimeSeconds / 20)));
  const from = addSeconds(toSecond(now), -slack);
  return issuerBegins && issuerBegins <= now ? latest(from, issuerBegins) : from;
}

export const findingOf = (code: string, field: string, message: string): Finding => ({
  code,
  severity: "error",
  field,
  message,
});

/** Every reason at once, each with its rule and its field. */
export function refused(findings: readonly Finding[]): Problem {
  const errors = findings.filter(({ severity }) => severity === "error");
  const said = errors.map(({ field, message, code }) => `${field}: ${message} (${code})`).join(" ");
  return badRequest(`The certificate was refused. ${said}`, errors);
}

/** What the toolkit refuses is the caller's request, never our bug. */
export function asRefusal(error: unknown, field: string): unknown {
  if (error instanceof X509Error) return refused([findingOf(error.code, error.field, error.message)]);
  if (error instanceof DerError)
    return refused([findingOf("encoding.der", field, `The bytes cannot be read: ${error.message}.`)]);
  return error;
}

/** Runs what reads or builds bytes that the caller gave. */
export function judged<T>(field: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asRefusal(error, field);
  }
}

export type CertificateStatusName = "active" | "expired" | "revoked";

/** The one place where a status is decided. */
export function statusOf(
  certificate: { readonly revokedAt: Date | null; readonly notAfter: Date },
  now: Date,
): CertificateStatusName {
  if (certificate.revokedAt !== null) return "revoked";
  return certificate.notAfter.getTime() <= now.getTime() ? "expired" : "active";
}

/** Small letters, one name per line: a term without a line break can only match within one of them. */
export function searchTextOf(commonName: string, altNames: readonly string[], serialNumber: string): string {
  const lines = new Set(
    [commonName, ...altNames, serialNumber].map((line) => line.replace(/\s*[\r\n]+\s*/g, " ").toLowerCase()),
  );
  return [...lines].join("\n");
}

/** Things that a caller may not see are looked through one by one, but not more of them than this. */
export const MOST_LOOKED_THROUGH = 10_000;

/** A CRL is signed again after a change, and at half of its life in any case. */
export const CRL_LIFE_SECONDS = 7 * 86_400;

/** Concatenated without an empty line between or after: some clients split at the line break. */
export const chainToPem = (chain: readonly Buffer[]): string =>
  chain.map(certificateToPem).join("").trimEnd();
