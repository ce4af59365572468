/**
 * A folder, a tree or a whole environment as it was at a moment: the folders of then, each with the secrets of then.
 * What differs today is changed, what is missing comes back under its old id, what came later is deleted; all of it
 * as new versions in one transaction.
 */
import type { MemberActor } from "../../platform/actor.ts";
import type { Query, SlowQuery, Tx } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { Pace } from "../../platform/pace.ts";
import { badRequest } from "../../platform/problem.ts";
import { groupBy } from "../../platform/group-by.ts";
import { JudgingBudget } from "../../permissions/index.ts";
import type { FolderRollback } from "../contract.ts";
import { beforeHistory, pathsTo, rollbackTooLarge } from "../model.ts";
import { horizonOf } from "../retention.store.ts";
import {
  aliveSecrets,
  foldersAt,
  lastPlaces,
  lastVersions,
  secretsAt,
  weighAt,
  type LastPlace,
} from "../store.ts";
import { stepId, stepKey, stepPath, type FolderThen, type RollbackStep } from "./rollback-steps.ts";
import {
  requireRight,
  requireNoGain,
  type EnvironmentRef,
  type ProjectScope,
  changeSetOf,
  originsOf,
  requireFewReferences,
  writeChangeSets,
  type SecretChangeStep,
  findDependants,
  type Origin,
  attributesOf,
  decryptState,
  MAX_ANSWER_BYTES,
  type FolderPlace,
  type SecretHead,
  type SecretRow,
  type SecretState,
  type TagRef,
  secretsInFolders,
  nextDraft,
  type WriteNeeds,
  lockTreeAlone,
  likeBelow,
  lockInFolders,
  weighFolders,
  tagsFor,
} from "../../secrets/index.ts";
import { type Folders, placeOf, findFoldersByPaths, folderTree } from "../../folders/index.ts";

interface RollbackNeeds extends WriteNeeds {
  readonly folders: Folders;
}

interface RollbackScope {
  readonly scope: ProjectScope;
  readonly environment: EnvironmentRef;
  readonly input: FolderRollback;
}

/** What is there now, inside the scope. */
interface FolderNow {
  readonly folders: ReadonlyMap<string, FolderPlace>;
  readonly rows: readonly SecretRow[];
}

/** Each is a row of the index; what an environment mentions may be more than one request could write. */
const MOST_REFERENCES = 250_000;

export type Rollbacks = ReturnType<typeof createRollbacks>;

const attributesOfLast = (last: LastPlace, known: ReadonlyMap<string, TagRef>) =>
  attributesOf(last, last.key, tagsFor(known, last.tagIds));

/** Everyone's overrides by the name that they override. */
function overridesIn({ rows }: FolderNow): (before: SecretHead) => readonly SecretRow[] {
  const slotOf = ({ folderId, key }: SecretHead) => `${folderId} ${key}`;
  const slots = groupBy(
    rows.filter(({ ownerId }) => ownerId !== null),
    slotOf,
  );
  return (before) => slots.get(slotOf(before)) ?? [];
}

export function createRollbacks(needs: RollbackNeeds) {
  const { db, clock, keyring, access, tags, folders } = needs;

  const stateOf = async (q: Query, row: SecretRow) =>
    decryptState(await keyring.dataKeyById(row.keyId, q), row);

  const pastOf = async (q: SlowQuery, { environment, input }: RollbackScope): Promise<FolderThen[]> => {
    const at = { environmentId: environment.id, path: input.secretPath };
    const then = await foldersAt(q, at, input.recursive ? likeBelow(input.secretPath) : null, input.at);
    if (then.length === 0) throw badRequest("The folder did not exist at that moment.");
    const paths = new Map(then.map((folder) => [folder.folderId, folder.path]));
    if ((await weighAt(q, [...paths.keys()], input.at)) > MAX_ANSWER_BYTES) throw rollbackTooLarge();
    const rows = await secretsAt(q, [...paths.keys()], input.at);
    // Queried after the rows were read: what retention deleted before that has been recorded by now.
    const wholeFrom = await horizonOf(q, [...paths.keys()]);
    if (wholeFrom && wholeFrom > input.at) throw beforeHistory(wholeFrom);
    return rows.flatMap((row) => {
      const path = paths.get(row.folderId);
      return path === undefined || row.value === null || row.ownerId !== null
        ? []
        : [{ row: { ...row, value: row.value }, path }];
    });
  };

  const presentOf = async (
    q: SlowQuery,
    { environment, input }: RollbackScope,
    load: (ids: string[]) => Promise<SecretRow[]>,
  ): Promise<FolderNow> => {
    const tree = await folderTree(
      q,
      environment.id,
      input.secretPath,
      input.recursive ? likeBelow(input.secretPath) : "",
    );
    const places = new Map(tree.map((row) => [row.id, placeOf(row)]));
    const ids = [...places.keys()];
    if ((await weighFolders(q, ids)) > MAX_ANSWER_BYTES) throw rollbackTooLarge();
    return { folders: places, rows: await load(ids) };
  };

  const stepsFor = async (
    q: Query,
    past: readonly FolderThen[],
    present: FolderNow,
  ): Promise<RollbackStep[]> => {
    const steps: RollbackStep[] = [];
    const shared = present.rows.filter((row) => row.ownerId === null);
    const now = new Map(shared.map((row) => [row.id, row]));
    const wanted = new Set(past.map(({ row }) => row.id));
    for (const row of shared)
      if (!wanted.has(row.id))
        steps.push({ kind: "delete", row, from: present.folders.get(row.folderId) as FolderPlace });
    const missing = past.filter(({ row }) => !now.has(row.id)).map(({ row }) => row.id);
    const elsewhere = new Set((await aliveSecrets(q, missing)).map((row) => row.id));
    const last = new Map((await lastVersions(q, missing)).map((row) => [row.id, row]));
    const origins = new Map((await lastPlaces(q, missing)).map((row) => [row.id, row]));
    const pace = new Pace();
    for (const one of past) {
      if (pace.isDue()) await pace.rest();
      const state = await stateOf(q, one.row);
      const row = now.get(one.row.id);
      if (row) {
        const from = present.folders.get(row.folderId) as FolderPlace;
        const isSame =
          row.key === one.row.key &&
          from.path === one.path &&
          JSON.stringify(await stateOf(q, row)) === JSON.stringify(state);
        if (!isSame) steps.push({ kind: "update", row, from, path: one.path, key: one.row.key, state });
        continue;
      }
      // One that lives on in another folder stays there; here it comes back as a copy.
      const isElsewhere = elsewhere.has(one.row.id);
      const known = isElsewhere ? undefined : last.get(one.row.id);
      steps.push({
        kind: "create",
        past: one,
        origin: origins.get(one.row.id) as LastPlace,
        id: known ? one.row.id : newId(),
        version: (known?.version ?? 0) + 1,
        createdAt: known?.createdAt ?? clock.now(),
        state,
      });
    }
    return steps;
  };

  const requireRights = async (
    { scope, environment }: RollbackScope,
    steps: readonly RollbackStep[],
  ): Promise<ReadonlyMap<string, TagRef>> => {
    const lists = steps.flatMap((step) => [
      step.kind === "create" ? step.origin.tagIds : step.row.tagIds,
      step.kind === "delete" ? [] : step.state.tagIds,
    ]);
    const known = await tags.lookUp(scope.project.id, lists);
    const budget = new JudgingBudget();
    for (const step of steps) {
      if (budget.isDue()) await budget.giveWay();
      const place = { environment: environment.slug, path: stepPath(step) };
      requireRight(scope.ability, "create", "secret-rollback", {
        environment: place.environment,
        secretPath: place.path,
      });
      const after = attributesOf(
        place,
        stepKey(step),
        tagsFor(known, step.kind === "delete" ? step.row.tagIds : step.state.tagIds),
      );
      if (step.kind !== "update") {
        requireRight(scope.ability, step.kind, "secrets", after);
        // What was moved or tagged out of a caller's reach does not come back by a rollback.
        if (step.kind === "create") requireNoGain(scope.ability, attributesOfLast(step.origin, known), after);
        continue;
      }
      const before = attributesOf(step.from, step.row.key, tagsFor(known, step.row.tagIds));
      for (const attributes of [before, after]) requireRight(scope.ability, "edit", "secrets", attributes);
      requireNoGain(scope.ability, before, after);
    }
    return known;
  };

  /** A folder that has to be created again needs the caller's right to create it. */
  const requireFolders = async (
    q: Query,
    { scope, environment }: RollbackScope,
    steps: readonly RollbackStep[],
  ): Promise<void> => {
    const needed = steps.filter((step) => step.kind !== "delete").flatMap((step) => pathsTo(stepPath(step)));
    const paths = [...new Set(needed)];
    const there = new Set((await findFoldersByPaths(q, environment.id, paths)).map((row) => row.path));
    for (const secretPath of paths.filter((path) => !there.has(path)))
      requireRight(scope.ability, "create", "secret-folders", { environment: environment.slug, secretPath });
  };

  /** Overrides go where the secret that they override goes. */
  const withOverrides = async (
    tx: Tx,
    change: SecretChangeStep,
    overridesOf: ReturnType<typeof overridesIn>,
  ): Promise<SecretChangeStep[]> => {
    if (change.kind === "create") return [change];
    const { before } = change;
    const overrides = overridesOf(before);
    if (change.kind === "delete")
      return [
        change,
        ...overrides.map((row): SecretChangeStep => ({ kind: "delete", before: row, from: change.from })),
      ];
    const { after } = change;
    if (after.key === before.key && after.folder.id === before.folderId) return [change];
    const moved: SecretChangeStep[] = [change];
    for (const row of overrides)
      moved.push({
        kind: "update",
        before: row,
        from: change.from,
        after: nextDraft(row, after.folder, after.key, await stateOf(tx, row)),
      });
    return moved;
  };

  const toChanges = async (
    tx: Tx,
    scope: RollbackScope,
    steps: readonly RollbackStep[],
    { present, known }: { present: FolderNow; known: ReadonlyMap<string, TagRef> },
  ): Promise<SecretChangeStep[]> => {
    const changes: SecretChangeStep[] = [];
    const pace = new Pace();
    const overridesOf = overridesIn(present);
    const places = new Map<string, FolderPlace>();
    const clean = (state: SecretState): SecretState => ({
      ...state,
      tagIds: state.tagIds.filter((id) => known.has(id)),
    });
    for (const step of steps) {
      if (pace.isDue()) await pace.rest();
      if (step.kind === "delete") {
        changes.push(
          ...(await withOverrides(tx, { kind: "delete", before: step.row, from: step.from }, overridesOf)),
        );
        continue;
      }
      const path = stepPath(step);
      const place =
        places.get(path) ?? placeOf((await folders.ensure(tx, scope.scope, scope.environment, path)).folder);
      places.set(path, place);
      if (step.kind === "update") {
        const change: SecretChangeStep = {
          kind: "update",
          before: step.row,
          from: step.from,
          after: nextDraft(step.row, place, step.key, clean(step.state)),
        };
        changes.push(...(await withOverrides(tx, change, overridesOf)));
      } else {
        changes.push({
          kind: "create",
          after: {
            id: step.id,
            folder: place,
            key: step.past.row.key,
            ownerId: null,
            version: step.version,
            createdAt: step.createdAt,
            state: clean(step.state),
          },
        });
      }
    }
    return changes;
  };

  const report = (steps: readonly RollbackStep[], input: FolderRollback) => ({
    changes: steps.map((step) => ({
      change: step.kind,
      secretKey: stepKey(step),
      secretPath: stepPath(step),
      secretId: stepId(step),
    })),
    at: input.at,
    dryRun: input.dryRun,
  });
  const open = async (
    actor: MemberActor,
    projectRef: string,
    input: FolderRollback,
  ): Promise<RollbackScope> => {
    const scope = await access.scope(actor, projectRef);
    const environment = await access.environment(scope, input.environment);
    requireRight(scope.ability, "create", "secret-rollback", {
      environment: environment.slug,
      secretPath: input.secretPath,
    });
    if (input.at.getTime() > clock.millis()) throw badRequest("That moment is yet to come.");
    return { scope, environment, input };
  };

  const preview = (scope: RollbackScope) =>
    db.read(
      async (q) => {
        const steps = await stepsFor(
          q,
          await pastOf(q, scope),
          await presentOf(q, scope, (ids) => secretsInFolders(q, ids, null)),
        );
        await requireRights(scope, steps);
        await requireFolders(q, scope, steps);
        return report(steps, scope.input);
      },
      { tenant: scope.scope.project.orgId },
    );

  return {
    async rollback(actor: MemberActor, projectRef: string, input: FolderRollback) {
      const scope = await open(actor, projectRef, input);
      if (input.dryRun) return preview(scope);
      const { orgId, id: projectId } = scope.scope.project;
      const dataKey = await keyring.dataKeyOf({ projectId });
      return db.write(
        async (tx) => {
          await lockTreeAlone(tx, projectId);
          const present = await presentOf(tx, scope, (ids) => lockInFolders(tx, ids));
          const steps = await stepsFor(tx, await pastOf(tx, scope), present);
          const known = await requireRights(scope, steps);
          await requireFolders(tx, scope, steps);
          const changes = await toChanges(tx, scope, steps, { present, known });
          const origins: Origin[] = changes.flatMap((change) => [
            ...(change.kind === "create" ? [] : originsOf(change.from, [change.before.key])),
            ...(change.kind === "delete" ? [] : originsOf(change.after.folder, [change.after.key])),
          ]);
          const changeSet = await changeSetOf({ actor, dataKey }, changes, await findDependants(tx, origins));
          requireFewReferences(changeSet, MOST_REFERENCES);
          await writeChangeSets(tx, { orgId, projectId, dataKey, at: clock.now() }, [changeSet]);
          tx.audit(actor, {
            event: "rollback-secrets",
            orgId,
            projectId,
            metadata: {
              environment: scope.environment.slug,
              secretPath: input.secretPath,
              recursive: input.recursive,
              to: input.at,
              numberOfSecrets: steps.length,
            },
          });
          return report(steps, input);
        },
        { tenant: orgId },
      );
    },
  };
}
