import { z } from "zod";
import { moment } from "../platform/http/endpoint.ts";

/** Longer than anyone means by "temporary", and far from where calendars and databases run out of years. */
const LONGEST_SECONDS = 100 * 366 * 86_400;
const EARLIEST = Date.UTC(1970, 0, 1);
const LATEST = Date.UTC(9890, 0, 1);
const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

export const rangeSeconds = (range: string): number =>
  Number(range.slice(0, -1)) * (UNIT_SECONDS[range.slice(-1)] ?? 0);
const isRange = (range: unknown): range is string =>
  typeof range === "string" && /^[1-9]\d{0,9}[smhdw]$/.test(range) && rangeSeconds(range) <= LONGEST_SECONDS;

/** Undefined = not a moment that a role could start at. */
function startOf(given: unknown): Date | undefined {
  const at =
    typeof given === "string" && z.iso.datetime({ offset: true }).safeParse(given).success
      ? Date.parse(given)
      : Number.NaN;
  return at >= EARLIEST && at <= LATEST ? new Date(at) : undefined;
}

/**
 * A role to assign. Clients send zero values ("", 0001-01-01) in the temporary fields of a permanent role, so those
 * are read only when `isTemporary` is true, and everything about them is checked then, not by the schema.
 */
export const roleAssignment = z
  .object({
    role: z.string().min(1).max(64),
    isTemporary: z.boolean().default(false),
    temporaryMode: z.unknown().optional(),
    temporaryRange: z.unknown().optional(),
    temporaryAccessStartTime: z.unknown().optional(),
  })
  .transform((given, context) => {
    if (!given.isTemporary) return { role: given.role, isTemporary: false as const };
    const range = given.temporaryRange ?? "1h";
    const startsAt =
      (given.temporaryAccessStartTime ?? undefined) === undefined
        ? undefined
        : startOf(given.temporaryAccessStartTime);
    if ((given.temporaryMode ?? "relative") !== "relative")
      context.addIssue({ code: "custom", path: ["temporaryMode"], message: "must be relative" });
    if (!isRange(range)) {
      context.addIssue({
        code: "custom",
        path: ["temporaryRange"],
        message: "must be a number and a unit, at most 100 years: 30s, 15m, 1h, 7d or 2w",
      });
    }
    if ((given.temporaryAccessStartTime ?? undefined) !== undefined && startsAt === undefined) {
      context.addIssue({
        code: "custom",
        path: ["temporaryAccessStartTime"],
        message: "must be a date and time in ISO 8601 with zone, from 1970 on",
      });
    }
    return {
      role: given.role,
      isTemporary: true as const,
      range: isRange(range) ? String(range) : "",
      startsAt,
    };
  });

export type RoleAssignment = z.output<typeof roleAssignment>;

export const assignments = z.array(roleAssignment).max(50);

export const heldRole = z.object({
  id: z.uuid(),
  role: z.string(),
  customRoleId: z.uuid().nullable(),
  customRoleName: z.string().nullable(),
  customRoleSlug: z.string().nullable(),
  isTemporary: z.boolean(),
  temporaryMode: z.string().nullable(),
  temporaryRange: z.string().nullable(),
  temporaryAccessStartTime: moment.nullable(),
  temporaryAccessEndTime: moment.nullable(),
});
