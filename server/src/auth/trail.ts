/**
 * What happens to an account concerns every organisation that the person belongs to, and is in the audit log of each: their
 * admins are who can do something about a password that is being guessed. What concerns none of them (an address without
 * an account) is for the owner of the instance to read.
 */
import type { Actor } from "../platform/actor.ts";
import type { AuditEntry, Tx } from "../platform/db/index.ts";
import { organizationsOf } from "../memberships/index.ts";

export async function auditAccount(
  tx: Tx,
  actor: Actor,
  userId: string | undefined,
  entry: Omit<AuditEntry, "orgId">,
): Promise<void> {
  const found = userId === undefined ? [] : await organizationsOf(tx, userId);
  for (const orgId of found.length === 0 ? [null] : found) tx.audit(actor, { ...entry, orgId });
}
