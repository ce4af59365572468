/**
 * The queue of write requests for one folder. All that waited share one transaction (group commit): their rows are locked
 * by one statement, decided on one after the other (each sees what the ones before it did), and written by one. A busy
 * folder so costs a fraction of a transaction per write, and sixteen updates of one secret do not queue for its row lock.
 * Each is refused, audited and announced by itself.
 */
import type { Clock } from "../../platform/clock.ts";
import type { DataKey, Keyring } from "../../platform/crypto/index.ts";
import { createWriteGroups, isUniqueViolation, type Db, type Tx } from "../../platform/db/index.ts";
import { Problem } from "../../platform/problem.ts";
import { groupBy } from "../../platform/group-by.ts";
import {
  changeSetOf,
  noteVersion,
  originsOf,
  requireFewReferences,
  writeChangeSets,
  type ChangeSet,
  type SecretChangeStep,
} from "../changes.ts";
import { findDependants } from "../changes.store.ts";
import {
  MAX_ANSWER_BYTES,
  requestTooLarge,
  secretExists,
  type ReadSecret,
  type SecretRow,
} from "../model.ts";
import { findWatchedFolder, lockByKeys, lockTree, weighKeys } from "../store.ts";
import { tagsFor, type Tags } from "../tags/service.ts";
import { auditOf } from "./drafts.ts";
import { planOf, type LockedFolder, type WriteRequest } from "./plan-writes.ts";

interface FolderWriteQueueNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly tags: Tags;
}

type WriteOutcome = PromiseSettledResult<readonly ReadSecret[]>;

/** Of all requests in one transaction; a larger single request gets one of its own. */
const MOST_KEYS = 200;
/** Up to this many are loaded without asking for their size first. */
const FEW_KEYS = 64;

/** Names that somebody else takes in the same moment make a plan void. */
const MOST_ATTEMPTS = 5;

/** They do not fit into one transaction together; each may by itself. */
class TooMuchTogether extends Error {}

/** Every request was refused: there is nothing to commit. */
class AllRefused extends Error {
  readonly outcomes: readonly WriteOutcome[];
  constructor(outcomes: readonly WriteOutcome[]) {
    super("nothing was changed");
    this.outcomes = outcomes;
  }
}

/** A batch that changes what is there and makes what is not is two things in the audit log. */
function partsOf(
  event: string,
  changes: readonly SecretChangeStep[],
): (readonly [string, readonly SecretChangeStep[]])[] {
  const made = changes.filter(({ kind }) => kind === "create");
  if (event !== "update-secrets" || made.length === 0) return [[event, changes]];
  const others = changes.filter(({ kind }) => kind !== "create");
  return [["create-secrets", made], ...(others.length > 0 ? [[event, others] as const] : [])];
}

/** Which of them asks last for each name. */
function lastUseOf(requests: readonly WriteRequest[]): ReadonlyMap<string, number> {
  const last = new Map<string, number>();
  for (const [turn, { keys }] of requests.entries()) for (const key of keys) last.set(key, turn);
  return last;
}

/** A Problem refuses one request; anything else ends the transaction for all of them. */
const refusable = <T>(plan: Promise<T>): Promise<PromiseSettledResult<T>> =>
  plan.then(
    (value) => ({ status: "fulfilled", value }),
    (reason: unknown) => {
      if (reason instanceof Problem) return { status: "rejected", reason };
      throw reason;
    },
  );

/** As many from the front of the queue as fit into one transaction. */
function goTogether(waiting: readonly { readonly item: WriteRequest }[]): number {
  let keys = 0;
  const end = waiting.findIndex(({ item }, n) => {
    keys += item.keys.length;
    return n > 0 && keys > MOST_KEYS;
  });
  return end < 0 ? waiting.length : end;
}

function audit(tx: Tx, { target, event }: WriteRequest, changes: readonly SecretChangeStep[]): void {
  const { project, actor } = target.scope;
  for (const [name, part] of partsOf(event, changes)) {
    const metadata = auditOf(target.place, part);
    tx.audit(actor, { event: name, orgId: project.orgId, projectId: project.id, metadata });
  }
}

export function createFolderWriteQueue({ db, clock, keyring, tags }: FolderWriteQueueNeeds) {
  const lines = new Map<string, (request: WriteRequest) => Promise<readonly ReadSecret[]>>();

  /** One request, decided on what is locked and audited; what it throws refuses this one alone. */
  const decide = async (locked: LockedFolder, request: WriteRequest, dataKey: DataKey) => {
    const { changes, shown } = await planOf(locked, request, keyring);
    const affected = locked.folder?.isWatched
      ? await findDependants(locked.tx, originsOf(request.target.at, request.keys))
      : [];
    const changeSet = await changeSetOf({ actor: request.target.scope.actor, dataKey }, changes, affected);
    requireFewReferences(changeSet);
    audit(locked.tx, request, changes);
    return { changeSet, shown };
  };

  /** The locked rows as a use case sees them. */
  const look = async (
    projectId: string,
    rows: readonly SecretRow[],
  ): Promise<Pick<LockedFolder, "rowsOf" | "tagsOf">> => {
    const named = groupBy(rows, ({ key }) => key);
    const tagged = rows.filter((row) => row.tagIds.length > 0).map((row) => row.tagIds);
    const known = tagged.length > 0 ? await tags.lookUp(projectId, tagged) : undefined;
    return {
      rowsOf: (key) => named.get(key) ?? [],
      tagsOf: (row) => (known ? tagsFor(known, row.tagIds) : []),
    };
  };

  const serve = async (requests: readonly WriteRequest[]): Promise<readonly WriteOutcome[]> => {
    const [{ target }] = requests as [WriteRequest];
    const { project } = target.scope;
    const dataKey = await keyring.dataKeyOf({ projectId: project.id });
    const keys = [...new Set(requests.flatMap((request) => request.keys))];
    const change = async (tx: Tx): Promise<readonly WriteOutcome[]> => {
      if (keys.length > FEW_KEYS && (await weighKeys(tx, target.at, keys)) > MAX_ANSWER_BYTES)
        throw requests.length > 1 ? new TooMuchTogether() : requestTooLarge();
      const [, folder, rows] = await Promise.all([
        lockTree(tx, project.id),
        findWatchedFolder(tx, target.at),
        lockByKeys(tx, target.at, keys),
      ]);
      const at = clock.now();
      const present = new Map(rows.map((row) => [row.id, row]));
      const lastUse = lastUseOf(requests);
      const changeSets: ChangeSet[] = [];
      const outcomes: WriteOutcome[] = [];
      let seen = await look(project.id, rows);
      for (const [turn, request] of requests.entries()) {
        const plan = await refusable(decide({ tx, folder, ...seen, at }, request, dataKey));
        if (plan.status === "rejected") {
          outcomes.push(plan);
          continue;
        }
        const { changeSet, shown } = plan.value;
        changeSets.push(changeSet);
        outcomes.push({ status: "fulfilled", value: shown });
        // A later request for one of these names continues from here.
        if (request.keys.every((key) => lastUse.get(key) === turn)) continue;
        for (const version of changeSet.versions) noteVersion(present, version, at);
        seen = await look(project.id, [...present.values()]);
      }
      if (changeSets.length === 0) throw new AllRefused(outcomes);
      await writeChangeSets(tx, { orgId: project.orgId, projectId: project.id, dataKey, at }, changeSets);
      return outcomes;
    };
    return db.write(change, { tenant: project.orgId }).catch((error: unknown) => {
      if (error instanceof AllRefused) return error.outcomes;
      throw error;
    });
  };

  const serveAlone = async (request: WriteRequest): Promise<readonly ReadSecret[]> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const [outcome] = await serve([request]);
        if (outcome?.status !== "fulfilled") throw outcome?.reason;
        return outcome.value;
      } catch (error) {
        if (!isUniqueViolation(error, "secrets_key_unique")) throw error;
        // Somebody else was faster with a name. It is there now, and whoever meant to change it in that case can.
        if (attempt === MOST_ATTEMPTS) throw secretExists(request.keys[0] ?? "");
      }
    }
  };

  return {
    submit(request: WriteRequest): Promise<readonly ReadSecret[]> {
      const { environmentId, path } = request.target.at;
      const spot = `${environmentId}:${path}`;
      const line =
        lines.get(spot) ??
        createWriteGroups({
          atOnce: 2,
          take: goTogether,
          alone: serveAlone,
          together: serve,
          onIdle: () => void lines.delete(spot),
        });
      lines.set(spot, line);
      return line(request);
    },
  };
}
