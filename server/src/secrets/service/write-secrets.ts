/**
 * Creating, changing and deleting, one or many. A write reads from the top down: the write request (here), the folder's
 * queue with its locks (folder-write-queue.ts), what becomes of each secret (plan-writes.ts), and how it is written and
 * announced (changes.ts).
 */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { mapInChunks } from "../../platform/pace.ts";
import { badRequest } from "../../platform/problem.ts";
import { JudgingBudget } from "../../permissions/index.ts";
import { requireRight, type Access } from "../access.ts";
import type {
  ChangedSecrets,
  NewSecret,
  NewSecrets,
  SecretChange,
  SecretsToDelete,
  SecretToDelete,
} from "../contract.ts";
import { attributesOf, type ReadSecret } from "../model.ts";
import type { Tags } from "../tags/service.ts";
import { requireDistinct, type ChangedFields, type NewFields } from "./drafts.ts";
import { createFolderWriteQueue } from "./folder-write-queue.ts";
import type { SecretToMake, Target } from "./plan-writes.ts";

export interface WriteNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly access: Access;
  readonly tags: Tags;
}

interface Where {
  readonly projectId: string;
  readonly environment: string;
  readonly secretPath: string;
}
export type SecretWrites = ReturnType<typeof createSecretWrites>;

export function createSecretWrites(needs: WriteNeeds) {
  const { access, tags } = needs;
  const queue = createFolderWriteQueue(needs);

  const open = async (actor: MemberActor, where: Where): Promise<Target> => {
    const scope = await access.scope(actor, where.projectId);
    const environment = await access.environment(scope, where.environment);
    return {
      scope,
      at: { environmentId: environment.id, path: where.secretPath },
      place: { environment: environment.slug, path: where.secretPath },
    };
  };

  const prepareNew = async (
    target: Target,
    items: readonly (NewFields & { secretKey: string; tagIds: readonly string[] })[],
  ): Promise<SecretToMake[]> => {
    requireDistinct(items.map((item) => item.secretKey));
    const prepared: SecretToMake[] = [];
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
      const items = await prepareNew(target, [{ ...input, secretKey: name }]);
      const ownerId = input.type === "personal" ? actor.id : null;
      return first(
        await queue.submit({ kind: "create", target, keys: [name], event: "create-secret", items, ownerId }),
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
      const done = await queue.submit({
        kind: "update",
        target,
        keys,
        event: "update-secret",
        items: [{ key: name, type: input.type, fields: input, tags: newTags }],
        mode: "failOnNotFound",
      });
      return first(done);
    },

    async delete(actor: MemberActor, name: string, input: SecretToDelete): Promise<ReadSecret> {
      const target = await open(actor, input);
      const items = [{ key: name, type: input.type }];
      return first(
        await queue.submit({ kind: "delete", target, keys: [name], event: "delete-secret", items }),
      );
    },

    async createMany(actor: MemberActor, input: NewSecrets): Promise<readonly ReadSecret[]> {
      const target = await open(actor, input);
      const items = await prepareNew(target, input.secrets);
      const keys = items.map((item) => item.key);
      return queue.submit({ kind: "create", target, keys, event: "create-secrets", items, ownerId: null });
    },

    async updateMany(actor: MemberActor, input: ChangedSecrets): Promise<readonly ReadSecret[]> {
      const target = await open(actor, input);
      const strays = input.secrets.find(
        (item) => item.secretPath !== undefined && item.secretPath !== input.secretPath,
      );
      if (strays)
        throw badRequest("All secrets of a batch must be in the batch's folder; send one batch per folder.");
      requireDistinct(input.secrets.map((item) => item.secretKey));
      const tagsOf = await tagResolver(target, input.secrets);
      const items = await mapInChunks(input.secrets, (fields) => ({
        key: fields.secretKey,
        type: "shared" as const,
        fields,
        tags: tagsOf(fields),
      }));
      const keys = [
        ...new Set(input.secrets.flatMap((item) => [item.secretKey, item.newSecretName ?? item.secretKey])),
      ];
      const { mode } = input;
      return queue.submit({ kind: "update", target, keys, event: "update-secrets", items, mode });
    },

    async deleteMany(actor: MemberActor, input: SecretsToDelete): Promise<readonly ReadSecret[]> {
      const target = await open(actor, input);
      requireDistinct(input.secrets.map((item) => item.secretKey));
      const items = input.secrets.map(({ secretKey, type }) => ({ key: secretKey, type }));
      const keys = items.map((item) => item.key);
      return queue.submit({ kind: "delete", target, keys, event: "delete-secrets", items });
    },
  };
}
