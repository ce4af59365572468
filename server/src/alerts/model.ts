/**
 * When a certificate is due. `alertBefore` counts in hours, days, weeks, calendar months or calendar years back from
 * the end; a month before 31 March is 28 (or 29) February, at the same time of day.
 *
 * The clamping at the ends of months makes "due from" not quite monotone: of two certificates the later-ending may be
 * due first, by hours. So a window over the end dates is a little wider around the last days of a month, and
 * `dueFrom` has the last word on each certificate.
 */
import type { AlertEventType } from "./contract.ts";
import type { CertificateFilter } from "./filters/contract.ts";

type Digest = "hourly" | "daily" | null;

export interface AlertRow {
  readonly id: string;
  readonly orgId: string;
  readonly projectId: string;
  readonly applicationId: string | null;
  readonly name: string;
  readonly description: string;
  readonly eventType: AlertEventType;
  readonly alertBefore: string;
  readonly filters: CertificateFilter[];
  readonly enabled: boolean;
  readonly isDaily: boolean;
  readonly digest: Digest;
  readonly lookedAt: Date | null;
  readonly gatheredAt: Date;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export const DEFAULT_BEFORE = "30d";

const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
const UNIT_MS: Readonly<Record<string, number>> = { h: HOUR_MS, d: DAY_MS, w: 7 * DAY_MS };
const MONTHS: Readonly<Record<string, number>> = { m: 1, y: 12 };
/** X.509 knows no later moment, and PostgreSQL's driver writes four digits. */
const LAST_MOMENT = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const SLACK_MS = 4 * DAY_MS;

interface Before {
  readonly months: number;
  readonly millis: number;
}

function parseBefore(text: string): Before {
  const count = Number(text.slice(0, -1));
  const unit = text.slice(-1);
  return { months: count * (MONTHS[unit] ?? 0), millis: count * (UNIT_MS[unit] ?? 0) };
}

function addMonths(at: Date, months: number): Date {
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth() + months];
  const lastDay = new Date(Date.UTC(2000, month + 1 + (year - 2000) * 12, 0)).getUTCDate();
  const moved = new Date(at);
  moved.setUTCDate(1);
  moved.setUTCMonth(month);
  moved.setUTCDate(Math.min(at.getUTCDate(), lastDay));
  return moved;
}

/** The moment from which a certificate that ends at `notAfter` is due. */
export function dueFrom(notAfter: Date, alertBefore: string): Date {
  const { months, millis } = parseBefore(alertBefore);
  return months === 0 ? new Date(notAfter.getTime() - millis) : addMonths(notAfter, -months);
}

export const isDue = (notAfter: Date, alertBefore: string, now: Date): boolean =>
  now < notAfter && dueFrom(notAfter, alertBefore) <= now;

export interface EndWindow {
  /** Exclusive. */
  readonly low: Date;
  /** Inclusive. */
  readonly high: Date;
}

/** Calendar months that have to be counted back from each end on its own, because the window is a bit too wide; or 0. */
export function monthsToCount(alertBefore: string, now: Date): number {
  const { months } = parseBefore(alertBefore);
  // Before the year -4700 PostgreSQL knows no moment, and nothing ends so late that it matters.
  return now.getUTCDate() < 28 || months > 60_000 ? 0 : months;
}

const clamp = (millis: number): Date => new Date(Math.min(millis, LAST_MOMENT));

function bound(at: Date, alertBefore: string, slack: number): Date {
  const { months, millis } = parseBefore(alertBefore);
  if (months === 0) return clamp(at.getTime() + millis);
  const moved = addMonths(at, months).getTime();
  return clamp(at.getUTCDate() < 28 ? moved : moved + slack);
}

/** End dates among which all certificates lie that became due after `since` (or at any time) and until now. */
export function endWindow(alertBefore: string, since: Date | null, now: Date): EndWindow {
  const low = since === null || since > now ? now : bound(since, alertBefore, -SLACK_MS);
  return { low: low > now ? low : now, high: bound(now, alertBefore, SLACK_MS) };
}

export const utcDay = (at: Date): string => at.toISOString().slice(0, 10);

/** Is a digest due that was last composed at `gatheredAt`? Hours and days begin in UTC. */
export function digestIsDue(digest: "hourly" | "daily" | null, gatheredAt: Date, now: Date): boolean {
  if (digest === null) return true;
  const length = digest === "hourly" ? 13 : 10;
  return gatheredAt.toISOString().slice(0, length) < now.toISOString().slice(0, length);
}
