import type { MemberActor } from "../platform/actor.ts";
import type { Db } from "../platform/db/index.ts";
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
