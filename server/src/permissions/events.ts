import { fact } from "../platform/outbox/index.ts";

/**
 * Someone's rights changed. `actorId` null = everyone in that scope (a role's rules were edited); `projectId` null
 * = in the organisation itself, which every project of it depends on.
 */
export const accessChanged = fact<{
  readonly orgId: string;
  readonly projectId: string | null;
  readonly actorId: string | null;
}>("access.changed");
