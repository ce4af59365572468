/**
 * Moving and copying. The caller must be able to read the value here and to create it there, and to edit
 * what is there already if it is overwritten.
 */
import type { MemberActor } from "../../platform/actor.ts";
import { isUniqueViolation, type Tx } from "../../platform/db/index.ts";
import { Pace } from "../../platform/pace.ts";
import { badRequest } from "../../platform/problem.ts";
import { JudgingBudget } from "../../permissions/index.ts";
import { requireRight, requireNoGain, type ProjectScope } from "../access.ts";
import {
  changeSetOf,
  originsOf,
  requireFewReferences,
  writeChangeSets,
  type SecretChangeStep,
} from "../changes.ts";
import { findDependants } from "../changes.store.ts";
import type { Transfer } from "../contract.ts";
import {
  attributesOf,
  decryptState,
  folderUnknown,
  MAX_ANSWER_BYTES,
  requestTooLarge,
  secretExists,
  secretUnknown,
  type FolderPlace,
  type SecretRow,
} from "../model.ts";
import {
  findFolder,
  lockTree,
  keysOfIds,
  lockByIds,
  lockByKeys,
  weighKeys,
  type FolderAddress,
} from "../store.ts";
import { tagsFor } from "../tags/service.ts";
import { newDraft, nextDraft } from "./drafts.ts";
import type { WriteNeeds } from "./write-secrets.ts";

export type SecretMoves = ReturnType<typeof createSecretMoves>;
export interface MovedSecrets {
  readonly isSourceUpdated: boolean;
  readonly isDestinationUpdated: boolean;
}

interface Move {
  readonly tx: Tx;
  readonly scope: ProjectScope;
  readonly source: FolderPlace;
  readonly destination: FolderPlace;
  readonly rows: readonly SecretRow[];
  /** What is there already, by name and owner. */
  readonly existing: ReadonlyMap<string, SecretRow>;
  readonly input: Transfer;
  readonly isMove: boolean;
  readonly at: Date;
}

const slotOf = ({ key, ownerId }: SecretRow): string => `${ownerId ?? ""} ${key}`;

export function createSecretMoves(needs: WriteNeeds) {
  const { db, clock, keyring, access, tags } = needs;

  const stateOf = async (tx: Tx, row: SecretRow) =>
    decryptState(await keyring.dataKeyById(row.keyId, tx), row);

  const takenBy = ({ existing }: Move, row: SecretRow): SecretRow | undefined => existing.get(slotOf(row));

  const requireRights = async (trip: Move): Promise<void> => {
    const { scope, rows, existing, source, destination, input, isMove } = trip;
    const { ability, project } = scope;
    const known = await tags.lookUp(
      project.id,
      [...rows, ...existing.values()].map((row) => row.tagIds),
    );
    const budget = new JudgingBudget();
    for (const row of rows) {
      if (budget.isDue()) await budget.giveWay();
      const own = tagsFor(known, row.tagIds);
      const here = attributesOf(source, row.key, own);
      const there = attributesOf(destination, row.key, own);
      requireRight(ability, "readValue", "secrets", here);
      if (isMove) requireRight(ability, "delete", "secrets", here);
      requireRight(ability, "create", "secrets", there);
      const taken = takenBy(trip, row);
      if (!taken || !input.shouldOverwrite) continue;
      // The overwritten secret is checked with its own tags: they may protect it although the new one's would not.
      const before = attributesOf(destination, taken.key, tagsFor(known, taken.tagIds));
      for (const attributes of [before, there]) requireRight(ability, "edit", "secrets", attributes);
      requireNoGain(ability, before, there);
    }
  };

  /** A secret that exists there takes over the state and keeps its own id; else the moved one keeps its id. */
  const changesFor = async (trip: Move, row: SecretRow): Promise<SecretChangeStep[]> => {
    const { tx, source, destination, input, isMove } = trip;
    const state = await stateOf(tx, row);
    const taken = takenBy(trip, row);
    if (taken && !input.shouldOverwrite) throw secretExists(row.key);
    if (taken) {
      const change: SecretChangeStep = {
        kind: "update",
        before: taken,
        from: destination,
        after: nextDraft(taken, destination, row.key, state),
      };
      return isMove ? [change, { kind: "delete", before: row, from: source }] : [change];
    }
    if (isMove)
      return [
        { kind: "update", before: row, from: source, after: nextDraft(row, destination, row.key, state) },
      ];
    return [{ kind: "create", after: newDraft(destination, row.key, row.ownerId, { state, at: trip.at }) }];
  };

  const load = async (
    tx: Tx,
    scope: ProjectScope,
    input: Transfer,
    places: { from: FolderAddress; to: FolderAddress; isMove: boolean },
  ): Promise<Move> => {
    const [, source, destination, keys] = await Promise.all([
      lockTree(tx, scope.project.id),
      findFolder(tx, places.from),
      findFolder(tx, places.to),
      keysOfIds(tx, places.from, input.secretIds),
    ]);
    if (!source) throw folderUnknown(places.from.path);
    if (!destination) throw folderUnknown(places.to.path);
    const weights = [await weighKeys(tx, places.from, keys), await weighKeys(tx, places.to, keys)];
    if (weights.some((weight) => weight > MAX_ANSWER_BYTES)) throw requestTooLarge();
    const found = await lockByIds(tx, places.from, input.secretIds);
    const ids = new Set(found.map((row) => row.id));
    const missing = input.secretIds.find((id) => !ids.has(id));
    if (missing !== undefined) throw secretUnknown(missing);
    const rows = places.isMove ? found : found.filter((row) => row.ownerId === null);
    const taken = await lockByKeys(tx, places.to, [...new Set(rows.map((row) => row.key))]);
    const existing = new Map(taken.map((row) => [slotOf(row), row]));
    return { tx, scope, source, destination, rows, existing, input, isMove: places.isMove, at: clock.now() };
  };

  const run = async (actor: MemberActor, input: Transfer, isMove: boolean): Promise<MovedSecrets> => {
    const scope = await access.scope(actor, input.projectId);
    const [from, to] = [
      await access.environment(scope, input.sourceEnvironment),
      await access.environment(scope, input.destinationEnvironment),
    ];
    const places = {
      from: { environmentId: from.id, path: input.sourceSecretPath },
      to: { environmentId: to.id, path: input.destinationSecretPath },
      isMove,
    };
    if (from.id === to.id && places.from.path === places.to.path)
      throw badRequest("Source and destination are the same folder.");
    const dataKey = await keyring.dataKeyOf({ projectId: scope.project.id });
    const { orgId, id: projectId } = scope.project;
    try {
      return await db.write(
        async (tx) => {
          const trip = await load(tx, scope, input, places);
          await requireRights(trip);
          const changes: SecretChangeStep[] = [];
          const pace = new Pace();
          for (const row of trip.rows) {
            changes.push(...(await changesFor(trip, row)));
            if (pace.isDue()) await pace.rest();
          }
          const keys = trip.rows.map((row) => row.key);
          const affected = await findDependants(tx, [
            ...originsOf(trip.source, isMove ? keys : []),
            ...originsOf(trip.destination, keys),
          ]);
          const changeSet = await changeSetOf({ actor, dataKey }, changes, affected);
          requireFewReferences(changeSet);
          await writeChangeSets(tx, { orgId, projectId, dataKey, at: trip.at }, [changeSet]);
          const { source, destination } = trip;
          tx.audit(actor, {
            event: isMove ? "move-secrets" : "copy-secrets",
            orgId,
            projectId,
            metadata: {
              sourceEnvironment: source.environment,
              sourceSecretPath: source.path,
              destinationEnvironment: destination.environment,
              destinationSecretPath: destination.path,
              secretIds: input.secretIds,
            },
          });
          return { isSourceUpdated: isMove, isDestinationUpdated: true };
        },
        { tenant: orgId },
      );
    } catch (error) {
      if (isUniqueViolation(error, "secrets_key_unique")) throw secretExists("of this name");
      throw error;
    }
  };

  return {
    move: (actor: MemberActor, input: Transfer) => run(actor, input, true),
    copy: (actor: MemberActor, input: Transfer) => run(actor, input, false),
  };
}
