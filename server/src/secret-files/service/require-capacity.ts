/**
 * Whether quotas have room for all that a plan creates, checked before anything is done and in a dry run too: an import that
 * meets a bound halfway would meet it again each time it is repeated.
 */
import type { ImportPlan } from "../model.ts";
import type { ApplyNeeds } from "./apply-plan.ts";
import type { ProjectScope } from "../../secrets/index.ts";

type RoomNeeds = Pick<ApplyNeeds, "environments" | "folders" | "imports" | "roles" | "tags">;

export async function requireCapacity(
  needs: RoomNeeds,
  { project }: ProjectScope,
  plan: ImportPlan,
): Promise<void> {
  const { id, orgId } = project;
  const { environments, folders, imports, roles, tags } = plan;
  const ask = async (more: number, room: () => Promise<void>): Promise<void> => {
    if (more > 0) await room();
  };
  const count = (list: readonly unknown[]) => list.length;
  await ask(count(roles.created), () =>
    needs.roles.requireRoom({ orgId, projectId: id }, count(roles.created)),
  );
  await ask(count(environments.created), () =>
    needs.environments.requireRoom(id, count(environments.created)),
  );
  await ask(count(tags.created), () => needs.tags.requireRoom(id, count(tags.created)));
  await ask(count(folders.created), () => needs.folders.requireRoom(id, count(folders.created)));
  const ids = new Map(project.environments.map((one) => [one.slug, one.id]));
  const inFolders = imports.steps.flatMap(({ environment, path, created }) => {
    const environmentId = ids.get(environment);
    return environmentId === undefined || created.length === 0
      ? []
      : [{ environmentId, path, more: created.length }];
  });
  await ask(count(imports.created), () => needs.imports.requireRoom(id, count(imports.created), inFolders));
}
