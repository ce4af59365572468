/**
 * Carrying out a plan. Its rights are checked before anything is done, in a dry run too; then it is a sequence of
 * the ordinary use cases, roles first (they are the likeliest to be refused). It is safe to retry: what is there
 * already is no longer part of the next plan. Each part checks again whether the caller still has access and may do
 * it: a large project takes minutes, and a caller who loses access meanwhile does not get the rest done.
 */
import type { Confirm, MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring, DataKey } from "../../platform/crypto/index.ts";
import { isUniqueViolation, type Db } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { inChunks, Pace } from "../../platform/pace.ts";
import { JudgingBudget } from "../../permissions/index.ts";
import type { Environments } from "../../projects/index.ts";
import type { Roles } from "../../roles/index.ts";
import { namesOf, parentOf } from "../../secrets/paths.contract.ts";
import type { ArchivedImport, ArchivedSecret, ArchivedVersion } from "../archive/contract.ts";
import { folderName, importName, type ImportStep, type ImportPlan } from "../model.ts";
import { writeOlderVersions, type OlderVersion } from "../store.ts";
import {
  requireRight,
  type Access,
  type ProjectScope,
  MOST_REFERENCES,
  originsOf,
  writeChangesNow,
  type SecretChangeStep,
  findDependants,
  encryptState,
  folderUnknown,
  secretExists,
  type FolderPlace,
  type SecretState,
  referencesIn,
  auditOf,
  type SecretWrites,
  findFolder,
  lockTree,
  lockByKeys,
  type Tags,
} from "../../secrets/index.ts";
import type { Folders } from "../../folders/index.ts";
import type { SecretImports } from "../../secret-imports/index.ts";

export interface ApplyNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly access: Access;
  readonly environments: Environments;
  readonly folders: Folders;
  readonly imports: SecretImports;
  readonly roles: Roles;
  readonly tags: Tags;
  readonly writes: SecretWrites;
}

const BATCH = 1000;

/** How much of a plan is done, by kind. */
type Done = Record<keyof ImportPlan, number>;
export const nothingDone = (): Done => ({
  roles: 0,
  environments: 0,
  tags: 0,
  folders: 0,
  secrets: 0,
  imports: 0,
});
export const isAnything = (done: Done): boolean => Object.values(done).some((count) => count > 0);

interface Carrier {
  readonly actor: MemberActor;
  readonly projectId: string;
  readonly confirm: Confirm;
  /** Counted up while it goes on. */
  readonly done: Done;
}

async function onePart<T>(
  { confirm, done }: Carrier,
  kind: keyof Done,
  work: () => Promise<T>,
  count = 1,
): Promise<T> {
  await confirm();
  const result = await work();
  done[kind] += count;
  return result;
}

type TagIds = ReadonlyMap<string, string>;

const stateOf = (
  secret: Omit<ArchivedVersion, "value"> | ArchivedSecret,
  value: string,
  ids: TagIds,
): SecretState => ({
  value,
  comment: secret.comment,
  metadata: secret.metadata,
  tagIds: secret.tags.flatMap((slug) => ids.get(slug) ?? []),
  skipMultiline: secret.skipMultiline,
  reminderNote: secret.reminderNote,
  reminderDays: secret.reminderDays,
});

const named = ({ environment, path, key, tags }: ArchivedSecret) => ({
  environment,
  secretPath: path,
  secretName: key,
  secretTags: tags,
});

async function requireToCreate({ ability }: ProjectScope, batch: readonly ArchivedSecret[]): Promise<void> {
  const budget = new JudgingBudget();
  for (const secret of batch) {
    requireRight(ability, "create", "secrets", named(secret));
    if (budget.isDue()) await budget.giveWay();
  }
}

/** Whether the caller may do all of it. Other checks of the use cases are made when they are called. */
export async function requireFor({ ability }: ProjectScope, plan: ImportPlan): Promise<void> {
  const at = ({ environment, path }: { environment: string; path: string }) => ({
    environment,
    secretPath: path,
  });
  const budget = new JudgingBudget();
  const ask = async <T>(
    list: readonly T[],
    action: string,
    subject: string,
    attributes: (one: T) => object = () => ({}),
  ) => {
    for (const one of list) {
      requireRight(ability, action, subject, { ...attributes(one) });
      if (budget.isDue()) await budget.giveWay();
    }
  };
  await ask(plan.roles.created, "create", "role");
  await ask(plan.roles.updated, "edit", "role");
  await ask(plan.environments.created, "create", "environments", ({ slug }) => ({ environment: slug }));
  await ask(plan.environments.updated, "edit", "environments", ({ slug }) => ({ environment: slug }));
  await ask(plan.tags.created, "create", "tags");
  await ask(plan.tags.updated, "edit", "tags");
  await ask(plan.folders.created, "create", "secret-folders", at);
  await ask(plan.folders.updated, "edit", "secret-folders", at);
  await ask(plan.secrets.created, "create", "secrets", named);
  await ask(plan.secrets.updated, "edit", "secrets", named);
  await ask(plan.imports.created, "create", "secret-imports", at);
  await ask(plan.imports.updated, "edit", "secret-imports", at);
  const own = plan.imports.created.filter(({ sourceProject }) => sourceProject === null);
  await ask(own, "readValue", "secrets", (one) =>
    at({ environment: one.sourceEnvironment, path: one.sourcePath }),
  );
}

/** Folder by folder, and no more at once than one request may write. */
async function inBatches(list: readonly ArchivedSecret[]): Promise<ArchivedSecret[][]> {
  const batches: ArchivedSecret[][] = [];
  const open = new Map<string, { readonly batch: ArchivedSecret[]; references: number }>();
  await inChunks(list, (one) => {
    const references = referencesIn(one.value).length;
    let here = open.get(folderName(one));
    if (!here || here.batch.length >= BATCH || here.references + references > MOST_REFERENCES) {
      here = { batch: [], references: 0 };
      open.set(folderName(one), here);
      batches.push(here.batch);
    }
    here.batch.push(one);
    here.references += references;
  });
  return batches;
}

const olderOf = (dataKey: DataKey, id: string, old: ArchivedVersion, ids: TagIds): OlderVersion => ({
  secretId: id,
  version: old.version,
  change: old.change,
  key: old.key,
  keyId: dataKey.keyId,
  state:
    old.value === null
      ? null
      : encryptState(dataKey, { id, version: old.version }, stateOf(old, old.value, ids)),
  at: new Date(old.at),
  by: old.by,
});

export function createApplying(needs: ApplyNeeds) {
  const { db, clock, keyring, access, environments, folders, imports, roles, tags, writes } = needs;

  const takeRoles = async (carrier: Carrier, plan: ImportPlan): Promise<void> => {
    const { actor, projectId } = carrier;
    for (const role of plan.roles.created)
      await onePart(carrier, "roles", () => roles.create(actor, projectId, role));
    for (const { slug, ...change } of plan.roles.updated)
      await onePart(carrier, "roles", async () =>
        roles.update(actor, projectId, (await roles.get(actor, projectId, slug)).id, change),
      );
  };

  const takeEnvironments = async (carrier: Carrier, plan: ImportPlan): Promise<void> => {
    const { actor, projectId } = carrier;
    for (const { slug, name } of plan.environments.created)
      await onePart(carrier, "environments", () => environments.create(actor, projectId, { slug, name }));
    for (const { slug, name } of plan.environments.updated)
      await onePart(carrier, "environments", async () => {
        const { id } = await environments.getBySlug(actor, projectId, slug);
        await environments.update(actor, projectId, id, { name });
      });
  };

  const takeTags = async (carrier: Carrier, plan: ImportPlan): Promise<TagIds> => {
    const { actor, projectId } = carrier;
    const ids = new Map((await tags.list(actor, projectId)).map((tag) => [tag.slug, tag.id]));
    for (const tag of plan.tags.created)
      ids.set(tag.slug, (await onePart(carrier, "tags", () => tags.create(actor, projectId, tag))).id);
    for (const { slug, name, color } of plan.tags.updated)
      await onePart(carrier, "tags", () =>
        tags.update(actor, projectId, ids.get(slug) ?? "", { name, color }),
      );
    return ids;
  };

  const takeFolders = async (carrier: Carrier, plan: ImportPlan): Promise<void> => {
    const { actor, projectId } = carrier;
    const spot = ({ environment, path }: { environment: string; path: string }) => ({
      projectId,
      environment,
      path: parentOf(path),
    });
    const nameOf = ({ path }: { path: string }) => namesOf(path).at(-1) ?? "";
    for (const folder of plan.folders.created) {
      const { description } = folder;
      await onePart(carrier, "folders", () =>
        folders.create(actor, { ...spot(folder), name: nameOf(folder), description }),
      );
    }
    for (const folder of plan.folders.updated) {
      const { description } = folder;
      await onePart(carrier, "folders", () =>
        folders.update(actor, nameOf(folder), { ...spot(folder), description }),
      );
    }
  };

  /** New here, with all that they were: the newest is written by the importer, now; the others come along. */
  const createWithHistory = async (
    { actor, projectId: id }: Carrier,
    batch: readonly ArchivedSecret[],
    ids: TagIds,
  ): Promise<void> => {
    const [{ environment, path } = { environment: "", path: "/" }] = batch;
    const scope = await access.scope(actor, id);
    await requireToCreate(scope, batch);
    const { project } = scope;
    const at = { environmentId: (await access.environment(scope, environment)).id, path };
    const keys = batch.map(({ key }) => key);
    const dataKey = await keyring.dataKeyOf({ projectId: project.id });
    const known = batch.map((secret) => ({ id: newId(), secret }));
    const older: OlderVersion[] = [];
    const pace = new Pace();
    for (const { id, secret } of known)
      for (const old of secret.history?.versions ?? []) {
        older.push(olderOf(dataKey, id, old, ids));
        if (pace.isDue()) await pace.rest();
      }
    const write = () =>
      db.write(
        async (tx) => {
          await lockTree(tx, project.id);
          const folder: FolderPlace | undefined = await findFolder(tx, at);
          if (!folder) throw folderUnknown(path);
          const taken = (await lockByKeys(tx, at, keys)).find((row) => row.ownerId === null);
          if (taken) throw secretExists(taken.key);
          const affected = await findDependants(tx, originsOf(at, keys));
          const now = clock.now();
          const changes: SecretChangeStep[] = known.map(({ id, secret }) => ({
            kind: "create",
            after: {
              id,
              folder,
              key: secret.key,
              ownerId: null,
              version: (secret.history?.versions.at(-1)?.version ?? 0) + 1,
              createdAt: new Date(secret.history?.createdAt ?? now),
              state: stateOf(secret, secret.value, ids),
            },
          }));
          const { orgId, id: projectId } = project;
          await writeChangesNow(tx, { actor, orgId, projectId, dataKey, at: now }, changes, affected);
          if (older.length > 0)
            await writeOlderVersions(tx, { projectId, folderId: folder.id, at: now }, older);
          const metadata = auditOf({ environment, path }, changes);
          tx.audit(actor, { event: "import-secrets", orgId, projectId, metadata });
        },
        { tenant: project.orgId },
      );
    try {
      await write();
    } catch (error) {
      if (isUniqueViolation(error, "secrets_key_unique")) throw secretExists(keys[0] ?? "");
      throw error;
    }
  };

  const writeBatch = ({ actor, projectId }: Carrier, batch: readonly ArchivedSecret[], ids: TagIds) => {
    const [{ environment, path } = { environment: "", path: "/" }] = batch;
    return writes.updateMany(actor, {
      projectId,
      environment,
      secretPath: path,
      mode: "upsert",
      secrets: batch.map((secret) => ({
        secretKey: secret.key,
        secretValue: secret.value,
        secretComment: secret.comment,
        secretMetadata: secret.metadata,
        tagIds: secret.tags.flatMap((slug) => ids.get(slug) ?? []),
        skipMultilineEncoding: secret.skipMultiline,
        secretReminderNote: secret.reminderNote,
        secretReminderRepeatDays: secret.reminderDays,
      })),
    });
  };

  const takeSecrets = async (carrier: Carrier, plan: ImportPlan, ids: TagIds): Promise<void> => {
    const isLong = ({ history }: ArchivedSecret) => history !== undefined;
    for (const batch of await inBatches(plan.secrets.created.filter(isLong)))
      await onePart(carrier, "secrets", () => createWithHistory(carrier, batch, ids), batch.length);
    const others = [...plan.secrets.created.filter((secret) => !isLong(secret)), ...plan.secrets.updated];
    for (const batch of await inBatches(others))
      await onePart(carrier, "secrets", () => writeBatch(carrier, batch, ids), batch.length);
  };

  const takeImports = async (
    carrier: Carrier,
    { environment, path, created, order }: ImportStep,
  ): Promise<void> => {
    const { actor, projectId } = carrier;
    const place = { projectId, environment, path };
    for (const one of created) {
      const source = {
        environment: one.sourceEnvironment,
        path: one.sourcePath,
        ...(one.sourceProject === null ? {} : { sourceProjectId: one.sourceProject }),
      };
      await onePart(carrier, "imports", () =>
        imports.create(actor, { ...place, import: source, isReplication: one.isReplication }),
      );
    }
    const slugs = new Map<string, string | null>([[projectId, null]]);
    const nameOf = async (row: Awaited<ReturnType<SecretImports["list"]>>[number]): Promise<string> => {
      if (!slugs.has(row.sourceProjectId))
        slugs.set(row.sourceProjectId, (await access.scope(actor, row.sourceProjectId)).project.slug);
      const one: ArchivedImport = {
        environment,
        path,
        sourceProject: slugs.get(row.sourceProjectId) ?? null,
        sourceEnvironment: row.sourceEnvironment,
        sourcePath: row.sourcePath,
        isReplication: row.isReplication,
      };
      return importName(one);
    };
    const rows: { readonly id: string; readonly name: string }[] = [];
    for (const row of await imports.list(actor, place)) rows.push({ id: row.id, name: await nameOf(row) });
    for (const [at, wanted] of order.entries()) {
      const from = rows.findIndex(({ name }) => name === importName(wanted));
      const row = rows[from];
      if (!row || from === at) continue;
      await carrier.confirm();
      await imports.update(actor, row.id, { ...place, import: { position: at + 1 } });
      rows.splice(from, 1);
      rows.splice(at, 0, row);
    }
  };

  return {
    async apply(carrier: Carrier, plan: ImportPlan): Promise<void> {
      await takeRoles(carrier, plan);
      await takeEnvironments(carrier, plan);
      const ids = await takeTags(carrier, plan);
      await takeFolders(carrier, plan);
      await takeSecrets(carrier, plan, ids);
      for (const step of plan.imports.steps) await takeImports(carrier, step);
    },
  };
}
