import { MAINTENANCE_TURN } from "../platform/db/index.ts";
import type { MemberActor } from "../platform/actor.ts";
import { deny, orgOf, type Permissions } from "../permissions/index.ts";
import type { Projects } from "../projects/index.ts";
import type { AuditLogView, AuditQuery } from "./contract.ts";
import { fromCursor, periodOf, toAuditLog, toCursor, type Position } from "./model.ts";
import { createAuditPartitions, type AuditPartitions, type PartitionNeeds } from "./partitions.ts";
import { createAuditRetention, type AuditRetention, type RetentionNeeds } from "./retention.ts";
import { pageOfAudit, type AuditFilter } from "./store.ts";

interface AuditNeeds extends PartitionNeeds, RetentionNeeds {
  readonly permissions: Permissions;
  readonly projects: Pick<Projects, "resolve">;
}

export interface Audit extends AuditPartitions, AuditRetention {
  list(actor: MemberActor, query: AuditQuery): Promise<AuditPage>;
  /** What concerns no organisation: for the owner of the instance. */
  listOfInstance(actor: MemberActor, query: AuditQuery): Promise<AuditPage>;
}

interface AuditPage {
  readonly auditLogs: AuditLogView[];
  readonly nextCursor: string | null;
}

type AuditScope = Pick<AuditFilter, "orgId" | "projectId" | "after">;

const afterOf = ({ cursor }: AuditQuery): Position | undefined =>
  cursor === undefined ? undefined : fromCursor(cursor);

const READ = { action: "read", subject: "audit-logs" } as const;

export function createAudit(needs: AuditNeeds): Audit {
  const { db, clock, permissions, projects } = needs;

  /** The project's audit log is open to its readers and to those who may read the whole organisation's. */
  const requireReader = async (actor: MemberActor, projectId: string | undefined): Promise<void> => {
    if (projectId === undefined) return void (await permissions.requireInOrganization(actor, READ));
    const inProject = await permissions.inProject(actor, projectId);
    if (inProject.can(READ.action, READ.subject)) return;
    if (!(await permissions.inOrganization(actor)).can(READ.action, READ.subject)) deny(inProject, READ);
  };

  const read = async (query: AuditQuery, of: AuditScope): Promise<AuditPage> => {
    const { actorType, actorId, userAgent, offset, limit } = query;
    const who = { actorType, actorId, userAgent, events: query.eventType };
    const filter = { ...of, ...periodOf(query, clock.now()), ...who, offset };
    // One more than asked for: its presence is the answer to whether there is a next page.
    const rows = await db.read(
      (q) => pageOfAudit(q, { ...filter, limit: limit + 1 }),
      of.orgId === null ? MAINTENANCE_TURN : { tenant: of.orgId },
    );
    const page = rows.slice(0, limit);
    const last = page.at(-1);
    return {
      auditLogs: page.map(toAuditLog),
      nextCursor: last && rows.length > limit ? toCursor(last) : null,
    };
  };

  return {
    ...createAuditPartitions(needs),
    ...createAuditRetention(needs),

    async list(actor, query) {
      const orgId = orgOf(actor);
      const after = afterOf(query);
      const projectId =
        query.projectId === undefined ? undefined : (await projects.resolve(actor, query.projectId)).id;
      await requireReader(actor, projectId);
      return read(query, { orgId, projectId, after });
    },

    async listOfInstance(actor, query) {
      const after = afterOf(query);
      permissions.requireInstanceAdmin(actor);
      return read(query, { orgId: null, projectId: undefined, after });
    },
  };
}
