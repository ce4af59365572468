import { badRequest, invalidField, type Problem } from "../platform/problem.ts";
import { FREE_PLAN, type LicenceStatus, type NewLicence, type OrganizationLicenceView } from "./contract.ts";
import type { LicencePayload } from "./document/contract.ts";

export const licenceUnreadable = (): Problem =>
  badRequest("This text is not a Keyward licence document, or it was altered.");
export const licenceUnknownIssuer = (): Problem =>
  badRequest("The licence is not signed by an issuer that this instance knows.");
export const licenceOfAnother = (): Problem => badRequest("The licence was issued for another organisation.");
export const licenceOver = (notAfter: Date): Problem =>
  badRequest(`The licence expired at ${notAfter.toISOString()}.`);
export const licenceRevokedAlready = (): Problem =>
  badRequest("This licence was revoked and cannot be installed again. Ask for a new one.");
export const licenceIdTaken = (): Problem =>
  badRequest("Another licence with the same id is installed. Ask for a new one.");

/** A stored licence whose signature was found good. */
export interface Licence {
  readonly id: string;
  readonly orgId: string | null;
  readonly plan: string;
  readonly features: readonly string[];
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly issuedAt: Date;
  readonly revokedAt: Date | null;
}

export const licenceFrom = (payload: LicencePayload, revokedAt: Date | null): Licence => ({
  ...payload,
  notBefore: new Date(payload.notBefore),
  notAfter: new Date(payload.notAfter),
  issuedAt: new Date(payload.issuedAt),
  revokedAt,
});

/** From its first moment until just before its last. */
export function statusOf(licence: Licence, now: number): Exclude<LicenceStatus, "none"> {
  if (licence.revokedAt !== null) return "revoked";
  if (now < licence.notBefore.getTime()) return "not-yet";
  return now < licence.notAfter.getTime() ? "active" : "expired";
}

export const isActive = (licence: Licence, now: number): boolean => statusOf(licence, now) === "active";

/**
 * Licences add up: a renewal can be installed weeks before the old one ends, and one for the whole instance does
 * not take away what an organisation has by its own.
 */
const activeFeatures = (licences: readonly Licence[], now: number): string[] =>
  [
    ...new Set(licences.filter((licence) => isActive(licence, now)).flatMap((licence) => licence.features)),
  ].sort();

const TELLING: readonly LicenceStatus[] = ["active", "not-yet", "expired", "revoked"];

/** Of several, the one that an administrator wants to read about: active first, own first, longest first. */
function mostTelling(licences: readonly Licence[], now: number): Licence | undefined {
  const rank = (licence: Licence) => TELLING.indexOf(statusOf(licence, now));
  return licences.toSorted(
    (a, b) =>
      rank(a) - rank(b) ||
      Number(a.orgId === null) - Number(b.orgId === null) ||
      b.notAfter.getTime() - a.notAfter.getTime(),
  )[0];
}

export function toOrganizationLicence(licences: readonly Licence[], now: number): OrganizationLicenceView {
  const shown = mostTelling(licences, now);
  if (!shown) {
    const nothing = { id: null, scope: null, notBefore: null, notAfter: null };
    return { ...nothing, plan: FREE_PLAN, features: [], activeFeatures: [], status: "none" };
  }
  return {
    id: shown.id,
    scope: shown.orgId === null ? "instance" : "organization",
    plan: shown.plan,
    features: [...shown.features],
    activeFeatures: activeFeatures(licences, now),
    notBefore: shown.notBefore,
    notAfter: shown.notAfter,
    status: statusOf(shown, now),
  };
}

export interface LicenceTerms {
  readonly plan: string;
  readonly features: readonly string[];
  readonly notBefore: Date;
  readonly notAfter: Date;
}

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 365;

/** What was asked for, with the gaps filled: from now on, for a year. */
export function termsOf(asked: NewLicence, now: Date): LicenceTerms {
  const notBefore = asked.notBefore ?? now;
  const notAfter = asked.notAfter ?? new Date(notBefore.getTime() + (asked.days ?? DEFAULT_DAYS) * DAY_MS);
  if (notAfter <= notBefore) throw invalidField(["notAfter"], "must be later than notBefore");
  if (notAfter <= now) throw invalidField(["notAfter"], "must lie in the future");
  return { plan: asked.plan, features: asked.features, notBefore, notAfter };
}
