/**
 * Looking back and going back. Nothing is ever erased: a rollback writes new versions with old content, so it is
 * announced, audited and can itself be rolled back like any other change.
 */
import type { MemberActor } from "../../platform/actor.ts";
import { isUniqueViolation } from "../../platform/db/index.ts";
import { badRequest } from "../../platform/problem.ts";
import { orgOf } from "../../permissions/index.ts";
import { require, requireNoGain, type Access, type Ground } from "../access/service.ts";
import { originsOf, writeChanges, type Change } from "../changes/service.ts";
import { findDependants } from "../changes/store.ts";
import {
  attributesOf,
  decryptState,
  folderUnknown,
  secretExists,
  secretUnknown,
  versionUnknown,
  type FolderPlace,
  type ReadSecret,
  type SecretRow,
  type TagRef,
} from "../model.ts";
import type { ReadAudit } from "../reads/service.ts";
import { nextDraft, shown } from "../service/drafts.ts";
import type { WriteNeeds } from "../service/write-secrets.ts";
import { findFolder, holdTree, lockByKeys } from "../store.ts";
import { tagsFor } from "../tags/service.ts";
import {
  findLastKnown,
  findOldest,
  findVersion,
  pageOfVersions,
  type LastKnown,
  type VersionRow,
} from "./store.ts";

export interface HistoryNeeds extends WriteNeeds {
  readonly access: Access;
  readonly reads: ReadAudit;
}

export interface ReadVersion {
  readonly secret: ReadSecret;
  readonly version: VersionRow;
}

export type SecretHistory = ReturnType<typeof createSecretHistory>;

const placeOf = (row: LastKnown): FolderPlace => ({
  id: row.folderId,
  projectId: row.projectId,
  environmentId: row.environmentId,
  environment: row.environment,
  path: row.path,
});

export function createSecretHistory(needs: HistoryNeeds) {
  const { db, clock, keyring, access, tags, reads } = needs;

  const find = async (
    actor: MemberActor,
    secretId: string,
    action: string,
  ): Promise<{ ground: Ground; last: LastKnown; own: readonly TagRef[] }> => {
    const last = await db.read((q) => findLastKnown(q, secretId, orgOf(actor)));
    if (!last || (last.ownerId !== null && last.ownerId !== actor.id)) throw secretUnknown(secretId);
    const ground = await access.ground(actor, last.projectId);
    require(ground.ability, action, "secret-rollback", {
      environment: last.environment,
      secretPath: last.path,
    });
    const own = tagsFor(await tags.lookUp(last.projectId, [last.tagIds]), last.tagIds);
    return { ground, last, own };
  };

  const open = async (row: VersionRow): Promise<SecretRow | null> =>
    row.value === null ? null : { ...row, value: row.value };

  return {
    async list(
      actor: MemberActor,
      secretId: string,
      query: { offset: number; limit: number; viewSecretValue: boolean },
    ): Promise<ReadVersion[]> {
      const { ground, last, own } = await find(actor, secretId, "read");
      const attributes = attributesOf(placeOf(last), last.key, own);
      require(ground.ability, "describeSecret", "secrets", attributes);
      const rows = await db.read((q) => pageOfVersions(q, secretId, query.limit, query.offset));
      const known = await tags.lookUp(
        last.projectId,
        rows.map((row) => row.tagIds),
      );
      const versions: ReadVersion[] = [];
      for (const version of rows) {
        const row = await open(version);
        const vault = await keyring.vaultById(version.keyId);
        const state = row ? decryptState(vault, row) : { ...version, value: "", comment: "", metadata: [] };
        const draft = {
          id: secretId,
          folder: placeOf(last),
          key: version.key,
          ownerId: version.ownerId,
          version: version.version,
          createdAt: version.originalAt ?? version.createdAt,
          state,
        };
        const secret = shown(draft, {
          tags: tagsFor(known, version.tagIds),
          ability: ground.ability,
          at: version.originalAt ?? version.createdAt,
        });
        // Judged by what the secret is today and by what it was then: neither may open what the other closes.
        const isReadable = query.viewSecretValue && ground.ability.can("readValue", "secrets", attributes);
        versions.push({ version, secret: isReadable ? secret : { ...secret, value: undefined } });
      }
      if (versions.some(({ secret }) => secret.value !== undefined)) {
        await reads.note(actor, ground.project, "get-secret-versions", {
          environment: last.environment,
          secretPath: last.path,
          secretKey: last.key,
          secretId,
          numberOfVersions: versions.length,
        });
      }
      return versions;
    },

    /** The content comes back; the name and the folder stay what they are. A deleted secret comes back where it was. */
    async rollback(actor: MemberActor, secretId: string, toVersion: number): Promise<ReadSecret> {
      const { ground, last } = await find(actor, secretId, "create");
      const vault = await keyring.vaultOf({ projectId: last.projectId });
      const { orgId, id: projectId } = ground.project;
      const at = { environmentId: last.environmentId, path: last.path };
      try {
        return await db.write(async (tx) => {
          const [, folder, rows, affected, old] = await Promise.all([
            holdTree(tx, projectId),
            findFolder(tx, at),
            lockByKeys(tx, at, [last.key]),
            findDependants(tx, originsOf(at, [last.key])),
            findVersion(tx, secretId, toVersion),
          ]);
          if (!folder) throw folderUnknown(last.path);
          const content = old && (await open(old));
          if (!content) throw versionUnknown(toVersion, last.key);
          const state = decryptState(await keyring.vaultById(content.keyId, tx), content);
          const known = await tags.lookUp(projectId, [state.tagIds, last.tagIds]);
          const kept = { ...state, tagIds: state.tagIds.filter((id) => known.has(id)) };
          const after = attributesOf(folder, last.key, tagsFor(known, kept.tagIds));
          const now = rows.find((row) => row.id === secretId);
          if (now) {
            const before = attributesOf(folder, last.key, tagsFor(known, now.tagIds));
            for (const attributes of [before, after]) require(ground.ability, "edit", "secrets", attributes);
            requireNoGain(ground.ability, before, after);
          } else {
            require(ground.ability, "create", "secrets", after);
            if (last.change !== "delete")
              throw badRequest("The secret has just been moved or renamed; try again.");
            if (rows.some((row) => row.ownerId === last.ownerId)) throw secretExists(last.key);
          }
          const latest = (await findLastKnown(tx, secretId, orgId)) ?? last;
          const first = await findOldest(tx, secretId);
          const draft = {
            ...nextDraft(
              { ...content, version: latest.version, ownerId: last.ownerId },
              folder,
              last.key,
              kept,
            ),
            createdAt: now?.createdAt ?? first?.createdAt ?? clock.now(),
          };
          const changes: Change[] = [
            now
              ? { kind: "update", before: now, from: folder, after: draft }
              : { kind: "create", after: draft },
          ];
          const moment = clock.now();
          writeChanges(tx, { actor, orgId, projectId, vault, at: moment }, changes, affected);
          tx.audit(actor, {
            event: "rollback-secret",
            orgId,
            projectId,
            metadata: {
              environment: folder.environment,
              secretPath: folder.path,
              secretKey: last.key,
              secretId,
              toVersion,
              version: draft.version,
            },
          });
          return shown(draft, { tags: tagsFor(known, kept.tagIds), ability: ground.ability, at: moment });
        });
      } catch (error) {
        if (isUniqueViolation(error, "secrets_key_unique")) throw secretExists(last.key);
        throw error;
      }
    },
  };
}
