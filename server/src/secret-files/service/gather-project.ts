/**
 * A project as it is, in the format of its file. An exporter must be able to read every value in it; an
 * importer needs to know what is there already, as far as it may see it.
 */
import type { MemberActor } from "../../platform/actor.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { inChunks, mapInChunks } from "../../platform/pace.ts";
import { deny, JudgingBudget, orgOf, permittedOf } from "../../permissions/index.ts";
import type { Roles } from "../../roles/index.ts";
import { parentOf } from "../../secrets/paths.contract.ts";
import {
  MOST_VERSIONS,
  type ArchivedImport,
  type ArchivedSecret,
  type ArchivedVersion,
  type NewArchive,
} from "../archive/contract.ts";
import { MAX_PROJECT_FILE } from "../contract.ts";
import { projectTooLarge, tooManyVersions, type PresentSecrets } from "../model.ts";
import { plainList } from "../service.ts";
import { LEAST_LETTERS, olderVersions, PAGE, weighOlder } from "../store.ts";
import {
  requireRight,
  type Access,
  type EnvironmentRef,
  type ProjectScope,
  attributesOf,
  decryptState,
  type ReadSecret,
  type TagRef,
  type SecretList,
  type SecretReads,
  tagsFor,
  type Tags,
} from "../../secrets/index.ts";
import { folderTree } from "../../folders/index.ts";
import { importsOfFolder } from "../../secret-imports/index.ts";
import {
  attributesThen,
  mayAll,
  type PlaceThen,
  placesOfFolders,
  type VersionRow,
} from "../../secret-versions/index.ts";

export interface GatherNeeds {
  readonly db: Db;
  readonly keyring: Keyring;
  readonly access: Access;
  readonly tags: Tags;
  readonly roles: Roles;
  readonly reads: SecretReads;
}

interface WantedProject {
  readonly environments?: readonly string[] | undefined;
  readonly includeHistory: boolean;
  readonly includeRoles: boolean;
}

/** What the rights to an older version are checked with. */
interface ArchivedPast {
  readonly now: ReadSecret;
  readonly known: ReadonlyMap<string, TagRef>;
  readonly places: readonly PlaceThen[];
}

/** Takes so much out of what the file may still hold, or refuses. */
type Charge = (bytes: number) => void;

function chargeOf(bytes: number): Charge {
  let left = bytes;
  return (more) => {
    left -= more;
    if (left < 0) throw projectTooLarge();
  };
}

type Gathered = PresentSecrets["secrets"][number];

/** So many secrets' histories at once. */
const CHUNK = 200;
const ROLE_IS_BUILT_IN = new Set(["admin", "member", "viewer", "no-access"]);

const toArchived = (environment: string, secret: ReadSecret): Gathered => ({
  environment,
  path: secret.folder.path,
  key: secret.row.key,
  value: secret.value?.open(),
  comment: secret.comment.open(),
  metadata: [...secret.metadata.open()],
  tags: secret.tags.map((tag) => tag.slug),
  skipMultiline: secret.row.skipMultiline,
  reminderNote: secret.row.reminderNote,
  reminderDays: secret.row.reminderDays,
});

const canAt = ({ ability }: ProjectScope, subject: string, { slug }: EnvironmentRef, path: string): boolean =>
  ability.can("read", subject, { environment: slug, secretPath: path });

const requireAt = (
  { ability }: ProjectScope,
  subject: string,
  { slug }: EnvironmentRef,
  path: string,
): void => requireRight(ability, "read", subject, { environment: slug, secretPath: path });

export function createGathering({ db, keyring, access, tags, roles, reads }: GatherNeeds) {
  const secretsIn = (actor: MemberActor, projectId: string, environment: string) =>
    reads.listFresh(actor, { ...plainList(projectId, environment, "/"), recursive: true });

  const foldersIn = async (orgId: string, environment: EnvironmentRef) =>
    db.read((q) => folderTree(q, environment.id, "/", "/%"), { tenant: orgId });

  const importsIn = async (
    actor: MemberActor,
    projectId: string,
    environment: EnvironmentRef,
    isShown: (path: string) => boolean = () => true,
  ) => {
    const found: ArchivedImport[] = [];
    const folders = await permittedOf(await foldersIn(orgOf(actor), environment), ({ path }) =>
      isShown(path),
    );
    for (const folder of folders) {
      for (const one of await db.read((q) => importsOfFolder(q, folder.id))) {
        const isOwn = one.sourceProjectId === projectId;
        found.push({
          environment: environment.slug,
          path: folder.path,
          sourceProject: isOwn ? null : (await access.scope(actor, one.sourceProjectId)).project.slug,
          sourceEnvironment: one.sourceEnvironment,
          sourcePath: one.sourcePath,
          isReplication: one.isReplication,
        });
      }
    }
    return found;
  };

  const rolesOf = async (actor: MemberActor, projectId: string) =>
    (await roles.list(actor, projectId))
      .filter(({ slug }) => !ROLE_IS_BUILT_IN.has(slug))
      .map(({ slug, name, description, permissions }) => ({
        slug,
        name,
        description,
        permissions: [...permissions],
      }));

  const tagsOf = async (actor: MemberActor, projectId: string) =>
    (await tags.list(actor, projectId)).map(({ slug, name, color }) => ({ slug, name, color }));

  /** As it was and where, and where it is today: neither may open what the other closes. */
  const toVersion = async (
    scope: ProjectScope,
    row: VersionRow,
    { now, known, places }: ArchivedPast,
  ): Promise<ArchivedVersion> => {
    const then = tagsFor(known, row.tagIds);
    if (!mayAll(scope.ability, "readValue", attributesThen(row, places, then, now.folder)))
      deny(scope.ability, {
        action: "readValue",
        subject: "secrets",
        attributes: attributesOf(now.folder, now.row.key, now.tags),
      });
    const { value, ...rest } = row;
    const dataKey = await keyring.dataKeyById(row.keyId);
    const state = value === null ? undefined : decryptState(dataKey, { ...rest, value });
    return {
      version: row.version,
      change: row.change,
      key: row.key,
      value: state?.value ?? null,
      comment: state?.comment ?? "",
      metadata: [...(state?.metadata ?? [])],
      tags: then.map(({ slug }) => slug),
      skipMultiline: row.skipMultiline,
      reminderNote: row.reminderNote,
      reminderDays: row.reminderDays,
      at: (row.originalAt ?? row.createdAt).toISOString(),
      by: row.actorName,
    };
  };

  const historyOf = async (scope: ProjectScope, secrets: readonly ReadSecret[], charge: Charge) => {
    const byId = new Map(secrets.map((secret) => [secret.row.id, secret]));
    const budget = new JudgingBudget();
    for (const { folder } of secrets) {
      requireRight(scope.ability, "read", "secret-rollback", {
        environment: folder.environment,
        secretPath: folder.path,
      });
      if (budget.isDue()) await budget.giveWay();
    }
    charge(await db.read((q) => weighOlder(q, [...byId.keys()]), { tenant: scope.project.orgId }));
    const histories = new Map<string, ArchivedVersion[]>();
    for (
      let page = await pageAfter(scope, byId, undefined);
      ;
      page = await pageAfter(scope, byId, page.last)
    ) {
      for (const row of page.rows) {
        const now = byId.get(row.id);
        if (!now) continue;
        const versions = histories.get(row.id) ?? [];
        histories.set(row.id, versions);
        // Earlier ones were deleted by retention meanwhile.
        if (versions.at(-1)?.version !== row.version - 1) versions.length = 0;
        versions.push(await toVersion(scope, row, { now, ...page }));
        if (versions.length > MOST_VERSIONS) throw tooManyVersions(now.row.key);
        if (budget.isDue()) await budget.giveWay();
      }
      if (page.rows.length < PAGE) return histories;
    }
  };

  /** The next older versions of these secrets, and what their rights are checked with. */
  const pageAfter = async (
    { project }: ProjectScope,
    byId: ReadonlyMap<string, ReadSecret>,
    after: VersionRow | undefined,
  ) => {
    const tenant = project.orgId;
    const rows = await db.read((q) => olderVersions(q, [...byId.keys()], after), { tenant });
    const places = await db.read((q) => placesOfFolders(q, [...new Set(rows.map((row) => row.folderId))]));
    const known = await tags.lookUp(
      project.id,
      rows.map((row) => row.tagIds),
    );
    return { rows, places, known, last: rows.at(-1) };
  };

  const withHistory = async (scope: ProjectScope, secrets: readonly ReadSecret[], charge: Charge) => {
    const all: ArchivedSecret[] = [];
    for (let from = 0; from < secrets.length; from += CHUNK) {
      const chunk = secrets.slice(from, from + CHUNK);
      const histories = await historyOf(scope, chunk, charge);
      for (const secret of chunk) {
        const { value = "", ...rest } = toArchived(secret.folder.environment, secret);
        const createdAt = secret.row.createdAt.toISOString();
        all.push({ ...rest, value, history: { createdAt, versions: histories.get(secret.row.id) ?? [] } });
      }
    }
    return all;
  };

  const requireAll = ({ ability }: ProjectScope, slug: string, { secrets, isWhole }: SecretList) => {
    const hidden = secrets.find(({ value }) => value === undefined);
    if (hidden || !isWhole)
      deny(ability, {
        action: "readValue",
        subject: "secrets",
        attributes: hidden ? attributesOf(hidden.folder, hidden.row.key, hidden.tags) : { environment: slug },
      });
  };

  const chosen = async (scope: ProjectScope, slugs: readonly string[] | undefined) => {
    if (slugs === undefined) return scope.project.environments;
    const found = new Map<string, EnvironmentRef>();
    for (const slug of slugs) found.set(slug, await access.environment(scope, slug));
    return [...found.values()];
  };

  return {
    /** All of it, or a refusal. */
    async whole(actor: MemberActor, scope: ProjectScope, wanted: WantedProject): Promise<NewArchive> {
      const { id, name, slug } = scope.project;
      const environments = await chosen(scope, wanted.environments);
      const charge = chargeOf(MAX_PROJECT_FILE);
      const archive: NewArchive = {
        project: { name, slug },
        environments: environments.map((one) => ({ slug: one.slug, name: one.name })),
        tags: await tagsOf(actor, id),
        folders: [],
        secrets: [],
        imports: [],
        roles: wanted.includeRoles ? await rolesOf(actor, id) : [],
      };
      for (const environment of environments) {
        const list = await secretsIn(actor, id, environment.slug);
        requireAll(scope, environment.slug, list);
        await inChunks(list.secrets, ({ value }) => charge(LEAST_LETTERS + (value?.open().length ?? 0)));
        const gathered = wanted.includeHistory
          ? await withHistory(scope, list.secrets, charge)
          : await mapInChunks(list.secrets, (secret) => {
              const { value = "", ...rest } = toArchived(environment.slug, secret);
              return { ...rest, value };
            });
        for (const secret of gathered) archive.secrets.push(secret);
        const budget = new JudgingBudget();
        for (const { path, description } of await foldersIn(scope.project.orgId, environment)) {
          if (budget.isDue()) await budget.giveWay();
          requireAt(scope, "secret-folders", environment, path);
          archive.folders.push({ environment: environment.slug, path, description });
        }
        const imports = await importsIn(actor, id, environment);
        for (const one of imports) {
          if (budget.isDue()) await budget.giveWay();
          requireAt(scope, "secret-imports", environment, one.path);
          archive.imports.push(one);
        }
      }
      return archive;
    },

    /** What is there of these environments, as far as the reader may see it. */
    async present(
      actor: MemberActor,
      scope: ProjectScope,
      part: { slugs: ReadonlySet<string>; roles: boolean },
    ) {
      const { id } = scope.project;
      const environments = scope.project.environments.filter(({ slug }) => part.slugs.has(slug));
      const found = {
        environments: environments.map(({ slug, name }) => ({ slug, name })),
        tags: await tagsOf(actor, id),
        folders: [] as PresentSecrets["folders"],
        secrets: [] as Gathered[],
        imports: [] as ArchivedImport[],
        roles: part.roles ? await rolesOf(actor, id) : [],
      };
      for (const environment of environments) {
        const { secrets } = await secretsIn(actor, id, environment.slug);
        const above = new Set<string>();
        await inChunks(secrets, (secret) => {
          found.secrets.push(toArchived(environment.slug, secret));
          for (let { path } = secret.folder; !above.has(path); path = parentOf(path)) above.add(path);
        });
        const budget = new JudgingBudget();
        for (const { path, description } of await foldersIn(scope.project.orgId, environment)) {
          if (budget.isDue()) await budget.giveWay();
          const isReadable = canAt(scope, "secret-folders", environment, path);
          // A reader of a secret may know its folders, but not their descriptions.
          if (isReadable || above.has(path))
            found.folders.push({
              environment: environment.slug,
              path,
              description: isReadable ? description : null,
            });
        }
        const imports = await importsIn(actor, id, environment, (path) =>
          canAt(scope, "secret-imports", environment, path),
        );
        for (const one of imports) found.imports.push(one);
      }
      return found satisfies PresentSecrets;
    },
  };
}
