import { fact } from "../platform/outbox/index.ts";

/** A licence was installed or revoked. `orgId` null: one for the whole instance, so every organisation's licence state may differ now. */
export const licenceChanged = fact<{ readonly orgId: string | null }>("licence.changed");
