import { z } from "zod";
import { moment } from "../platform/http/endpoint.ts";

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
    const text = (key: "temporaryMode" | "temporaryRange" | "temporaryAccessStartTime", fallback: string) => given[key] ?? fallback;
    const mode = text("temporaryMode", "relative");
    const range = text("temporaryRange", "1h");
    const start = given.temporaryAccessStartTime ?? undefined;
    if (mode !== "relative") context.addIssue({ code: "custom", path: ["temporaryMode"], message: "must be relative" });
    if (typeof range !== "string" || !/^[1-9]\d{0,5}[smhdw]$/.test(range)) {
      context.addIssue({ code: "custom", path: ["temporaryRange"], message: "must be a number and a unit: 30s, 15m, 1h, 7d or 2w" });
    }
    const startsAt = start === undefined ? undefined : typeof start === "string" && z.iso.datetime({ offset: true }).safeParse(start).success ? new Date(start) : null;
    if (startsAt === null || Number.isNaN(startsAt?.getTime())) {
      context.addIssue({ code: "custom", path: ["temporaryAccessStartTime"], message: "must be a date and time in ISO 8601 with zone" });
    }
    return { role: given.role, isTemporary: true as const, range: String(range), startsAt: startsAt ?? undefined };
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
