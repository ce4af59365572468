import { fact } from "../platform/outbox/index.ts";

/** A project or its environments changed, or it was deleted: caches of it are invalid. */
export const projectChanged = fact<{ readonly orgId: string; readonly projectId: string }>("project.changed");
export const projectDeleted = fact<{ readonly orgId: string; readonly projectId: string }>("project.deleted");
