/** Reading. One statement for a secret or a folder; more only where imports or references lead elsewhere. */
import type { MemberActor } from "../../platform/actor.ts";
import type { Db } from "../../platform/db/index.ts";
import { deny, JudgingBudget, orgOf } from "../../permissions/index.ts";
import { requireRight, type Access, type EnvironmentRef, type ProjectScope } from "../access.ts";
import type { ListQuery, ReadQuery } from "../contract.ts";
import {
  attributesOf,
  folderUnknown,
  passesFilters,
  secretUnknown,
  type FolderPlace,
  type ReadSecret,
  type SecretRow,
} from "../model.ts";
import { createAnswers } from "../read-audit.model.ts";
import type { PastReads } from "../past-reads.ts";
import type { ReadAudit } from "../read-audit.ts";
import { Resolution, type ImportBlock, type ResolutionNeeds } from "../resolution/service.ts";
import { IsLarge } from "../resolution/load-rows.ts";
import { createLargeAnswers } from "./large-answers.ts";
import { etagOf, isHeld, rightsOf } from "../revisions.model.ts";
import { projectsIn, readRevision } from "../revisions.store.ts";
import {
  readById,
  readFolder,
  readLargeFolder,
  readOne,
  type FoundFolder,
  type ListedFolder,
} from "../store.ts";

interface ReadNeeds extends ResolutionNeeds {
  readonly db: Db;
  readonly access: Access;
  readonly reads: ReadAudit;
  readonly versions: PastReads;
}

type IfNoneMatch = string | string[] | undefined;
export interface NotModified {
  readonly etag: string;
  readonly isNotModified: true;
}
/** The same answer as last time, byte for byte. */
export interface SameAnswer {
  readonly etag: string;
  readonly isNotModified: false;
  readonly body: Buffer;
}
export interface SecretList {
  readonly etag: string;
  readonly isNotModified: false;
  readonly body?: never;
  /** For routes.ts, which has the bytes: to be sent again while the ETag is current. */
  readonly keep: (body: Buffer) => void;
  readonly secrets: readonly ReadSecret[];
  readonly imports: readonly ImportBlock[];
  /** Nothing was hidden from the reader. */
  readonly isWhole: boolean;
  readonly isLarge: boolean;
}
export interface OneSecret {
  readonly etag: string;
  readonly isNotModified: false;
  readonly body?: never;
  readonly keep: (body: Buffer) => void;
  readonly secret: ReadSecret;
}

type Noted = Readonly<Record<string, unknown>>;
const keyOf = (scope: ProjectScope, shape: unknown): string =>
  `${scope.project.id} ${JSON.stringify(shape)} ${rightsOf(scope.ability)}`;

export type SecretReads = ReturnType<typeof createSecretReads>;

export function createSecretReads(needs: ReadNeeds) {
  const { db, access, reads } = needs;
  const answers = createAnswers();
  const large = createLargeAnswers(access);

  /** With `seen`: the ETag of what that session resolved, under the rights it was checked with. */
  const tagOf = async (
    scope: ProjectScope,
    shape: unknown,
    revision: string,
    seen?: Pick<Resolution, "scopeIn">,
  ): Promise<string> => {
    const scopes = [scope];
    for (const id of projectsIn(revision).filter((other) => other !== scope.project.id)) {
      const met = seen?.scopeIn(id);
      const known = met === undefined ? await access.neighbour(scope.actor, id) : met;
      if (known) scopes.push(known);
    }
    // Environments are cached and may lag behind the revision for a moment, in every project: then the ETag says so.
    return etagOf(
      [shape, scopes.map(({ project }) => project.environments)],
      revision,
      scopes.map(({ ability }) => ability),
    );
  };

  const currentTag = async (scope: ProjectScope, shape: unknown): Promise<string> =>
    tagOf(scope, shape, await db.read((q) => readRevision(q, scope.project.id)));

  /** A caller who may see nothing anywhere takes the full path, and gets its refusal. */
  const mayLook = ({ ability }: ProjectScope): boolean => ability.can("describeSecret", "secrets");

  return {
    /** `write` is done while it is still the organisation's turn, if it needs one. */
    async list<T>(
      actor: MemberActor,
      query: ListQuery,
      header: IfNoneMatch,
      write: (list: SecretList) => Promise<T>,
    ): Promise<T | SameAnswer | NotModified> {
      const scope = await access.scope(actor, query.projectId);
      const environment = await access.environment(scope, query.environment);
      const ownerId = query.includePersonalOverrides ? actor.id : null;
      const shape = ["list", query, ownerId];
      const note = async (metadata: Noted) => {
        if (query.viewSecretValue) await reads.note(actor, scope.project, "get-secrets", metadata);
      };
      const key = keyOf(scope, shape);
      const again = await answerAgain(scope, shape, { key, header, note });
      if (again) return again;
      return readList({ scope, environment, query }, { shape, note, key }, write);
    },

    /** Always the values themselves: for exports and imports. With `keys`, these names of one folder only. */
    async listFresh(actor: MemberActor, query: ListQuery, keys?: readonly string[]): Promise<SecretList> {
      const scope = await access.scope(actor, query.projectId);
      const environment = await access.environment(scope, query.environment);
      const note = (metadata: Noted) => reads.note(actor, scope.project, "get-secrets", metadata);
      const context = { shape: undefined, note, key: undefined };
      return readList({ scope, environment, query, keys }, context, async (list) => list);
    },

    async get(
      actor: MemberActor,
      name: string,
      query: ReadQuery,
      header: IfNoneMatch,
    ): Promise<OneSecret | SameAnswer | NotModified> {
      const scope = await access.scope(actor, query.projectId);
      const environment = await access.environment(scope, query.environment);
      const ownerId = query.type === "personal" ? actor.id : null;
      const shape = ["get", name, query, ownerId];
      const note = (metadata: Noted) => reads.note(actor, scope.project, "get-secret", metadata);
      const key = keyOf(scope, shape);
      const again = await answerAgain(scope, shape, { key, header, note });
      if (again) return again;
      const at = { environmentId: environment.id, path: query.secretPath };
      const what = JSON.stringify([environment.id, name, query]);
      const { etag, expanded, now } = await large.either(scope, what, async (now, isLarge) => {
        const found = await db.read((q) => readOne(q, at, name, { projectId: now.project.id, ownerId }));
        const resolution = new Resolution(needs, now, ownerId, isLarge);
        const secret = await findOne(resolution, found, { scope: now, environment, name, query });
        const [whole = secret] = query.expandSecretReferences ? await resolution.expand([secret]) : [secret];
        return { etag: await tagOf(now, shape, found?.revision ?? "", resolution), expanded: whole, now };
      });
      const noted = noteOf(expanded);
      if (noted) await note(noted);
      const keptAs = now === scope ? key : keyOf(now, shape);
      const keep = (body: Buffer) => answers.keep(keptAs, { etag, body, noted });
      return { etag, isNotModified: false, secret: expanded, keep };
    },

    async getById(
      actor: MemberActor,
      id: string,
      query: { viewSecretValue: boolean; expandSecretReferences: boolean },
    ): Promise<ReadSecret> {
      const row = await db.read((q) => readById(q, id, orgOf(actor)));
      if (!row || (row.ownerId !== null && row.ownerId !== actor.id)) throw secretUnknown(id);
      const scope = await access.scope(actor, row.projectId);
      const expanded = await large.either(scope, id, async (now, isLarge) => {
        const resolution = new Resolution(needs, now, row.ownerId, isLarge);
        await resolution.prepare(row.projectId, [row]);
        const { projectId, environmentId, environment, path } = row;
        const folder = { id: row.folderId, projectId, environmentId, environment, path };
        const secret = resolution.view(row, folder, query.viewSecretValue);
        if (!secret) {
          const attributes = { environment, secretPath: path };
          return deny(now.ability, { action: "describeSecret", subject: "secrets", attributes });
        }
        const [whole = secret] = query.expandSecretReferences ? await resolution.expand([secret]) : [secret];
        return whole;
      });
      const noted = noteOf(expanded);
      if (noted) await reads.note(actor, scope.project, "get-secret", noted);
      return expanded;
    },
  };

  interface ListContext {
    readonly shape: unknown;
    readonly note: (metadata: Noted) => Promise<void>;
    readonly key: string | undefined;
  }

  function readList<T>(
    listing: SecretListing,
    context: ListContext,
    answer: (list: SecretList) => Promise<T>,
  ): Promise<T> {
    const what = JSON.stringify([listing.environment.id, listing.query]);
    return large.either(listing.scope, what, async (scope, isLarge) =>
      answer(await readOnce({ ...listing, scope }, context, isLarge)),
    );
  }

  async function rowsOf({ scope, environment, query, keys }: SecretListing, isLarge: boolean) {
    const at = { environmentId: environment.id, path: query.secretPath };
    const wish = {
      projectId: scope.project.id,
      ownerId: query.includePersonalOverrides ? scope.actor.id : null,
      recursive: query.recursive,
      wantsValue: query.viewSecretValue,
      keys,
    };
    if (isLarge) return db.read((q) => readLargeFolder(q, at, wish), { tenant: scope.project.orgId });
    const rows = await db.read((q) => readFolder(q, at, wish));
    if (!rows) throw new IsLarge();
    return rows;
  }

  async function readOnce(
    listing: SecretListing,
    { shape, note, key }: ListContext,
    isLarge: boolean,
  ): Promise<SecretList> {
    const { scope, environment, query } = listing;
    const ownerId = query.includePersonalOverrides ? scope.actor.id : null;
    const found = await rowsOf(listing, isLarge);
    const resolution = new Resolution(needs, scope, ownerId, isLarge);
    const seen = await seeAll(resolution, found, { scope, environment, query });
    const [first] = found;
    if (seen.length === 0) requireSight(scope, environment, query.secretPath);
    if (!first) throw folderUnknown(query.secretPath);

    const importing = query.includeImports ? foldersWithImports(found, scope, environment) : [];
    const imports =
      importing.length === 0 ? [] : await resolution.importBlocks(importing, query.viewSecretValue);
    const expand = (secrets: readonly ReadSecret[]) =>
      query.expandSecretReferences ? resolution.expand(secrets) : Promise.resolve(secrets);
    const secrets = await expand(seen.filter((secret) => passesFilters(secret, query)));
    const blocks: ImportBlock[] = [];
    for (const block of imports) blocks.push({ ...block, secrets: await expand(block.secrets) });
    const noted = {
      environment: environment.slug,
      secretPath: query.secretPath,
      numberOfSecrets: secrets.length,
    };
    const [etag] = await Promise.all([tagOf(scope, shape, first.revision, resolution), note(noted)]);
    const keep = (body: Buffer) => (key === undefined ? undefined : answers.keep(key, { etag, body, noted }));
    const isWhole = seen.length === found.filter((row) => row.id !== null).length;
    return { etag, isNotModified: false, secrets, imports: blocks, isWhole, isLarge, keep };
  }

  interface Repeat {
    readonly key: string;
    readonly header: IfNoneMatch;
    readonly note: (metadata: Noted) => Promise<void>;
  }

  /** What can be answered without reading a single row, once the database has said which ETag is current. */
  async function answerAgain(
    scope: ProjectScope,
    shape: unknown,
    { key, header, note }: Repeat,
  ): Promise<SameAnswer | NotModified | undefined> {
    const kept = answers.find(key);
    if ((header === undefined && !kept) || !mayLook(scope)) return undefined;
    const current = await currentTag(scope, shape);
    if (isHeld(header, current)) return { etag: current, isNotModified: true };
    if (kept?.etag !== current) return undefined;
    if (kept.noted) await note(kept.noted);
    return { etag: current, isNotModified: false, body: kept.body };
  }

  function noteOf({ row, folder, value }: ReadSecret): Noted | undefined {
    if (value === undefined) return undefined;
    return {
      environment: folder.environment,
      secretPath: folder.path,
      secretKey: row.key,
      secretId: row.id,
      version: row.version,
    };
  }

  interface Asked {
    readonly scope: ProjectScope;
    readonly environment: EnvironmentRef;
    readonly name: string;
    readonly query: ReadQuery;
  }

  async function findOne(
    resolution: Resolution,
    found: FoundFolder | undefined,
    { scope, environment, name, query }: Asked,
  ): Promise<ReadSecret> {
    const attributes = attributesOf({ environment: environment.slug, path: query.secretPath }, name, []);
    if (!found) {
      requireRight(scope.ability, "describeSecret", "secrets", attributes);
      throw folderUnknown(query.secretPath);
    }
    const folder = {
      id: found.foundFolderId,
      projectId: scope.project.id,
      environmentId: environment.id,
      environment: environment.slug,
      path: found.path,
    };
    if (found.id !== null) {
      await resolution.prepare(scope.project.id, [found]);
      const own = resolution.view(found, folder, query.viewSecretValue);
      if (own && query.version !== undefined && query.version !== found.version) {
        const past = await needs.versions.at(scope, found, folder, query.version);
        await resolution.prepare(scope.project.id, [past.row]);
        const seen = resolution.view(past.row, folder, query.viewSecretValue && past.isReadable);
        if (seen) return seen;
      } else if (own) return own;
    }
    const imported =
      query.includeImports && found.hasImports && query.version === undefined
        ? await resolution.findImported(folder, name, query.viewSecretValue)
        : null;
    if (imported) return imported;
    // Unknown or forbidden: the same refusal, so that they cannot be told apart.
    if (found.id !== null)
      return deny(scope.ability, { action: "describeSecret", subject: "secrets", attributes });
    requireRight(scope.ability, "describeSecret", "secrets", attributes);
    throw secretUnknown(name);
  }
}

interface SecretListing {
  readonly scope: ProjectScope;
  readonly environment: EnvironmentRef;
  readonly query: ListQuery;
  readonly keys?: readonly string[] | undefined;
}

async function seeAll(
  resolution: Resolution,
  found: readonly ListedFolder[],
  { scope, environment, query }: SecretListing,
): Promise<ReadSecret[]> {
  const rows = found.filter((row) => row.id !== null) as (ListedFolder & SecretRow)[];
  resolution.count(rows);
  await resolution.prepare(scope.project.id, rows);
  let folder: FolderPlace | undefined;
  const seen: ReadSecret[] = [];
  const budget = new JudgingBudget();
  for (const row of rows) {
    if (folder?.id !== row.foundFolderId) {
      folder = {
        id: row.foundFolderId,
        projectId: scope.project.id,
        environmentId: environment.id,
        environment: environment.slug,
        path: row.path,
      };
    }
    const secret = resolution.view(row, folder, query.viewSecretValue);
    if (secret) seen.push(secret);
    if (budget.isDue()) await budget.giveWay();
  }
  return seen;
}

/** A caller who sees nothing must at least be allowed to read here; else an empty and a forbidden folder would differ. */
function requireSight({ ability }: ProjectScope, environment: EnvironmentRef, path: string): void {
  requireRight(ability, "describeSecret", "secrets", { environment: environment.slug, secretPath: path });
}

function foldersWithImports(
  found: readonly FoundFolder[],
  scope: ProjectScope,
  environment: EnvironmentRef,
): FolderPlace[] {
  const folders = new Map<string, FolderPlace>();
  for (const row of found) {
    if (!row.hasImports || folders.has(row.foundFolderId)) continue;
    folders.set(row.foundFolderId, {
      id: row.foundFolderId,
      projectId: scope.project.id,
      environmentId: environment.id,
      environment: environment.slug,
      path: row.path,
    });
  }
  return [...folders.values()];
}
