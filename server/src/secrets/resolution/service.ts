/**
 * Loads what the pure rules of model.ts ask for, in few statements: whole import closures at once, referred keys in
 * rounds (each round follows every open reference one step). One session serves one reader and one request.
 */
import type { Keyring, DataKey } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { inChunks, Pace } from "../../platform/pace.ts";
import { badRequest } from "../../platform/problem.ts";
import { redact } from "../../platform/redacted.ts";
import { addToGroup, groupBy } from "../../platform/group-by.ts";
import type { Access, ProjectScope } from "../access.ts";
import {
  answerTooLarge,
  attributesOf,
  decryptComment,
  decryptMetadata,
  decryptValue,
  MAX_ANSWER_BYTES,
  type FolderPlace,
  type ReadSecret,
  type SecretRow,
  type TagRef,
  type Weighed,
} from "../model.ts";
import { tagsFor, type Tags } from "../tags/service.ts";
import {
  ALLOWANCE,
  Expander,
  mayRefer,
  spotKey,
  type FoundReference,
  type SecretAddress,
  type Want,
  type SecretLookup,
} from "./model.ts";
import { foldersReached, MAX_FOLDERS, type ReachedFolder, type WeighedRow } from "./store.ts";
import { createLoader, type Loader } from "./load-rows.ts";

export interface ResolutionNeeds {
  readonly db: Db;
  readonly keyring: Keyring;
  readonly access: Access;
  readonly tags: Tags;
}

export interface ImportBlock {
  readonly folder: FolderPlace;
  readonly secrets: readonly ReadSecret[];
}

const MAX_ROUNDS = 64;
/** What is loaded only because values refer to it. */
const MAX_REFERRED_BYTES = 32 * 1024 * 1024;

const tooManyFolders = () =>
  badRequest(
    `More than ${MAX_FOLDERS} folders are imported or referred to here. Read folder by folder (recursive=false), or without imports.`,
  );

const weightOf = (rows: readonly Weighed[]): number =>
  rows.reduce((sum, { weight, isLeftOut }) => sum + (isLeftOut ? 0 : weight), 0);

export class Resolution implements SecretLookup {
  readonly #needs: ResolutionNeeds;
  readonly #scope: ProjectScope;
  /** Whose personal overrides count; null = nobody's. */
  readonly #ownerId: string | null;
  readonly #loader: Loader;
  readonly #folders = new Map<string, ReachedFolder | null>();
  readonly #rows = new Map<string, Map<string, WeighedRow[]>>();
  readonly #wholeFolders = new Set<string>();
  /** The names that were asked for in a folder, there or not. One set for all folders that were asked together. */
  readonly #asked = new Map<string, ReadonlySet<string>[]>();
  /** By project; null if it is gone. */
  readonly #scopes = new Map<string, ProjectScope | null>();
  readonly #tags = new Map<string, Map<string, TagRef>>();
  readonly #vaults = new Map<string, DataKey>();
  /** Values that references led to, by row: a thousand references to one secret open it once. */
  readonly #opened = new Map<string, string>();
  #allowance = ALLOWANCE;
  #listingRoom = MAX_ANSWER_BYTES;
  /** A secret that is loaded once may be answered in many blocks. */
  #blockRoom = MAX_ANSWER_BYTES;
  #referredRoom = MAX_REFERRED_BYTES;

  constructor(needs: ResolutionNeeds, scope: ProjectScope, ownerId: string | null, isLarge: boolean) {
    this.#needs = needs;
    this.#scope = scope;
    this.#ownerId = ownerId;
    this.#loader = createLoader(needs.db, scope.project.orgId, isLarge);
    this.#scopes.set(scope.project.id, scope);
  }

  /** Another project as this session saw it, null if it was deleted; undefined if it never got there. */
  scopeIn(projectId: string): ProjectScope | null | undefined {
    return this.#scopes.get(projectId);
  }

  // ---- SecretLookup ----------------------------------------------------------------------------------------

  environmentId(projectId: string, slug: string): string | null | "unknown" {
    const scope = this.#scopes.get(projectId);
    if (scope === undefined) return "unknown";
    return scope?.project.environments.find((environment) => environment.slug === slug)?.id ?? null;
  }

  own(spot: SecretAddress, key: string): FoundReference {
    const folder = this.#folders.get(spotKey(spot));
    if (folder === undefined) return "unknown";
    if (folder === null) return "absent";
    const rows = this.#rows.get(folder.id)?.get(key);
    if (rows === undefined) return this.#wasAsked(folder.id, key) ? "absent" : "unknown";
    // An override stands before the secret that it overrides.
    const row = rows.find((candidate) => candidate.ownerId !== null) ?? rows[0];
    if (!row || row.isLeftOut || !this.#can("readValue", row, folder)) return "absent";
    const value = this.#opened.get(row.id) ?? decryptValue(this.#dataKey(row), row);
    this.#opened.set(row.id, value);
    return { id: row.id, key, spot, value };
  }

  #wasAsked(folderId: string, key: string): boolean {
    return (
      this.#wholeFolders.has(folderId) ||
      (this.#asked.get(folderId)?.some((names) => names.has(key)) ?? false)
    );
  }

  imports(spot: SecretAddress): readonly SecretAddress[] | "unknown" {
    const folder = this.#folders.get(spotKey(spot));
    if (folder === undefined) return "unknown";
    return (folder?.imports ?? []).map(([projectId, environmentId, path]) => ({
      projectId,
      environmentId,
      path,
    }));
  }

  // ---- Reading ---------------------------------------------------------------------------------------------

  #dataKey(row: { readonly keyId: string }): DataKey {
    const dataKey = this.#vaults.get(row.keyId);
    if (!dataKey) throw new Error("a data key was not loaded before its rows were read");
    return dataKey;
  }

  #tagsOf(row: SecretRow, projectId: string): readonly TagRef[] {
    return row.tagIds.length === 0
      ? []
      : tagsFor(this.#tags.get(projectId) ?? new Map<string, TagRef>(), row.tagIds);
  }

  #can(action: string, row: SecretRow, folder: FolderPlace): boolean {
    const attributes = attributesOf(folder, row.key, this.#tagsOf(row, folder.projectId));
    return this.#scopes.get(folder.projectId)?.ability.can(action, "secrets", attributes) ?? false;
  }

  /** Data keys and tags for rows that are about to be checked and decrypted; one query each, however many rows. */
  async prepare(projectId: string, rows: readonly SecretRow[]): Promise<void> {
    for (const row of rows) {
      if (!this.#vaults.has(row.keyId))
        this.#vaults.set(row.keyId, await this.#needs.keyring.dataKeyById(row.keyId));
    }
    if (rows.some((row) => row.tagIds.length > 0)) {
      const known = this.#tags.get(projectId) ?? new Map<string, TagRef>();
      this.#tags.set(projectId, known);
      // Added to those of other folders: a secret without its tags would be checked by the wrong rules.
      const found = await this.#needs.tags.lookUp(
        projectId,
        rows.map((row) => row.tagIds),
      );
      for (const [id, tag] of found) known.set(id, tag);
    }
  }

  /** Rows that were loaded for this answer elsewhere: their size is not available for imports. */
  count(rows: readonly Weighed[]): void {
    this.#listingRoom -= weightOf(rows);
  }

  /** What this reader sees of a row, or null if the reader may not even know of it. */
  view(row: SecretRow & Partial<Weighed>, folder: FolderPlace, wantsValue: boolean): ReadSecret | null {
    const { ability } = this.#scopes.get(folder.projectId) ?? {};
    if (!ability) return null;
    const tags = this.#tagsOf(row, folder.projectId);
    const attributes = attributesOf(folder, row.key, tags);
    if (!ability.can("describeSecret", "secrets", attributes)) return null;
    if (row.isLeftOut) throw answerTooLarge();
    // Encrypted metadata goes with the value: decrypted only where that is wanted too, and then audited as a read.
    const isReadable = wantsValue && ability.can("readValue", "secrets", attributes);
    const dataKey = this.#dataKey(row);
    const metadata = isReadable
      ? decryptMetadata(dataKey, row)
      : (row.metadata ?? []).map((item) => (item.isEncrypted ? { ...item, value: "" } : item));
    return {
      row,
      folder,
      tags,
      value: isReadable ? redact(decryptValue(dataKey, row)) : undefined,
      comment: redact(decryptComment(dataKey, row)),
      metadata: redact(metadata),
    };
  }

  // ---- Loading ---------------------------------------------------------------------------------------------

  async #learnFolders(spots: readonly SecretAddress[]): Promise<ReachedFolder[]> {
    const fresh = spots.filter((spot) => !this.#folders.has(spotKey(spot)));
    if (fresh.length === 0) return [];
    const found = await this.#needs.db.read((q) => foldersReached(q, fresh));
    if (found.length > MAX_FOLDERS) throw tooManyFolders();
    for (const spot of fresh) this.#folders.set(spotKey(spot), null);
    for (const folder of found) this.#folders.set(spotKey(folder), folder);
    // A path that an import names but that has no folder (any more) is known to be empty.
    for (const folder of found) {
      for (const [, environmentId, path] of folder.imports ?? []) {
        const key = spotKey({ environmentId, path });
        if (!this.#folders.has(key)) this.#folders.set(key, null);
      }
    }
    for (const { projectId } of found) await this.#learnScope(projectId);
    return found;
  }

  async #learnScope(projectId: string): Promise<void> {
    if (this.#scopes.has(projectId)) return;
    const scope = await this.#needs.access.neighbour(this.#scope.actor, projectId);
    this.#scopes.set(projectId, scope ?? null);
  }

  async #learnRows(rows: readonly WeighedRow[]): Promise<void> {
    const byFolder = groupBy(rows, (row) => row.folderId);
    for (const folder of this.#folders.values()) {
      const own = folder && byFolder.get(folder.id);
      if (folder && own) await this.prepare(folder.projectId, own);
    }
    for (const row of rows) {
      const keys = this.#rows.get(row.folderId) ?? new Map<string, WeighedRow[]>();
      this.#rows.set(row.folderId, keys);
      const known = keys.get(row.key) ?? [];
      if (!known.some((other) => other.id === row.id)) keys.set(row.key, [...known, row]);
    }
  }

  /** The import blocks of these folders, in order, each with what its own imports add. */
  async importBlocks(folders: readonly FolderPlace[], wantsValue: boolean): Promise<ImportBlock[]> {
    await this.#learnFolders(folders);
    const reached = [...this.#folders.values()].filter((known) => known !== null);
    const sources = new Set(
      reached.flatMap((known) => (this.imports(known) as readonly SecretAddress[]).map(spotKey)),
    );
    const whole = reached
      .filter((known) => sources.has(spotKey(known)) && !this.#wholeFolders.has(known.id))
      .map((known) => known.id);
    if (whole.length > 0) {
      const reach = { folderIds: whole, ownerId: this.#ownerId, room: this.#listingRoom };
      const rows = await this.#loader.inFolders(reach, wantsValue);
      this.count(rows);
      await this.#learnRows(rows);
      for (const id of whole) this.#wholeFolders.add(id);
    }
    const blocks: ImportBlock[] = [];
    for (const folder of folders) blocks.push(...(await this.#blocksOf(folder, wantsValue)));
    return blocks;
  }

  async #blocksOf(folder: FolderPlace, wantsValue: boolean): Promise<ImportBlock[]> {
    const visited = new Set([spotKey(folder)]);
    // A key is answered in the first block that carries it, and there only: clients that walk the blocks forwards
    // and clients that walk them backwards then agree.
    const taken = new Set<string>();
    const pace = new Pace();
    const blocks: ImportBlock[] = [];
    for (const spot of this.imports(folder) as readonly SecretAddress[]) {
      const source = this.#folders.get(spotKey(spot));
      if (!source) continue;
      const secrets: ReadSecret[] = [];
      await this.#collect(source, { visited, taken, secrets, pace }, wantsValue);
      blocks.push({ folder: source, secrets });
    }
    return blocks;
  }

  async #collect(
    folder: ReachedFolder,
    walk: { visited: Set<string>; taken: Set<string>; secrets: ReadSecret[]; pace: Pace },
    wantsValue: boolean,
  ): Promise<void> {
    if (walk.visited.has(spotKey(folder))) return;
    walk.visited.add(spotKey(folder));
    for (const [key, rows] of this.#rows.get(folder.id) ?? []) {
      if (walk.taken.has(key)) continue;
      const row = rows.find((candidate) => candidate.ownerId !== null) ?? rows[0];
      const seen = row && this.view(row, folder, wantsValue);
      if (!seen) continue;
      this.#blockRoom -= row.weight;
      if (this.#blockRoom < 0) throw answerTooLarge();
      walk.taken.add(key);
      walk.secrets.push(seen);
      if (walk.pace.isDue()) await walk.pace.rest();
    }
    for (const spot of this.imports(folder) as readonly SecretAddress[]) {
      const source = this.#folders.get(spotKey(spot));
      if (source) await this.#collect(source, walk, wantsValue);
    }
  }

  /** One secret by name through the imports of a folder, without its own secrets. */
  async findImported(folder: FolderPlace, key: string, wantsValue: boolean): Promise<ReadSecret | null> {
    await this.#learnFolders([folder]);
    const ids = [...this.#folders.values()].flatMap((known) =>
      known === null || known.id === folder.id ? [] : [known.id],
    );
    const rows = await this.#loader.byKeys(
      { folderIds: ids, ownerId: this.#ownerId, room: this.#listingRoom },
      [key],
    );
    this.count(rows);
    await this.#learnRows(rows);
    const secrets = (await this.#blocksOf(folder, wantsValue)).flatMap((block) => block.secrets);
    return secrets.find((secret) => secret.row.key === key) ?? null;
  }

  /** The same secrets with the references in their values followed as far as this reader may read. */
  async expand(secrets: readonly ReadSecret[]): Promise<ReadSecret[]> {
    const referring: ReadSecret[] = [];
    await inChunks(secrets, (secret) => {
      if (secret.value !== undefined && mayRefer(secret.value.open())) referring.push(secret);
    });
    if (referring.length === 0) return [...secrets];
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const expander = new Expander(this, this.#allowance);
      const texts = new Map<string, string>();
      await inChunks(referring, (secret) => void texts.set(secret.row.id, expander.expand(readable(secret))));
      if (expander.wants.length === 0 || round === MAX_ROUNDS - 1) {
        this.#allowance = expander.left;
        return secrets.map((secret) => {
          const text = texts.get(secret.row.id);
          return text === undefined ? secret : { ...secret, value: redact(text) };
        });
      }
      // Searching costs in each round; values are inserted once, in the last.
      this.#allowance = { ...this.#allowance, looks: expander.left.looks };
      await this.#satisfy(expander.wants);
    }
    return [...secrets];
  }

  async #satisfy(wants: readonly Want[]): Promise<void> {
    const spots = new Map<string, SecretAddress>();
    for (const { from, reference } of wants) {
      await this.#learnScope(from.projectId);
      const environmentId =
        reference.environment === null
          ? from.environmentId
          : this.environmentId(from.projectId, reference.environment);
      if (environmentId === null || environmentId === "unknown") continue;
      const spot = { projectId: from.projectId, environmentId, path: reference.path ?? from.path };
      spots.set(spotKey(spot), spot);
    }
    await this.#learnFolders([...spots.values()]);
    const keys = [...new Set(wants.map(({ reference }) => reference.key))];
    const folders = [...this.#folders.values()].filter(
      (folder) => folder !== null && !this.#wholeFolders.has(folder.id),
    ) as ReachedFolder[];
    const ids = folders.map((folder) => folder.id);
    const rows = await this.#loader.byKeys(
      { folderIds: ids, ownerId: this.#ownerId, room: this.#referredRoom },
      keys,
    );
    this.#referredRoom -= weightOf(rows);
    await this.#learnRows(rows);
    const names = new Set(keys);
    for (const id of ids) addToGroup(this.#asked, id, names);
  }
}

const readable = (secret: ReadSecret) => ({
  id: secret.row.id,
  key: secret.row.key,
  spot: {
    projectId: secret.folder.projectId,
    environmentId: secret.folder.environmentId,
    path: secret.folder.path,
  },
  value: secret.value?.open() ?? "",
});
