/** The coarse right in a project, which the door checks before a request costs anything. */
import type { RightsJudge, Right } from "../platform/http/index.ts";
import type { MemberActor } from "../platform/actor.ts";
import { notFound } from "../platform/problem.ts";
import { isWellFormed } from "../platform/text.ts";
import { deny, type Permissions } from "../permissions/index.ts";
import type { Projects } from "./service.ts";

interface JudgeNeeds {
  readonly projects: Pick<Projects, "resolve">;
  readonly permissions: Permissions;
}

/** Rights and projects are cached: usually this costs no round trip. */
export function createJudge({ projects, permissions }: JudgeNeeds): RightsJudge {
  const inProject = async (
    actor: MemberActor,
    { wishes }: Extract<Right, { of: "project" }>,
    ref: string,
  ): Promise<void> => {
    // Not validated yet: a text that no database can hold names no project.
    if (ref.includes("\0") || !isWellFormed(ref)) throw notFound("The project");
    const { id } = await projects.resolve(actor, ref);
    const [first] = wishes;
    if (!first) return permissions.requireMember(actor, id);
    const ability = await permissions.inProject(actor, id);
    if (!wishes.some(({ action, subject }) => ability.can(action, subject))) deny(ability, first);
  };

  return async (actor, right, projectRef) => {
    if (right.of === "project" && projectRef !== undefined) await inProject(actor, right, projectRef);
    else if (right.of === "organization") await permissions.requireInOrganization(actor, right.wish);
    else if (right.of === "instance") permissions.requireInstanceAdmin(actor);
  };
}
