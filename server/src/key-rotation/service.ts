/**
 * A new data key for a project, without downtime. The new key is used for new rows at once; a job
 * walks over the old ones, folder by folder, and re-encrypts them. Every row names its key, so it can be read at
 * any moment, and a job that was killed simply finds what is left. The old key is kept: rows of other rooms may name
 * it, and so do backups.
 */
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Keyring, DataKey } from "../platform/crypto/index.ts";
import { type Db, MAINTENANCE_TURN } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { takingTurns, type Job } from "../platform/jobs/index.ts";
import { inChunks } from "../platform/pace.ts";
import { fact, type Tail } from "../platform/outbox/index.ts";
import {
  finishRotation,
  foldersEverIn,
  insertRotation,
  replaceSecret,
  replaceVersion,
  rotationsOf,
  runningRotations,
  secretsUnder,
  versionsUnder,
  type RotationRow,
} from "./store.ts";
import { requireRight, type Access, decryptState, encryptState } from "../secrets/index.ts";

interface RotationNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly tail: Tail;
  readonly keyring: Keyring;
  readonly access: Access;
}

const projectKeyRotated = fact<{ readonly orgId: string; readonly projectId: string }>("project.key-rotated");

export type KeyRotations = ReturnType<typeof createKeyRotations>;

const BATCH = 500;
/** A node that does not know of the rotation yet may use the old key for this long. */
const GRACE_MS = 120_000;

export function createKeyRotations({ db, clock, tail, keyring, access }: RotationNeeds) {
  tail.onInvalidate((hint) => {
    if (projectKeyRotated.is(hint)) keyring.forgetActive(hint.data.projectId);
  });
  tail.onReconnect(() => keyring.forgetAllActive());

  /** Decrypted and encrypted again before anything is written, in chunks; only this job waits for that. */
  const anew = async <Row, New>(
    rotation: RotationRow,
    rows: readonly Row[],
    redo: (row: Row, vaults: { old: DataKey; dataKey: DataKey }) => New,
  ): Promise<New[]> => {
    const dataKey = await keyring.dataKeyOf({ projectId: rotation.projectId });
    const old = await keyring.dataKeyById(rotation.oldKeyId);
    const done: New[] = [];
    await inChunks(rows, (row) => void done.push(redo(row, { old, dataKey })));
    return done;
  };

  async function* redoSecrets(rotation: RotationRow, folderId: string): AsyncGenerator<number> {
    for (let from = ""; ;) {
      const rows = await db.read(
        (q) => secretsUnder(q, folderId, rotation.oldKeyId, { key: from, limit: BATCH }),
        MAINTENANCE_TURN,
      );
      if (rows.length === 0) return;
      const states = await anew(rotation, rows, (row, { old, dataKey }) => ({
        ...row,
        ...encryptState(dataKey, row, decryptState(old, row)),
      }));
      await db.write(
        async (tx) => {
          for (const state of states) replaceSecret(tx, state, rotation.oldKeyId);
        },
        { audited: false },
      );
      from = rows.at(-1)?.key ?? from;
      yield rows.length;
    }
  }

  async function* redoVersions(rotation: RotationRow, folderId: string): AsyncGenerator<number> {
    for (let from = new Date(0); ;) {
      const rows = await db.read(
        (q) => versionsUnder(q, folderId, rotation.oldKeyId, { at: from, limit: BATCH }),
        MAINTENANCE_TURN,
      );
      if (rows.length === 0) return;
      const states = await anew(rotation, rows, ({ value, ...row }, { old, dataKey }) => ({
        ...row,
        ...(value === null
          ? { keyId: dataKey.keyId, value, comment: null, metadata: null }
          : encryptState(dataKey, row, decryptState(old, { ...row, value }))),
      }));
      await db.write(
        async (tx) => {
          for (const state of states) replaceVersion(tx, state, rotation.oldKeyId);
        },
        { audited: false },
      );
      from = rows.at(-1)?.createdAt ?? from;
      yield rows.length;
    }
  }

  async function* goOn(rotation: RotationRow): AsyncGenerator<void> {
    let done = 0;
    for (const folderId of await db.read((q) => foldersEverIn(q, rotation.projectId)))
      for (const redo of [redoSecrets, redoVersions])
        for await (const chunk of redo(rotation, folderId)) {
          done += chunk;
          yield;
        }
    const isSettled = clock.millis() - rotation.startedAt.getTime() > GRACE_MS;
    if (done === 0 && isSettled)
      await db.write((tx) => finishRotation(tx, rotation.id, clock.now()), { audited: false });
  }

  // A row that cannot be decrypted blocks its own project, not all that come after it.
  const work = async (): Promise<void> => takingTurns((await db.read(runningRotations)).map(goOn));

  // A short lease: two nodes at it do no harm (a row is replaced only while it names the old key), and after a kill the
  // next one goes on within a minute.
  const job: Job = { name: "secrets.key-rotation", everySeconds: 10, leaseSeconds: 60, run: work };

  return {
    job,

    async rotate(actor: MemberActor, projectRef: string): Promise<RotationRow> {
      const { ability, project } = await access.scope(actor, projectRef);
      requireRight(ability, "edit", "kms", {});
      const row = await db.write(async (tx) => {
        const oldKeyId = await keyring.rotateProjectKey(tx, project.orgId, project.id);
        tx.audit(actor, {
          event: "rotate-project-key",
          orgId: project.orgId,
          projectId: project.id,
          metadata: { oldKeyId },
        });
        tx.emit(projectKeyRotated({ orgId: project.orgId, projectId: project.id }));
        return (await insertRotation(tx, {
          id: newId(),
          projectId: project.id,
          oldKeyId,
          startedAt: clock.now(),
        })) as RotationRow;
      });
      keyring.forgetActive(project.id);
      return row;
    },

    async list(actor: MemberActor, projectRef: string): Promise<RotationRow[]> {
      const { ability, project } = await access.scope(actor, projectRef);
      requireRight(ability, "edit", "kms", {});
      return db.read((q) => rotationsOf(q, project.id));
    },
  };
}
