/**
 * Who was refused what. A refusal is worth a row, but a refused caller can come back a thousand times a second: the
 * same caller from the same address at the same endpoint of the same project is one row a minute.
 */
import type { MemberActor } from "../platform/actor.ts";
import { createAuditGroups, type AuditGroupNeeds } from "./groups.ts";

interface RefusedRequest {
  readonly actor: MemberActor;
  readonly endpoint: string;
  readonly projectId: string | null;
  readonly reason: string;
}

const MAX_GROUPS = 5000;

export type Refusals = ReturnType<typeof createRefusals>;

export function createRefusals(needs: Omit<AuditGroupNeeds, "what" | "maxGroups">) {
  const groups = createAuditGroups({
    ...needs,
    what: "refusals",
    maxGroups: MAX_GROUPS,
    isForgettable: true,
  });
  return {
    flush: groups.flush,

    note({ actor, endpoint, projectId, reason }: RefusedRequest): void {
      if (actor.orgId === null) return;
      const key = `${actor.id} ${endpoint} ${projectId ?? ""} ${actor.caller.ip}`;
      const entry = {
        event: "request-refused",
        orgId: actor.orgId,
        projectId,
        metadata: { endpoint, reason },
      };
      groups.note(key, actor, entry).catch(() => undefined); // it has said so in the log and tries again
    },
  };
}
