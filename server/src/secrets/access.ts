/** The project, environment and folder of a request, found in the caller's organisation, with the caller's rights there. */
import type { MemberActor } from "../platform/actor.ts";
import { Problem } from "../platform/problem.ts";
import { deny, type Ability, type ConditionAttributes, type Permissions } from "../permissions/index.ts";
import type { ProjectRow, Projects } from "../projects/index.ts";
import { environmentUnknown } from "./model.ts";

export interface ProjectScope {
  readonly actor: MemberActor;
  readonly project: ProjectRow;
  readonly ability: Ability;
}

export interface EnvironmentRef {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
}

interface AccessNeeds {
  readonly projects: Pick<Projects, "resolve">;
  readonly permissions: Permissions;
}

export type Access = ReturnType<typeof createAccess>;

export function createAccess({ projects, permissions }: AccessNeeds) {
  const scope = async (actor: MemberActor, projectRef: string): Promise<ProjectScope> => {
    const project = await projects.resolve(actor, projectRef);
    return { actor, project, ability: await permissions.inProject(actor, project.id) };
  };

  return {
    scope,

    /** Another project that an import leads to; undefined if it was deleted since the import was read. */
    async neighbour(actor: MemberActor, projectId: string): Promise<ProjectScope | undefined> {
      try {
        return await scope(actor, projectId);
      } catch (error) {
        if (error instanceof Problem && error.status === 404) return undefined;
        throw error;
      }
    },

    /** Members may know which environments exist; anybody else gets the same refusal for every slug. */
    async environment({ actor, project }: ProjectScope, slug: string): Promise<EnvironmentRef> {
      const found = project.environments.find((environment) => environment.slug === slug);
      if (found) return found;
      await permissions.requireMember(actor, project.id);
      throw environmentUnknown(slug);
    },
  };
}

export function requireRight(
  ability: Ability,
  action: string,
  subject: string,
  attributes: ConditionAttributes,
): void {
  if (!ability.can(action, subject, attributes)) deny(ability, { action, subject, attributes });
}

/** Nobody makes a value readable for themselves by renaming, tagging or moving it. */
export function requireNoGain(
  ability: Ability,
  before: ConditionAttributes,
  after: ConditionAttributes,
): void {
  if (ability.can("readValue", "secrets", before)) return;
  if (ability.can("readValue", "secrets", after))
    deny(ability, { action: "readValue", subject: "secrets", attributes: before });
}
