/**
 * The project of an alert: the one that is named, else the application's, else the one where the caller has
 * certificates (whatever its type), else the organisation's certificate project. An organisation that has none yet gets
 * one, if the caller may create projects: a request with just what the documentation shows must succeed.
 */
import type { MemberActor } from "../platform/actor.ts";
import type { Db } from "../platform/db/index.ts";
import { notFound, Problem } from "../platform/problem.ts";
import { orgOf } from "../permissions/index.ts";
import type { Projects } from "../projects/index.ts";
import { findApplicationProject, findCertificateProject } from "./store.ts";

interface AlertScope {
  readonly orgId: string;
  readonly projectId: string;
  readonly applicationId: string | null;
}

export interface ScopeWish {
  readonly projectId?: string | undefined;
  readonly applicationId?: string | null | undefined;
}

/** The second and further ones for when a project of another kind bears the name already. */
const SLUGS = ["certificates", ...[2, 3, 4, 5, 6, 7, 8, 9].map((number) => `certificates-${number}`)];

export type Scopes = ReturnType<typeof createScopes>;

export function createScopes({ db, projects }: { readonly db: Db; readonly projects: Projects }) {
  const certificateProjectOf = async (actor: MemberActor): Promise<string | undefined> =>
    (await db.read((q) => findCertificateProject(q, orgOf(actor), actor.id), { tenant: orgOf(actor) }))?.id;

  const resolve = async (actor: MemberActor, wish: ScopeWish): Promise<AlertScope> => {
    const orgId = orgOf(actor);
    const named = wish.projectId === undefined ? undefined : await projects.resolve(actor, wish.projectId);
    if (wish.applicationId) {
      const { applicationId } = wish;
      const found = await db.read((q) => findApplicationProject(q, orgId, applicationId));
      if (!found || (named && named.id !== found.projectId)) throw notFound("The application", applicationId);
      return { orgId, projectId: found.projectId, applicationId };
    }
    const projectId = named?.id ?? (await certificateProjectOf(actor));
    if (projectId === undefined) throw notFound("A certificate project of your organisation");
    return { orgId, projectId, applicationId: null };
  };

  /** The names are tried in the same order by everyone, so that two first alerts at the same moment make one project. */
  const makeCertificateProject = async (actor: MemberActor): Promise<void> => {
    for (const slug of SLUGS) {
      try {
        await projects.create(actor, {
          projectName: "Certificates",
          slug,
          type: "cert-manager",
          shouldCreateDefaultEnvs: false,
          hasDeleteProtection: false,
        });
        return;
      } catch (error) {
        if (!(error instanceof Problem && error.status === 409)) throw error;
        if ((await certificateProjectOf(actor)) !== undefined) return;
      }
    }
  };

  return {
    resolve,

    async resolveOrCreate(actor: MemberActor, wish: ScopeWish): Promise<AlertScope> {
      const isOpen = wish.projectId === undefined && !wish.applicationId;
      if (isOpen && (await certificateProjectOf(actor)) === undefined) await makeCertificateProject(actor);
      return resolve(actor, wish);
    },
  };
}
