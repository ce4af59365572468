/**
 * History and rollback. Nothing is erased: a rollback writes new versions with old content, so it is
 * announced, audited and can itself be rolled back like any other change.
 */
import type { MemberActor } from "../platform/actor.ts";
import { isUniqueViolation, type Tx } from "../platform/db/index.ts";
import { badRequest } from "../platform/problem.ts";
import { redact } from "../platform/redacted.ts";
import { deny, JudgingBudget, orgOf } from "../permissions/index.ts";
import { isGain, mayAll } from "./model.ts";
import { learnThen, type Then } from "./service/judge-version.ts";
import {
  findLastKnown,
  findOldest,
  findVersion,
  pageOfVersions,
  weighPage,
  type LastKnown,
  type VersionRow,
} from "./store.ts";
import {
  requireRight,
  requireNoGain,
  type Access,
  type ProjectScope,
  originsOf,
  writeChanges,
  type SecretChangeStep,
  findDependants,
  attributesOf,
  closeMetadata,
  decryptState,
  folderUnknown,
  MAX_ANSWER_BYTES,
  nothingToOverride,
  secretExists,
  secretUnknown,
  versionUnknown,
  type FolderPlace,
  type ReadSecret,
  type SecretRow,
  type SecretState,
  type TagRef,
  type ReadAudit,
  nextDraft,
  shown,
  type WriteNeeds,
  findFolder,
  lockTree,
  lockByKeys,
  tagsFor,
} from "../secrets/index.ts";

interface SecretHistoryNeeds extends WriteNeeds {
  readonly access: Access;
  readonly reads: ReadAudit;
}

export interface ReadVersion {
  readonly secret: ReadSecret;
  readonly version: VersionRow;
}

export type SecretHistory = ReturnType<typeof createSecretHistory>;

const pageTooLarge = () =>
  badRequest(
    `These versions are larger than ${MAX_ANSWER_BYTES / 1024 / 1024} MiB together. Ask for fewer at once (limit).`,
  );

const placeOf = (row: LastKnown): FolderPlace => ({
  id: row.folderId,
  projectId: row.projectId,
  environmentId: row.environmentId,
  environment: row.environment,
  path: row.path,
});

export function createSecretHistory(needs: SecretHistoryNeeds) {
  const { db, clock, keyring, access, tags, reads } = needs;

  const find = async (
    actor: MemberActor,
    secretId: string,
    action: string,
  ): Promise<{ scope: ProjectScope; last: LastKnown; own: readonly TagRef[] }> => {
    const last = await db.read((q) => findLastKnown(q, secretId, orgOf(actor)));
    if (!last || (last.ownerId !== null && last.ownerId !== actor.id)) throw secretUnknown(secretId);
    const scope = await access.scope(actor, last.projectId);
    requireRight(scope.ability, action, "secret-rollback", {
      environment: last.environment,
      secretPath: last.path,
    });
    const own = tagsFor(await tags.lookUp(last.projectId, [last.tagIds]), last.tagIds);
    return { scope, last, own };
  };

  const open = async (row: VersionRow): Promise<SecretRow | null> =>
    row.value === null ? null : { ...row, value: row.value };

  /** What a reader sees of a version that it may know of. */
  const lookAt = async (
    scope: ProjectScope,
    version: VersionRow,
    { last, then, isReadable }: { last: LastKnown; then: Then; isReadable: boolean },
  ): Promise<ReadSecret> => {
    const row = await open(version);
    const dataKey = await keyring.dataKeyById(version.keyId);
    const state = row ? decryptState(dataKey, row) : { ...version, value: "", comment: "", metadata: [] };
    const at = version.originalAt ?? version.createdAt;
    const draft = {
      id: version.id,
      folder: placeOf(last),
      key: version.key,
      ownerId: version.ownerId,
      version: version.version,
      createdAt: at,
      state,
    };
    const secret = shown(draft, { tags: then.tags, ability: scope.ability, at });
    return isReadable
      ? secret
      : { ...secret, value: undefined, metadata: redact(closeMetadata(state.metadata)) };
  };

  interface Return {
    readonly scope: ProjectScope;
    readonly folder: FolderPlace;
    /** The secret as it is, or was last. */
    readonly last: VersionRow;
    readonly now: SecretRow | undefined;
    readonly old: VersionRow;
    readonly state: SecretState;
  }

  /** Who may bring that content back; answers with its tags, as far as they still are. */
  const requireReturn = async (tx: Tx, asked: Return): Promise<readonly TagRef[]> => {
    const { scope, folder, last, now, old, state } = asked;
    const { ability } = scope;
    const lastTags = (now ?? last).tagIds;
    const known = await tags.lookUp(folder.projectId, [state.tagIds, lastTags]);
    const kept = tagsFor(known, state.tagIds);
    const before = attributesOf(folder, last.key, tagsFor(known, lastTags));
    const after = attributesOf(folder, last.key, kept);
    if (now) for (const attributes of [before, after]) requireRight(ability, "edit", "secrets", attributes);
    else requireRight(ability, "create", "secrets", after);
    // Deleting a secret is no way around its protection: a restored one is checked by its last state.
    requireNoGain(ability, before, after);
    const [then] = await learnThen(tx, tags, folder, [old]);
    if (!then || isGain(ability, then.attributes, after))
      deny(ability, { action: "readValue", subject: "secrets", attributes: after });
    return kept;
  };

  return {
    find,

    async list(
      actor: MemberActor,
      secretId: string,
      query: { offset: number; limit: number; viewSecretValue: boolean },
    ): Promise<ReadVersion[]> {
      const { scope, last, own } = await find(actor, secretId, "read");
      const attributes = attributesOf(placeOf(last), last.key, own);
      requireRight(scope.ability, "describeSecret", "secrets", attributes);
      const weight = await db.read((q) => weighPage(q, secretId, query.limit, query.offset), {
        tenant: scope.project.orgId,
      });
      if (weight > MAX_ANSWER_BYTES) throw pageTooLarge();
      const rows = await db.read((q) => pageOfVersions(q, secretId, query.limit, query.offset), {
        tenant: scope.project.orgId,
      });
      const past = await db.read((q) => learnThen(q, tags, placeOf(last), rows));
      const isReadableNow = query.viewSecretValue && scope.ability.can("readValue", "secrets", attributes);
      const versions: ReadVersion[] = [];
      const budget = new JudgingBudget();
      for (const [index, version] of rows.entries()) {
        const then = past[index];
        // As in every list, what a reader may not know of is left out.
        if (!then || !mayAll(scope.ability, "describeSecret", then.attributes)) continue;
        const isReadable = isReadableNow && mayAll(scope.ability, "readValue", then.attributes);
        versions.push({ version, secret: await lookAt(scope, version, { last, then, isReadable }) });
        if (budget.isDue()) await budget.giveWay();
      }
      if (versions.some(({ secret }) => secret.value !== undefined)) {
        await reads.note(actor, scope.project, "get-secret-versions", {
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
      const { scope, last } = await find(actor, secretId, "create");
      const dataKey = await keyring.dataKeyOf({ projectId: last.projectId });
      const { orgId, id: projectId } = scope.project;
      const at = { environmentId: last.environmentId, path: last.path };
      try {
        return await db.write(
          async (tx) => {
            const [, folder, rows, affected, old] = await Promise.all([
              lockTree(tx, projectId),
              findFolder(tx, at),
              lockByKeys(tx, at, [last.key]),
              findDependants(tx, originsOf(at, [last.key])),
              findVersion(tx, secretId, toVersion),
            ]);
            if (!folder) throw folderUnknown(last.path);
            const content = old && (await open(old));
            if (!content) throw versionUnknown(toVersion, last.key);
            const state = decryptState(await keyring.dataKeyById(content.keyId, tx), content);
            const latest = (await findLastKnown(tx, secretId, orgId)) ?? last;
            const now = rows.find((row) => row.id === secretId);
            const own = await requireReturn(tx, { scope, folder, last: latest, now, old, state });
            const kept = { ...state, tagIds: own.map((tag) => tag.id) };
            if (!now) {
              const isWhereItWas = latest.key === last.key && latest.folderId === last.folderId;
              if (latest.change !== "delete" || !isWhereItWas)
                throw badRequest("The secret has just been moved or renamed; try again.");
              if (rows.some((row) => row.ownerId === last.ownerId)) throw secretExists(last.key);
              if (last.ownerId !== null && !rows.some((row) => row.ownerId === null))
                throw nothingToOverride(last.key);
            }
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
            const changes: SecretChangeStep[] = [
              now
                ? { kind: "update", before: now, from: folder, after: draft }
                : { kind: "create", after: draft },
            ];
            const moment = clock.now();
            await writeChanges(tx, { actor, orgId, projectId, dataKey, at: moment }, changes, affected);
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
            return shown(draft, { tags: own, ability: scope.ability, at: moment });
          },
          { tenant: orgId },
        );
      } catch (error) {
        if (isUniqueViolation(error, "secrets_key_unique")) throw secretExists(last.key);
        throw error;
      }
    },
  };
}
