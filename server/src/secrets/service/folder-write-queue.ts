/**
 * The queue in which writers of one folder are served. Whoever comes while a transaction of the folder is under way
 * waits, and all who waited are served in the next one together: their rows are locked by one statement, decided on
 * one after the other (each sees what the ones before it did), and written by one. A busy folder so costs a fraction
 * of a transaction per write, sixteen updates of one secret do not queue for its row lock, and a single writer waits
 * for nobody. Each is refused, audited and told of by itself.
 *
 * If the transaction fails on something that only one of them did (a name taken on another node in the same moment),
 * each is served again alone.
 */
import type { Clock } from "../../platform/clock.ts";
import type { Keyring, DataKey } from "../../platform/crypto/index.ts";
import { isUniqueViolation, type Db, type Tx } from "../../platform/db/index.ts";
import { Problem } from "../../platform/problem.ts";
import type { ProjectScope } from "../access.ts";
import {
  changeSetOf,
  noteVersion,
  originsOf,
  requireFewReferences,
  writeChangeSets,
  type SecretChangeStep,
  type ChangeSet,
} from "../changes.ts";
import { findDependants } from "../changes.store.ts";
import {
  MAX_ANSWER_BYTES,
  requestTooLarge,
  secretExists,
  type ReadSecret,
  type SecretRow,
  type TagRef,
} from "../model.ts";
import {
  findWatchedFolder,
  lockTree,
  lockByKeys,
  weighKeys,
  type FolderAddress,
  type WatchedFolder,
} from "../store.ts";
import { tagsFor, type Tags } from "../tags/service.ts";
import { auditOf } from "./drafts.ts";

/** A place that the caller asked about, before it is known whether the folder exists. */
export interface Target {
  readonly scope: ProjectScope;
  readonly at: FolderAddress;
  readonly place: { readonly environment: string; readonly path: string };
}

/** What a use case decides on: everything was read under its locks. */
export interface LockedFolder {
  readonly tx: Tx;
  readonly target: Target;
  readonly folder: WatchedFolder | undefined;
  /** The shared secret of that name and everyone's overrides of it. */
  readonly rowsOf: (key: string) => readonly SecretRow[];
  readonly tagsOf: (row: SecretRow) => readonly TagRef[];
  readonly at: Date;
}

export interface WritePlan {
  readonly changes: SecretChangeStep[];
  readonly shown: ReadSecret[];
}

interface WriteRequest {
  readonly target: Target;
  /** Every name that is looked at or written. */
  readonly keys: readonly string[];
  /** For the audit log. */
  readonly event: string;
  /** Refuses by throwing a Problem, before it has any effect. */
  readonly plan: (locked: LockedFolder) => Promise<WritePlan>;
}

interface FolderWriteQueueNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly tags: Tags;
}

type WriteOutcome = { readonly shown: ReadSecret[] } | { readonly refusal: unknown };

interface WaitingRequest {
  readonly request: WriteRequest;
  resolve(shown: ReadSecret[]): void;
  reject(reason: unknown): void;
}

/** While one transaction of a folder waits for the database, the next one can be made ready here. */
const AT_ONCE = 2;
/** Together; a larger single request is served alone. */
const MOST_KEYS = 200;

/** Up to so many are loaded without asking how large they are. */
const FEW_KEYS = 64;

/** They do not fit into one transaction together; each may by itself. */
class TooMuchTogether extends Error {}

function rowsByName(rows: readonly SecretRow[]): ReadonlyMap<string, readonly SecretRow[]> {
  const named = new Map<string, SecretRow[]>();
  for (const row of rows) {
    const same = named.get(row.key);
    if (same) same.push(row);
    else named.set(row.key, [row]);
  }
  return named;
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

/** Nobody got anything done: there is nothing to commit. */
class AllRefused extends Error {
  readonly outcomes: readonly WriteOutcome[];
  constructor(outcomes: readonly WriteOutcome[]) {
    super("nothing was changed");
    this.outcomes = outcomes;
  }
}

/** Which of them asks last for each name. */
function lastUseOf(requests: readonly WriteRequest[]): ReadonlyMap<string, number> {
  const last = new Map<string, number>();
  for (const [turn, { keys }] of requests.entries()) for (const key of keys) last.set(key, turn);
  return last;
}

export function createFolderWriteQueue({ db, clock, keyring, tags }: FolderWriteQueueNeeds) {
  const lines = new Map<string, { readonly waiting: WaitingRequest[]; served: number }>();

  const planFor = async (locked: LockedFolder, request: WriteRequest, dataKey: DataKey) => {
    const { project, actor } = request.target.scope;
    try {
      const { changes, shown } = await request.plan(locked);
      const affected = locked.folder?.isWatched
        ? await findDependants(locked.tx, originsOf(request.target.at, request.keys))
        : [];
      const audit = () => {
        for (const [event, part] of partsOf(request.event, changes)) {
          const metadata = auditOf(request.target.place, part);
          locked.tx.audit(actor, { event, orgId: project.orgId, projectId: project.id, metadata });
        }
      };
      const changeSet = await changeSetOf({ actor, dataKey }, changes, affected);
      requireFewReferences(changeSet);
      return { changeSet, shown, audit };
    } catch (error) {
      if (error instanceof Problem) return { refusal: error };
      throw error;
    }
  };

  /** The rows as a use case looks at them. */
  const look = async (
    projectId: string,
    rows: readonly SecretRow[],
  ): Promise<Pick<LockedFolder, "rowsOf" | "tagsOf">> => {
    const named = rowsByName(rows);
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
    return db.write(
      async (tx) => {
        if (keys.length > FEW_KEYS && (await weighKeys(tx, target.at, keys)) > MAX_ANSWER_BYTES)
          throw requests.length > 1 ? new TooMuchTogether() : requestTooLarge();
        const [, folder, locked] = await Promise.all([
          lockTree(tx, project.id),
          findWatchedFolder(tx, target.at),
          lockByKeys(tx, target.at, keys),
        ]);
        const at = clock.now();
        const present = new Map(locked.map((row) => [row.id, row]));
        const lastUse = lastUseOf(requests);
        const changeSets: ChangeSet[] = [];
        const outcomes: WriteOutcome[] = [];
        let seen = await look(project.id, [...present.values()]);
        for (const [turn, request] of requests.entries()) {
          const locked = { tx, target: request.target, folder, ...seen, at };
          const done = await planFor(locked, request, dataKey);
          outcomes.push(done);
          if (!done.changeSet) continue;
          changeSets.push(done.changeSet);
          done.audit();
          // Whoever comes after and asks for one of these names goes on from here.
          if (request.keys.every((key) => lastUse.get(key) === turn)) continue;
          for (const version of done.changeSet.versions) noteVersion(present, version, at);
          seen = await look(project.id, [...present.values()]);
        }
        if (changeSets.length === 0) throw new AllRefused(outcomes);
        await writeChangeSets(tx, { orgId: project.orgId, projectId: project.id, dataKey, at }, changeSets);
        return outcomes;
      },
      { tenant: project.orgId },
    );
  };

  const serveAlone = async ({ request, resolve, reject }: WaitingRequest): Promise<void> => {
    try {
      const [outcome] = await serve([request]);
      if (outcome && "shown" in outcome) resolve(outcome.shown);
    } catch (error) {
      if (error instanceof AllRefused) reject((error.outcomes[0] as { refusal: unknown }).refusal);
      else if (isUniqueViolation(error, "secrets_key_unique")) reject(secretExists(request.keys[0] ?? ""));
      else reject(error);
    }
  };

  const serveTogether = async (group: readonly WaitingRequest[]): Promise<void> => {
    const [only] = group;
    if (only && group.length === 1) return serveAlone(only);
    try {
      const outcomes = await serve(group.map(({ request }) => request)).catch((error: unknown) => {
        if (error instanceof AllRefused) return error.outcomes;
        throw error;
      });
      for (const [n, { resolve, reject }] of group.entries()) {
        const outcome = outcomes[n] as WriteOutcome;
        if ("shown" in outcome) resolve(outcome.shown);
        else reject(outcome.refusal);
      }
    } catch (error) {
      // The database is away, or its answer to the commit is unknown: doing it again could do it twice.
      if (error instanceof Problem) for (const { reject } of group) reject(error);
      else for (const one of group) await serveAlone(one);
    }
  };

  /** As many from the front of the line as go together. */
  const nextGroup = (waiting: WaitingRequest[]): WaitingRequest[] => {
    let keys = 0;
    const end = waiting.findIndex(({ request }, n) => {
      keys += request.keys.length;
      return n > 0 && keys > MOST_KEYS;
    });
    return waiting.splice(0, end < 0 ? waiting.length : end);
  };

  return {
    submit(request: WriteRequest): Promise<ReadSecret[]> {
      const { environmentId, path } = request.target.at;
      const spot = `${environmentId}:${path}`;
      const line = lines.get(spot) ?? { waiting: [], served: 0 };
      lines.set(spot, line);
      return new Promise((resolve, reject) => {
        line.waiting.push({ request, resolve, reject });
        if (line.served >= AT_ONCE) return;
        line.served += 1;
        void (async () => {
          while (line.waiting.length > 0) await serveTogether(nextGroup(line.waiting));
          line.served -= 1;
          if (line.served === 0) lines.delete(spot);
        })();
      });
    },
  };
}
