import type { MemberActor } from "../platform/actor.ts";
import type { Db, Query } from "../platform/db/index.ts";
import type { Finder } from "../platform/http/index.ts";
import { notFound } from "../platform/problem.ts";
import { orgOf, type Permissions } from "../permissions/index.ts";
import type { ProjectRow, Projects } from "../projects/index.ts";
import { findCertificateProject } from "./store.ts";

/** Where a request belongs that does not name a project: clients of this API family never do. */
export interface CertificateScope {
  projectOf(actor: MemberActor, ref: string | null | undefined): Promise<ProjectRow>;
}

/** The coarse right in the project that a request means which names none. */
export type MayIn = (action: string, subject: string) => Finder;

export const createMayIn =
  (scope: CertificateScope, permissions: Permissions): MayIn =>
  (action, subject) =>
  async (actor) =>
    permissions.requireInProject(actor, (await scope.projectOf(actor, undefined)).id, { action, subject });

interface NamedThings<Row> {
  readonly subject: string;
  /** In words that fit "… was not found". */
  readonly what: string;
  readonly find: (q: Query, orgId: string, id: string) => Promise<Row | undefined>;
}

/** Who may do something with one of a project's policies, applications or authorities; a right may be about its name. */
export function createNamedAccess<Row extends { readonly projectId: string; readonly name: string }>(
  { db, permissions }: { readonly db: Db; readonly permissions: Permissions },
  { subject, what, find }: NamedThings<Row>,
) {
  const require = (actor: MemberActor, projectId: string, action: string, name?: string) =>
    permissions.requireInProject(actor, projectId, {
      action,
      subject,
      ...(name === undefined ? {} : { attributes: { name } }),
    });
  return {
    require,
    /** If it is of the caller's organisation and the caller may do that with it. */
    find: async (actor: MemberActor, id: string, action: string): Promise<Row> => {
      const row = await db.read((q) => find(q, orgOf(actor), id));
      if (!row) throw notFound(what, id);
      await require(actor, row.projectId, action, row.name);
      return row;
    },
  };
}

export function createCertificateScope(needs: {
  readonly db: Db;
  readonly projects: Projects;
}): CertificateScope {
  const { db, projects } = needs;
  return {
    async projectOf(actor, ref) {
      if (ref) return projects.resolve(actor, ref);
      const orgId = orgOf(actor);
      const known = await db.read((q) => findCertificateProject(q, orgId, actor));
      if (!known) throw notFound("A project of type cert-manager (create one, or send projectId)");
      return projects.resolve(actor, known.id);
    },
  };
}
