/**
 * Creating, changing and deleting, one or many: who may, and what becomes of each secret. Everything is decided at the
 * counter of the folder, under its locks, and written there.
 */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { mapInChunks } from "../../platform/pace.ts";
import { badRequest } from "../../platform/problem.ts";
import { JudgingBudget } from "../../permissions/index.ts";
import { requireRight, requireNoGain, type Access } from "../access.ts";
import type { SecretChangeStep } from "../changes.ts";
import type {
  ChangedSecrets,
  NewSecret,
  NewSecrets,
  SecretChange,
  SecretsToDelete,
  SecretToDelete,
} from "../contract.ts";
import {
  attributesOf,
  decryptState,
  folderUnknown,
  nothingToOverride,
  secretExists,
  secretUnknown,
  type FolderPlace,
  type ReadSecret,
  type SecretRow,
  type TagRef,
} from "../model.ts";
import type { Tags } from "../tags/service.ts";
import {
  createFolderWriteQueue,
  type WritePlan,
  type LockedFolder,
  type Target,
} from "./folder-write-queue.ts";
import {
  changedState,
  newDraft,
  newState,
  nextDraft,
  requireDistinct,
  shown,
  shownRow,
  type ChangedFields,
  type NewFields,
} from "./drafts.ts";

export interface WriteNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly access: Access;
  readonly tags: Tags;
}

type SecretType = "shared" | "personal";
interface Where {
  readonly projectId: string;
  readonly environment: string;
  readonly secretPath: string;
}
export type SecretWrites = ReturnType<typeof createSecretWrites>;

export function createSecretWrites(needs: WriteNeeds) {
  const { keyring, access, tags } = needs;

  const open = async (actor: MemberActor, where: Where): Promise<Target> => {
    const scope = await access.scope(actor, where.projectId);
    const environment = await access.environment(scope, where.environment);
    return {
      scope,
      at: { environmentId: environment.id, path: where.secretPath },
      place: { environment: environment.slug, path: where.secretPath },
    };
  };

  const writes = createFolderWriteQueue(needs);
  const commit = (
    target: Target,
    keys: readonly string[],
    event: string,
    decide: (locked: LockedFolder) => Promise<WritePlan>,
  ): Promise<ReadSecret[]> => writes.submit({ target, keys, event, plan: decide });

  const creator =
    (input: readonly (NewFields & { key: string; tags: readonly TagRef[] })[], ownerId: string | null) =>
    async (locked: LockedFolder): Promise<WritePlan> => {
      const { scope, place } = locked.target;
      const { folder } = locked;
      if (!folder) throw folderUnknown(place.path);
      const plan: WritePlan = { changes: [], shown: [] };
      const budget = new JudgingBudget();
      for (const item of input) {
        const here = locked.rowsOf(item.key);
        if (here.some((row) => row.ownerId === ownerId)) throw secretExists(item.key);
        if (ownerId !== null && !here.some((row) => row.ownerId === null)) throw nothingToOverride(item.key);
        const state = newState(item, item.tags);
        const draft = newDraft(folder, item.key, ownerId, { state, at: locked.at });
        plan.changes.push({ kind: "create", after: draft });
        plan.shown.push(shown(draft, { tags: item.tags, ability: scope.ability, at: locked.at }));
        if (budget.isDue()) await budget.giveWay();
      }
      return plan;
    };

  const prepareNew = async (
    target: Target,
    items: readonly (NewFields & { secretKey: string; tagIds: readonly string[] })[],
  ) => {
    requireDistinct(items.map((item) => item.secretKey));
    const prepared: (NewFields & { key: string; tags: readonly TagRef[] })[] = [];
    const budget = new JudgingBudget();
    const tagsOf = await tags.resolver(
      target.scope.project.id,
      items.map((item) => item.tagIds),
    );
    for (const item of items) {
      if (budget.isDue()) await budget.giveWay();
      const own = tagsOf(item.tagIds);
      requireRight(
        target.scope.ability,
        "create",
        "secrets",
        attributesOf(target.place, item.secretKey, own),
      );
      prepared.push({ ...item, key: item.secretKey, tags: own });
    }
    return prepared;
  };

  /** One secret changed, and with a new name its overrides too. */
  const changeOne = async (
    locked: LockedFolder,
    row: SecretRow,
    input: ChangedFields,
    newTags: readonly TagRef[] | undefined,
  ) => {
    const { scope } = locked.target;
    const folder = locked.folder as FolderPlace;
    const oldTags = locked.tagsOf(row);
    const key = input.newSecretName ?? row.key;
    const [before, after] = [
      attributesOf(folder, row.key, oldTags),
      attributesOf(folder, key, newTags ?? oldTags),
    ];
    requireRight(scope.ability, "edit", "secrets", before);
    if (key !== row.key || newTags) {
      requireRight(scope.ability, "edit", "secrets", after);
      requireNoGain(scope.ability, before, after);
    }
    if (key !== row.key && locked.rowsOf(key).some((other) => other.ownerId === row.ownerId))
      throw secretExists(key);
    const dataKey = await keyring.dataKeyById(row.keyId, locked.tx);
    const draft = nextDraft(row, folder, key, changedState(decryptState(dataKey, row), input, newTags));
    const changes: SecretChangeStep[] = [{ kind: "update", before: row, from: folder, after: draft }];
    if (key !== row.key && row.ownerId === null) {
      for (const override of locked.rowsOf(row.key).filter((other) => other.ownerId !== null)) {
        const own = await keyring.dataKeyById(override.keyId, locked.tx);
        changes.push({
          kind: "update",
          before: override,
          from: folder,
          after: nextDraft(override, folder, key, decryptState(own, override)),
        });
      }
    }
    return {
      changes,
      secret: shown(draft, { tags: newTags ?? oldTags, ability: scope.ability, at: locked.at }),
    };
  };

  /** The row of that name, or the refusal that gives nothing away to someone who may not ask. */
  const pick = (locked: LockedFolder, key: string, type: SecretType, action: string): SecretRow => {
    const { scope, place } = locked.target;
    const ownerId = type === "personal" ? scope.actor.id : null;
    const row = locked.rowsOf(key).find((candidate) => candidate.ownerId === ownerId);
    if (row) return row;
    requireRight(scope.ability, action, "secrets", attributesOf(place, key, []));
    throw locked.folder ? secretUnknown(key) : folderUnknown(place.path);
  };

  const remove = async (
    locked: LockedFolder,
    row: SecretRow,
  ): Promise<{ changes: SecretChangeStep[]; secret: ReadSecret }> => {
    const { scope } = locked.target;
    const folder = locked.folder as FolderPlace;
    const own = locked.tagsOf(row);
    requireRight(scope.ability, "delete", "secrets", attributesOf(folder, row.key, own));
    // Overrides of a secret that is gone would override nothing.
    const gone = row.ownerId === null ? locked.rowsOf(row.key) : [row];
    const dataKey = await keyring.dataKeyById(row.keyId, locked.tx);
    return {
      changes: gone.map((before): SecretChangeStep => ({ kind: "delete", before, from: folder })),
      secret: shownRow(row, folder, dataKey, { tags: own, ability: scope.ability }),
    };
  };

  /** Nothing of its tags is said where they stay as they are. */
  const tagResolver = async (target: Target, inputs: readonly ChangedFields[]) => {
    const tagsOf = await tags.resolver(
      target.scope.project.id,
      inputs.map((input) => input.tagIds ?? []),
    );
    return ({ tagIds }: ChangedFields) => (tagIds === undefined ? undefined : tagsOf(tagIds));
  };

  const first = (secrets: readonly ReadSecret[]): ReadSecret => secrets[0] as ReadSecret;

  return {
    async create(actor: MemberActor, name: string, input: NewSecret): Promise<ReadSecret> {
      const target = await open(actor, input);
      const prepared = await prepareNew(target, [{ ...input, secretKey: name }]);
      return first(
        await commit(
          target,
          [name],
          "create-secret",
          creator(prepared, input.type === "personal" ? actor.id : null),
        ),
      );
    },

    async update(actor: MemberActor, name: string, input: SecretChange): Promise<ReadSecret> {
      const target = await open(actor, input);
      const newTags = (await tagResolver(target, [input]))(input);
      const keys =
        input.newSecretName === undefined || input.newSecretName === name
          ? [name]
          : [name, input.newSecretName];
      if (keys.length > 1 && input.type === "personal")
        throw badRequest("An override has the name of the secret it overrides: rename that one.");
      const done = await commit(target, keys, "update-secret", async (locked) => {
        const { changes, secret } = await changeOne(
          locked,
          pick(locked, name, input.type, "edit"),
          input,
          newTags,
        );
        return { changes, shown: [secret] };
      });
      return first(done);
    },

    async delete(actor: MemberActor, name: string, input: SecretToDelete): Promise<ReadSecret> {
      const target = await open(actor, input);
      const done = await commit(target, [name], "delete-secret", async (locked) => {
        const { changes, secret } = await remove(locked, pick(locked, name, input.type, "delete"));
        return { changes, shown: [secret] };
      });
      return first(done);
    },

    async createMany(actor: MemberActor, input: NewSecrets): Promise<ReadSecret[]> {
      const target = await open(actor, input);
      const prepared = await prepareNew(target, input.secrets);
      return commit(
        target,
        prepared.map((item) => item.key),
        "create-secrets",
        creator(prepared, null),
      );
    },

    async updateMany(actor: MemberActor, input: ChangedSecrets): Promise<ReadSecret[]> {
      const target = await open(actor, input);
      const strays = input.secrets.find(
        (item) => item.secretPath !== undefined && item.secretPath !== input.secretPath,
      );
      if (strays)
        throw badRequest("All secrets of a batch must be in the batch's folder; send one batch per folder.");
      requireDistinct(input.secrets.map((item) => item.secretKey));
      const tagsOf = await tagResolver(target, input.secrets);
      const items = await mapInChunks(input.secrets, (item) => ({ item, newTags: tagsOf(item) }));
      const keys = [
        ...new Set(input.secrets.flatMap((item) => [item.secretKey, item.newSecretName ?? item.secretKey])),
      ];
      return commit(target, keys, "update-secrets", async (locked) => {
        const plan: WritePlan = { changes: [], shown: [] };
        const budget = new JudgingBudget();
        for (const { item, newTags } of items) {
          if (budget.isDue()) await budget.giveWay();
          const isThere = locked.rowsOf(item.secretKey).some((row) => row.ownerId === null);
          if (!isThere && input.mode === "ignore") {
            // Whoever may not change it is not told that it is not there.
            requireRight(
              target.scope.ability,
              "edit",
              "secrets",
              attributesOf(target.place, item.secretKey, []),
            );
            continue;
          }
          const part =
            !isThere && input.mode === "upsert"
              ? await upsert(locked, item, newTags)
              : await changeOne(locked, pick(locked, item.secretKey, "shared", "edit"), item, newTags);
          plan.changes.push(...part.changes);
          plan.shown.push(part.secret);
        }
        return plan;
      });
    },

    async deleteMany(actor: MemberActor, input: SecretsToDelete): Promise<ReadSecret[]> {
      const target = await open(actor, input);
      requireDistinct(input.secrets.map((item) => item.secretKey));
      return commit(
        target,
        input.secrets.map((item) => item.secretKey),
        "delete-secrets",
        async (locked) => {
          const plan: WritePlan = { changes: [], shown: [] };
          const budget = new JudgingBudget();
          for (const { secretKey, type } of input.secrets) {
            if (budget.isDue()) await budget.giveWay();
            const part = await remove(locked, pick(locked, secretKey, type, "delete"));
            plan.changes.push(...part.changes);
            plan.shown.push(part.secret);
          }
          return plan;
        },
      );
    },
  };

  async function upsert(
    locked: LockedFolder,
    item: ChangedFields & { secretKey: string },
    newTags: readonly TagRef[] | undefined,
  ) {
    const own = newTags ?? [];
    // Asked about under the name that it is going to have, not the one it was looked for by.
    const key = item.newSecretName ?? item.secretKey;
    requireRight(
      locked.target.scope.ability,
      "create",
      "secrets",
      attributesOf(locked.target.place, key, own),
    );
    const fields: NewFields = {
      secretValue: item.secretValue ?? "",
      secretComment: item.secretComment ?? "",
      secretMetadata: item.secretMetadata ?? [],
      metadata: item.metadata,
      skipMultilineEncoding: item.skipMultilineEncoding,
      secretReminderNote: item.secretReminderNote,
      secretReminderRepeatDays: item.secretReminderRepeatDays,
    };
    const made = await creator([{ ...fields, key, tags: own }], null)(locked);
    return { changes: made.changes, secret: first(made.shown) };
  }
}
