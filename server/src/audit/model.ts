import { isUuid } from "../platform/ids.ts";
import { invalidField } from "../platform/problem.ts";
import { AUDIT_DEFAULT_DAYS, type AuditLogView, type AuditQuery } from "./contract.ts";

const DAY_MS = 86_400_000;

export interface AuditLogRow {
  readonly id: string;
  readonly at: Date;
  readonly orgId: string | null;
  readonly projectId: string | null;
  readonly event: string;
  readonly actorType: string;
  readonly actorId: string | null;
  readonly actorName: string;
  readonly ip: string | null;
  readonly userAgent: string | null;
  readonly requestId: string | null;
  readonly metadata: Record<string, unknown>;
}

/**
 * Where a page ended: the moment and the id of its last row. Rows are listed newest first, so what is written
 * later stands before every cursor and shifts no page.
 */
export interface Position {
  readonly at: Date;
  readonly id: string;
}

export const toCursor = ({ at, id }: Position): string =>
  Buffer.from(`${at.getTime()}.${id}`).toString("base64url");

export function fromCursor(cursor: string): Position {
  const [millis = "", id = "", ...rest] = Buffer.from(cursor, "base64url").toString("latin1").split(".");
  const isOurs = /^\d{1,15}$/.test(millis) && isUuid(id) && rest.length === 0;
  if (!isOurs) throw invalidField(["cursor"], "must be the nextCursor of an earlier answer");
  return { at: new Date(Number(millis)), id };
}

/** The stretch of time that a question is about; without a start, what an administrator mostly means. */
export function periodOf(
  query: Pick<AuditQuery, "startDate" | "endDate">,
  now: Date,
): { from: Date; to: Date | undefined } {
  const end = query.endDate ?? now;
  return {
    from: query.startDate ?? new Date(end.getTime() - AUDIT_DEFAULT_DAYS * DAY_MS),
    to: query.endDate,
  };
}

const AGENTS: readonly (readonly [RegExp, string])[] = [
  [/^(?:keyward|infisical)[-_ ]?cli\b|^cli$/i, "cli"],
  [/terraform/i, "terraform"],
  [/operator|external-secrets|kubernetes/i, "k8-operator"],
  [/\bsdk\b|[-_]sdk\b|sdk[-_/]/i, "sdk"],
  [/^mozilla\//i, "web"],
];

export const agentTypeOf = (userAgent: string | null): string =>
  AGENTS.find(([pattern]) => pattern.test(userAgent ?? ""))?.[1] ?? "other";

export function toAuditLog(row: AuditLogRow): AuditLogView {
  const { id, event, metadata, actorType, actorId, actorName } = row;
  const named =
    actorId === null
      ? {}
      : actorType === "identity"
        ? { identityId: actorId }
        : actorType === "user"
          ? { userId: actorId }
          : {};
  return {
    id,
    createdAt: row.at,
    eventType: event,
    event: { type: event, metadata },
    actor: { type: actorType, metadata: { id: actorId, name: actorName, ...named } },
    ipAddress: row.ip,
    userAgent: row.userAgent,
    userAgentType: agentTypeOf(row.userAgent),
    projectId: row.projectId,
    orgId: row.orgId,
    reqId: row.requestId,
  };
}

// ---- months: a partition of the table holds one month, in UTC

export interface Month {
  /** `audit_log_2031_04` */
  readonly partition: string;
  readonly from: Date;
  /** The first moment that is no longer part of it. */
  readonly to: Date;
}

export function monthOf(year: number, month: number): Month {
  const from = new Date(Date.UTC(year, month, 1));
  const to = new Date(Date.UTC(year, month + 1, 1));
  const [, digits = ""] = /^(\d{4}-\d{2})/.exec(from.toISOString()) ?? [];
  return { partition: `audit_log_${digits.replace("-", "_")}`, from, to };
}

/** The month of a moment and the ones that follow. */
export const monthsFrom = (now: Date, count: number): Month[] =>
  Array.from({ length: count }, (_, ahead) => monthOf(now.getUTCFullYear(), now.getUTCMonth() + ahead));

/** Undefined for a table that is no month of ours, the default partition among them. */
export function monthOfPartition(partition: string): Month | undefined {
  const [, year, month] = /^audit_log_(\d{4})_(0[1-9]|1[0-2])$/.exec(partition) ?? [];
  return year === undefined ? undefined : monthOf(Number(year), Number(month) - 1);
}

export const cutoffOf = (now: Date, keepDays: number): Date => new Date(now.getTime() - keepDays * DAY_MS);
/** Only a month of which nothing has to be kept may go. */
export const isOutlived = (month: Month, cutoff: Date): boolean => month.to <= cutoff;
