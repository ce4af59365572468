/**
 * Export and import of a whole project. The file has everything that one can see of a project's secrets: folders,
 * tags, comments, metadata, reminders, imports and, if asked for, custom roles and history. Personal overrides stay:
 * their owners are not known elsewhere. Imports from other projects are named by the project's slug; where nothing of
 * that name can be read, they are left out and reported.
 */
import type { Confirm, MemberActor } from "../../platform/actor.ts";
import { inChunks, mapInChunks, Pace } from "../../platform/pace.ts";
import { Problem, stoppedAfter } from "../../platform/problem.ts";
import { createFairQueue } from "../../platform/fair-queue.ts";
import type { Archive, ArchivedImport } from "../archive/contract.ts";
import { MAX_PROJECT_FILE, type ProjectToExport, type ProjectToImport } from "../contract.ts";
import {
  folderName,
  foldersOf,
  importName,
  planImport,
  projectTooLarge,
  reportOf,
  type ImportPlan,
  type PresentSecrets,
} from "../model.ts";
import { createApplying, isAnything, nothingDone, requireFor, type ApplyNeeds } from "./apply-plan.ts";
import { createGathering, type GatherNeeds } from "./gather-project.ts";
import { openApart } from "./open-apart.ts";
import { requireCapacity } from "./require-capacity.ts";
import { sealArchive } from "./seal-archive.ts";
import { requireRight, type ProjectScope, refuseUnread, findFolder } from "../../secrets/index.ts";

/** Whole projects in memory: a few at once, one of each organisation. */
const turns = createFairQueue({
  what: "whole projects are being exported or compared with a file",
  places: 3,
  perTenant: 1,
  waitingPerTenant: 64,
  waiting: 1024,
  patienceMs: 60_000,
});

/**
 * Running imports, from the opening of the file to the last of its parts: each holds a whole project in
 * memory, so an organisation has two. A waiting import holds its encrypted file. Taken before all other turns.
 */
const arrivals = createFairQueue({
  what: "project files of this organisation are being taken in",
  places: 1024,
  perTenant: 2,
  waitingPerTenant: 16,
  waiting: 1024,
  patienceMs: 60_000,
});

type ProjectFileNeeds = ApplyNeeds & GatherNeeds;
export type ProjectFiles = ReturnType<typeof createProjectFiles>;

/** A running import: its plan, and whether its caller still has access. */
interface Cargo {
  readonly from: string;
  readonly plan: ImportPlan;
  readonly confirm: Confirm;
}

const HALFWAY = "The import was stopped; what it had taken in by then stays.";
/** An error of the file or of the project would come again in a retry. */
const REPEATS = [400, 413, 422];
const adviceOn = ({ status }: Problem): string =>
  REPEATS.includes(status) ? HALFWAY : `${HALFWAY} To complete it, import the file again.`;

export function createProjectFiles(needs: ProjectFileNeeds) {
  const { db, access } = needs;
  const gathering = createGathering(needs);
  const applying = createApplying(needs);

  /** Can another project's folder be imported by this caller? Unknown and closed look the same. */
  const canReach = async (actor: MemberActor, one: ArchivedImport): Promise<boolean> => {
    try {
      const scope = await access.scope(actor, one.sourceProject ?? "");
      const environment = await access.environment(scope, one.sourceEnvironment);
      requireRight(scope.ability, "readValue", "secrets", {
        environment: environment.slug,
        secretPath: one.sourcePath,
      });
      const at = { environmentId: environment.id, path: one.sourcePath };
      return (await db.read((q) => findFolder(q, at))) !== undefined;
    } catch (error) {
      if (error instanceof Problem && [403, 404].includes(error.status)) return false;
      throw error;
    }
  };

  const reachable = async (
    scope: ProjectScope,
    file: Archive,
    present: PresentSecrets,
  ): Promise<Set<string>> => {
    const pace = new Pace();
    const places = new Set<string>();
    const folders = await foldersOf(file, () => pace.giveWay());
    for (const list of [folders, present.folders])
      await inChunks(list, (folder) => void places.add(folderName(folder)));
    for (const { slug } of [...file.environments, ...scope.project.environments]) places.add(`${slug}:/`);
    const found = new Set<string>();
    for (const one of file.imports) {
      await pace.giveWay();
      const source = { environment: one.sourceEnvironment, path: one.sourcePath };
      const isItself = one.sourceProject === null && folderName(source) === folderName(one);
      const isThere =
        one.sourceProject === null
          ? places.has(folderName(source)) || (await isKnown(scope, source))
          : await canReach(scope.actor, one);
      if (isThere && !isItself) found.add(importName(one));
    }
    return found;
  };

  /** A folder of this project that the file does not speak of. Unknown and closed look the same. */
  const isKnown = async (
    scope: ProjectScope,
    source: { environment: string; path: string },
  ): Promise<boolean> => {
    const environment = scope.project.environments.find(({ slug }) => slug === source.environment);
    if (!environment) return false;
    const spot = { environment: environment.slug, secretPath: source.path };
    if (!scope.ability.can("readValue", "secrets", spot)) return false;
    const at = { environmentId: environment.id, path: source.path };
    return (await db.read((q) => findFolder(q, at))) !== undefined;
  };

  const planFor = async (scope: ProjectScope, file: Archive): Promise<ImportPlan> => {
    const part = {
      slugs: new Set(file.environments.map((one) => one.slug)),
      roles: file.roles.length > 0,
    };
    const present = await gathering.present(scope.actor, scope, part);
    const resolved = await reachable(scope, file, present);
    const pace = new Pace();
    return planImport(
      file,
      present,
      (one) => resolved.has(importName(one)),
      () => pace.giveWay(),
    );
  };

  /** The audit log says of every import how far it came, and so does the answer to one that was stopped. */
  const carryOut = async (
    { actor, project }: ProjectScope,
    { from, plan, confirm }: Cargo,
  ): Promise<void> => {
    const { id: projectId, orgId } = project;
    const done = nothingDone();
    const tell = (more: object) =>
      db.write(async (tx) =>
        tx.audit(actor, { event: "import-project", orgId, projectId, metadata: { from, ...more } }),
      );
    try {
      await applying.apply({ actor, projectId, confirm, done }, plan);
    } catch (error) {
      if (!isAnything(done)) throw error;
      // The caller gets the reason, whether or not the audit row can be written.
      await tell({ isComplete: false, ...done }).catch(() => undefined);
      throw error instanceof Problem ? stoppedAfter(error, adviceOn(error)) : error;
    }
    await tell({ created: plan.secrets.created.length, updated: plan.secrets.updated.length });
  };

  return {
    async export(actor: MemberActor, projectRef: string, wanted: ProjectToExport): Promise<Buffer> {
      const { orgId, id: projectId } = (await access.scope(actor, projectRef)).project;
      refuseUnread(orgId);
      const file = await turns.run(orgId, async () => {
        refuseUnread(orgId);
        // Rights may have been lost while this waited.
        const scope = await access.scope(actor, projectId);
        return sealArchive(await gathering.whole(actor, scope, wanted), wanted.passphrase);
      });
      if (file.length > MAX_PROJECT_FILE) throw projectTooLarge();
      const metadata = {
        bytes: file.length,
        environments: wanted.environments,
        includeHistory: wanted.includeHistory,
        includeRoles: wanted.includeRoles,
      };
      await db.write(async (tx) => tx.audit(actor, { event: "export-project", orgId, projectId, metadata }));
      return file;
    },

    async import(actor: MemberActor, projectRef: string, input: ProjectToImport, confirm: Confirm) {
      const { orgId } = (await access.scope(actor, projectRef)).project;
      return arrivals.run(orgId, () => takeIn(actor, projectRef, input, confirm));
    },
  };

  async function takeIn(actor: MemberActor, projectRef: string, input: ProjectToImport, confirm: Confirm) {
    // A caller that waited for this may have lost the right to import.
    const { orgId, id, slug } = (await access.scope(actor, projectRef)).project;
    const opened = await openApart(orgId, input);
    // What came from this very project comes from here.
    const file: Archive = {
      ...opened,
      imports: await mapInChunks(opened.imports, (one) =>
        one.sourceProject === slug ? { ...one, sourceProject: null } : one,
      ),
    };
    const { scope, plan } = await turns.run(orgId, async () => {
      await confirm();
      // Rights may have gone while the file was opened and this waited.
      const now = await access.scope(actor, id);
      return { scope: now, plan: await planFor(now, file) };
    });
    await requireFor(scope, plan);
    await requireCapacity(needs, scope, plan);
    const pace = new Pace();
    const report = await reportOf(plan, () => pace.giveWay());
    if (!input.dryRun) await carryOut(scope, { from: file.project.slug, plan, confirm });
    return { ...report, dryRun: input.dryRun };
  }
}
