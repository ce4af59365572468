/** Reading. One statement for a secret or a folder; more only where imports or references lead elsewhere. */
import type { MemberActor } from "../../platform/actor.ts";
import type { Db } from "../../platform/db/index.ts";
import { deny, JudgingBudget, orgOf } from "../../permissions/index.ts";
import { require, type Access, type EnvironmentRef, type Ground } from "../access/service.ts";
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
import { createAnswers } from "../reads/model.ts";
import type { ReadAudit } from "../reads/service.ts";
import { Resolution, type ImportBlock, type ResolutionNeeds } from "../resolution/service.ts";
import { IsLarge } from "../resolution/service/load-rows.ts";
import { createLargeAnswers } from "./large-answers.ts";
import { etagOf, isHeld, rightsOf } from "../stamps/model.ts";
import { projectsIn, readStamp } from "../stamps/store.ts";
import {
  readById,
  readFolder,
  readLargeFolder,
  readOne,
  type FoundFolder,
  type ListedFolder,
} from "../store.ts";
import type { Versions } from "../versions/service/read-version.ts";

export interface ReadNeeds extends ResolutionNeeds {
  readonly db: Db;
  readonly access: Access;
  readonly reads: ReadAudit;
  readonly versions: Versions;
}

export type IfNoneMatch = string | string[] | undefined;
export interface NotModified {
  readonly etag: string;
  readonly isNotModified: true;
}
/** The same answer as last time, in the very bytes. */
export interface SameAnswer {
  readonly etag: string;
  readonly isNotModified: false;
  readonly body: Buffer;
}
export interface SecretList {
  readonly etag: string;
  readonly isNotModified: false;
  readonly body?: never;
  /** For the door, which alone knows the bytes: to be given again while the tag is current. */
  readonly keep: (body: Buffer) => void;
  readonly secrets: readonly ReadSecret[];
  readonly imports: readonly ImportBlock[];
  /** Nothing that is there was kept from the reader. */
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
const keyOf = (ground: Ground, shape: unknown): string =>
  `${ground.project.id} ${JSON.stringify(shape)} ${rightsOf(ground.ability)}`;

export type SecretReads = ReturnType<typeof createSecretReads>;

export function createSecretReads(needs: ReadNeeds) {
  const { db, access, reads } = needs;
  const answers = createAnswers();
  const large = createLargeAnswers(access);

  /** With `seen`: the tag of what that session resolved, under the very rights it judged with. */
  const tagOf = async (
    ground: Ground,
    shape: unknown,
    stamp: string,
    seen?: Pick<Resolution, "groundIn">,
  ): Promise<string> => {
    const grounds = [ground];
    for (const id of projectsIn(stamp).filter((other) => other !== ground.project.id)) {
      const met = seen?.groundIn(id);
      const known = met === undefined ? await access.neighbour(ground.actor, id) : met;
      if (known) grounds.push(known);
    }
    // Environments are remembered and may lag behind the stamp for a moment, in every project: then the tag says so.
    return etagOf(
      [shape, grounds.map(({ project }) => project.environments)],
      stamp,
      grounds.map(({ ability }) => ability),
    );
  };

  const currentTag = async (ground: Ground, shape: unknown): Promise<string> =>
    tagOf(ground, shape, await db.read((q) => readStamp(q, ground.project.id)));

  /** Whoever may see nothing anywhere gets the full treatment, and its refusal. */
  const mayLook = ({ ability }: Ground): boolean => ability.can("describeSecret", "secrets");

  return {
    /** `write` is done while it is still the organisation's turn, if it needs one. */
    async list<T>(
      actor: MemberActor,
      query: ListQuery,
      header: IfNoneMatch,
      write: (list: SecretList) => Promise<T>,
    ): Promise<T | SameAnswer | NotModified> {
      const ground = await access.ground(actor, query.projectId);
      const environment = await access.environment(ground, query.environment);
      const ownerId = query.includePersonalOverrides ? actor.id : null;
      const shape = ["list", query, ownerId];
      const note = async (metadata: Noted) => {
        if (query.viewSecretValue) await reads.note(actor, ground.project, "get-secrets", metadata);
      };
      const key = keyOf(ground, shape);
      const again = await answerAgain(ground, shape, { key, header, note });
      if (again) return again;
      return readList({ ground, environment, query }, { shape, note, key }, write);
    },

    /** Always the values themselves: for exports and imports. With `keys`, these names of one folder only. */
    async listFresh(actor: MemberActor, query: ListQuery, keys?: readonly string[]): Promise<SecretList> {
      const ground = await access.ground(actor, query.projectId);
      const environment = await access.environment(ground, query.environment);
      const note = (metadata: Noted) => reads.note(actor, ground.project, "get-secrets", metadata);
      const context = { shape: undefined, note, key: undefined };
      return readList({ ground, environment, query, keys }, context, async (list) => list);
    },

    async get(
      actor: MemberActor,
      name: string,
      query: ReadQuery,
      header: IfNoneMatch,
    ): Promise<OneSecret | SameAnswer | NotModified> {
      const ground = await access.ground(actor, query.projectId);
      const environment = await access.environment(ground, query.environment);
      const ownerId = query.type === "personal" ? actor.id : null;
      const shape = ["get", name, query, ownerId];
      const note = (metadata: Noted) => reads.note(actor, ground.project, "get-secret", metadata);
      const key = keyOf(ground, shape);
      const again = await answerAgain(ground, shape, { key, header, note });
      if (again) return again;
      const at = { environmentId: environment.id, path: query.secretPath };
      const what = JSON.stringify([environment.id, name, query]);
      const { etag, expanded, now } = await large.either(ground, what, async (now, isLarge) => {
        const found = await db.read((q) => readOne(q, at, name, { projectId: now.project.id, ownerId }));
        const resolution = new Resolution(needs, now, ownerId, isLarge);
        const secret = await findOne(resolution, found, { ground: now, environment, name, query });
        const [whole = secret] = query.expandSecretReferences ? await resolution.expand([secret]) : [secret];
        return { etag: await tagOf(now, shape, found?.stamp ?? "", resolution), expanded: whole, now };
      });
      const noted = noteOf(expanded);
      if (noted) await note(noted);
      const keptAs = now === ground ? key : keyOf(now, shape);
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
      const ground = await access.ground(actor, row.projectId);
      const expanded = await large.either(ground, id, async (now, isLarge) => {
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
      if (noted) await reads.note(actor, ground.project, "get-secret", noted);
      return expanded;
    },
  };

  interface ListContext {
    readonly shape: unknown;
    readonly note: (metadata: Noted) => Promise<void>;
    readonly key: string | undefined;
  }

  function readList<T>(
    listing: Listing,
    context: ListContext,
    answer: (list: SecretList) => Promise<T>,
  ): Promise<T> {
    const what = JSON.stringify([listing.environment.id, listing.query]);
    return large.either(listing.ground, what, async (ground, isLarge) =>
      answer(await readOnce({ ...listing, ground }, context, isLarge)),
    );
  }

  async function rowsOf({ ground, environment, query, keys }: Listing, isLarge: boolean) {
    const at = { environmentId: environment.id, path: query.secretPath };
    const wish = {
      projectId: ground.project.id,
      ownerId: query.includePersonalOverrides ? ground.actor.id : null,
      recursive: query.recursive,
      wantsValue: query.viewSecretValue,
      keys,
    };
    if (isLarge) return db.read((q) => readLargeFolder(q, at, wish), { tenant: ground.project.orgId });
    const rows = await db.read((q) => readFolder(q, at, wish));
    if (!rows) throw new IsLarge();
    return rows;
  }

  async function readOnce(
    listing: Listing,
    { shape, note, key }: ListContext,
    isLarge: boolean,
  ): Promise<SecretList> {
    const { ground, environment, query } = listing;
    const ownerId = query.includePersonalOverrides ? ground.actor.id : null;
    const found = await rowsOf(listing, isLarge);
    const resolution = new Resolution(needs, ground, ownerId, isLarge);
    const seen = await seeAll(resolution, found, { ground, environment, query });
    const [first] = found;
    if (seen.length === 0) requireSight(ground, environment, query.secretPath);
    if (!first) throw folderUnknown(query.secretPath);

    const importing = query.includeImports ? foldersWithImports(found, ground, environment) : [];
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
    const [etag] = await Promise.all([tagOf(ground, shape, first.stamp, resolution), note(noted)]);
    const keep = (body: Buffer) => (key === undefined ? undefined : answers.keep(key, { etag, body, noted }));
    const isWhole = seen.length === found.filter((row) => row.id !== null).length;
    return { etag, isNotModified: false, secrets, imports: blocks, isWhole, isLarge, keep };
  }

  interface Repeat {
    readonly key: string;
    readonly header: IfNoneMatch;
    readonly note: (metadata: Noted) => Promise<void>;
  }

  /** What can be said without reading a single row, once the database has said which tag is current. */
  async function answerAgain(
    ground: Ground,
    shape: unknown,
    { key, header, note }: Repeat,
  ): Promise<SameAnswer | NotModified | undefined> {
    const kept = answers.find(key);
    if ((header === undefined && !kept) || !mayLook(ground)) return undefined;
    const current = await currentTag(ground, shape);
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
    readonly ground: Ground;
    readonly environment: EnvironmentRef;
    readonly name: string;
    readonly query: ReadQuery;
  }

  async function findOne(
    resolution: Resolution,
    found: FoundFolder | undefined,
    { ground, environment, name, query }: Asked,
  ): Promise<ReadSecret> {
    const attributes = attributesOf({ environment: environment.slug, path: query.secretPath }, name, []);
    if (!found) {
      require(ground.ability, "describeSecret", "secrets", attributes);
      throw folderUnknown(query.secretPath);
    }
    const folder = {
      id: found.foundFolderId,
      projectId: ground.project.id,
      environmentId: environment.id,
      environment: environment.slug,
      path: found.path,
    };
    if (found.id !== null) {
      await resolution.prepare(ground.project.id, [found]);
      const own = resolution.view(found, folder, query.viewSecretValue);
      if (own && query.version !== undefined && query.version !== found.version) {
        const past = await needs.versions.at(ground, found, folder, query.version);
        await resolution.prepare(ground.project.id, [past.row]);
        const seen = resolution.view(past.row, folder, query.viewSecretValue && past.isReadable);
        if (seen) return seen;
      } else if (own) return own;
    }
    const imported =
      query.includeImports && found.hasImports && query.version === undefined
        ? await resolution.findImported(folder, name, query.viewSecretValue)
        : null;
    if (imported) return imported;
    // Unknown or not for this reader: the same refusal, so that neither gives the other away.
    if (found.id !== null)
      return deny(ground.ability, { action: "describeSecret", subject: "secrets", attributes });
    require(ground.ability, "describeSecret", "secrets", attributes);
    throw secretUnknown(name);
  }
}

interface Listing {
  readonly ground: Ground;
  readonly environment: EnvironmentRef;
  readonly query: ListQuery;
  readonly keys?: readonly string[] | undefined;
}

async function seeAll(
  resolution: Resolution,
  found: readonly ListedFolder[],
  { ground, environment, query }: Listing,
): Promise<ReadSecret[]> {
  const rows = found.filter((row) => row.id !== null) as (ListedFolder & SecretRow)[];
  resolution.count(rows);
  await resolution.prepare(ground.project.id, rows);
  let folder: FolderPlace | undefined;
  const seen: ReadSecret[] = [];
  const budget = new JudgingBudget();
  for (const row of rows) {
    if (folder?.id !== row.foundFolderId) {
      folder = {
        id: row.foundFolderId,
        projectId: ground.project.id,
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

/** Whoever sees nothing must at least be somebody who may look here; else an empty folder and a closed one differ. */
function requireSight({ ability }: Ground, environment: EnvironmentRef, path: string): void {
  require(ability, "describeSecret", "secrets", { environment: environment.slug, secretPath: path });
}

function foldersWithImports(
  found: readonly FoundFolder[],
  ground: Ground,
  environment: EnvironmentRef,
): FolderPlace[] {
  const folders = new Map<string, FolderPlace>();
  for (const row of found) {
    if (!row.hasImports || folders.has(row.foundFolderId)) continue;
    folders.set(row.foundFolderId, {
      id: row.foundFolderId,
      projectId: ground.project.id,
      environmentId: environment.id,
      environment: environment.slug,
      path: row.path,
    });
  }
  return [...folders.values()];
}
