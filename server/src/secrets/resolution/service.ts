/**
 * Loads what the pure rules of model.ts ask for, in few statements: whole import closures at once, referred keys in
 * rounds (each round follows every open reference one step). One session serves one reader and one request.
 */
import type { Keyring, Vault } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { seal } from "../../platform/sealed.ts";
import type { Ability } from "../../permissions/index.ts";
import type { ProjectRow, Projects } from "../../projects/index.ts";
import type { Access, Ground } from "../access/service.ts";
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
  type Found,
  type Spot,
  type Want,
  type World,
} from "./model.ts";
import {
  foldersReached,
  listInFolders,
  secretsByKeys,
  type ReachedFolder,
  type WeighedRow,
} from "./store.ts";

export interface ResolutionNeeds {
  readonly db: Db;
  readonly keyring: Keyring;
  readonly access: Access;
  readonly projects: Pick<Projects, "resolve">;
  readonly tags: Tags;
}

export interface ImportBlock {
  readonly folder: FolderPlace;
  readonly secrets: readonly ReadSecret[];
}

interface Rights {
  readonly project: ProjectRow;
  readonly ability: Ability;
}

const MAX_ROUNDS = 64;
/** What is loaded only because values refer to it. */
const MAX_REFERRED_BYTES = 32 * 1024 * 1024;

const weightOf = (rows: readonly Weighed[]): number =>
  rows.reduce((sum, { weight, isLeftOut }) => sum + (isLeftOut ? 0 : weight), 0);

export class Resolution implements World {
  readonly #needs: ResolutionNeeds;
  readonly #ground: Ground;
  /** Whose personal overrides count; null = nobody's. */
  readonly #ownerId: string | null;
  readonly #folders = new Map<string, ReachedFolder | null>();
  readonly #rows = new Map<string, Map<string, WeighedRow[]>>();
  readonly #wholeFolders = new Set<string>();
  readonly #rights = new Map<string, Rights>();
  readonly #tags = new Map<string, Map<string, TagRef>>();
  readonly #vaults = new Map<string, Vault>();
  /** Values that references led to, by row: a thousand references to one secret open it once. */
  readonly #opened = new Map<string, string>();
  #allowance = ALLOWANCE;
  #listingRoom = MAX_ANSWER_BYTES;
  #referredRoom = MAX_REFERRED_BYTES;

  constructor(needs: ResolutionNeeds, ground: Ground, ownerId: string | null) {
    this.#needs = needs;
    this.#ground = ground;
    this.#ownerId = ownerId;
    this.#rights.set(ground.project.id, ground);
  }

  /** The rights in another project that this session judged with; undefined if it never came there. */
  abilityIn(projectId: string): Ability | undefined {
    return this.#rights.get(projectId)?.ability;
  }

  // ---- World -----------------------------------------------------------------------------------------------

  environmentId(projectId: string, slug: string): string | null | "unknown" {
    const rights = this.#rights.get(projectId);
    if (!rights) return "unknown";
    return rights.project.environments.find((environment) => environment.slug === slug)?.id ?? null;
  }

  own(spot: Spot, key: string): Found {
    const folder = this.#folders.get(spotKey(spot));
    if (folder === undefined) return "unknown";
    if (folder === null) return "absent";
    const rows = this.#rows.get(folder.id)?.get(key);
    if (rows === undefined) return this.#wholeFolders.has(folder.id) ? "absent" : "unknown";
    // An override stands before the secret that it overrides.
    const row = rows.find((candidate) => candidate.ownerId !== null) ?? rows[0];
    if (!row || row.isLeftOut || !this.#can("readValue", row, folder)) return "absent";
    const value = this.#opened.get(row.id) ?? decryptValue(this.#vault(row), row);
    this.#opened.set(row.id, value);
    return { id: row.id, key, spot, value };
  }

  imports(spot: Spot): readonly Spot[] | "unknown" {
    const folder = this.#folders.get(spotKey(spot));
    if (folder === undefined) return "unknown";
    return (folder?.imports ?? []).map(([projectId, environmentId, path]) => ({
      projectId,
      environmentId,
      path,
    }));
  }

  // ---- Reading ---------------------------------------------------------------------------------------------

  #vault(row: { readonly keyId: string }): Vault {
    const vault = this.#vaults.get(row.keyId);
    if (!vault) throw new Error("a data key was not loaded before its rows were read");
    return vault;
  }

  #tagsOf(row: SecretRow, projectId: string): readonly TagRef[] {
    return row.tagIds.length === 0
      ? []
      : tagsFor(this.#tags.get(projectId) ?? new Map<string, TagRef>(), row.tagIds);
  }

  #can(action: string, row: SecretRow, folder: FolderPlace): boolean {
    const rights = this.#rights.get(folder.projectId);
    return (
      rights !== undefined &&
      rights.ability.can(
        action,
        "secrets",
        attributesOf(folder, row.key, this.#tagsOf(row, folder.projectId)),
      )
    );
  }

  /** Keys and tags for rows that are about to be judged and opened; one look each, however many rows. */
  async prepare(projectId: string, rows: readonly SecretRow[]): Promise<void> {
    for (const row of rows) {
      if (!this.#vaults.has(row.keyId))
        this.#vaults.set(row.keyId, await this.#needs.keyring.vaultById(row.keyId));
    }
    if (rows.some((row) => row.tagIds.length > 0)) {
      const known = this.#tags.get(projectId) ?? new Map<string, TagRef>();
      this.#tags.set(projectId, known);
      // Added to those of other folders: a secret without its tags would be judged by the wrong rules.
      const found = await this.#needs.tags.lookUp(
        projectId,
        rows.map((row) => row.tagIds),
      );
      for (const [id, tag] of found) known.set(id, tag);
    }
  }

  /** Rows that were loaded for this answer elsewhere: what they take is not there for imports. */
  count(rows: readonly Weighed[]): void {
    this.#listingRoom -= weightOf(rows);
  }

  /** What this reader sees of a row, or null if the reader may not even know of it. */
  view(row: SecretRow & Partial<Weighed>, folder: FolderPlace, wantsValue: boolean): ReadSecret | null {
    const { ability } = this.#rights.get(folder.projectId) ?? {};
    if (!ability) return null;
    const tags = this.#tagsOf(row, folder.projectId);
    const attributes = attributesOf(folder, row.key, tags);
    if (!ability.can("describeSecret", "secrets", attributes)) return null;
    if (row.isLeftOut) throw answerTooLarge();
    // Encrypted metadata goes with the value: opened only where that is wanted too, and then noted as a reading.
    const isReadable = wantsValue && ability.can("readValue", "secrets", attributes);
    const vault = this.#vault(row);
    const metadata = isReadable
      ? decryptMetadata(vault, row)
      : (row.metadata ?? []).map((item) => (item.isEncrypted ? { ...item, value: "" } : item));
    return {
      row,
      folder,
      tags,
      value: isReadable ? seal(decryptValue(vault, row)) : undefined,
      comment: seal(decryptComment(vault, row)),
      metadata: seal(metadata),
    };
  }

  // ---- Loading ---------------------------------------------------------------------------------------------

  async #learnFolders(spots: readonly Spot[]): Promise<ReachedFolder[]> {
    const fresh = spots.filter((spot) => !this.#folders.has(spotKey(spot)));
    if (fresh.length === 0) return [];
    const found = await this.#needs.db.read((q) => foldersReached(q, fresh));
    for (const spot of fresh) this.#folders.set(spotKey(spot), null);
    for (const folder of found) this.#folders.set(spotKey(folder), folder);
    // A place that an import names but that has no folder (any more) is known to be empty.
    for (const folder of found) {
      for (const [, environmentId, path] of folder.imports ?? []) {
        const key = spotKey({ environmentId, path });
        if (!this.#folders.has(key)) this.#folders.set(key, null);
      }
    }
    for (const { projectId } of found) await this.#learnRights(projectId);
    return found;
  }

  async #learnRights(projectId: string): Promise<void> {
    if (this.#rights.has(projectId)) return;
    const { access, projects } = this.#needs;
    const project = await projects.resolve(this.#ground.actor, projectId);
    this.#rights.set(projectId, { project, ability: await access.abilityIn(this.#ground.actor, projectId) });
  }

  async #learnRows(rows: readonly WeighedRow[]): Promise<void> {
    const byFolder = new Map<string, WeighedRow[]>();
    for (const row of rows) {
      const own = byFolder.get(row.folderId);
      if (own) own.push(row);
      else byFolder.set(row.folderId, [row]);
    }
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

  /** The import blocks of a folder, in order, each with what its own imports add. */
  async importBlocks(folder: FolderPlace, wantsValue: boolean): Promise<ImportBlock[]> {
    await this.#learnFolders([folder]);
    const reached = [...this.#folders.values()].filter((known) => known !== null);
    const whole = reached
      .map((known) => known.id)
      .filter((id) => id !== folder.id && !this.#wholeFolders.has(id));
    if (whole.length > 0) {
      const more = { room: this.#listingRoom, wantsValue };
      const rows = await this.#needs.db.read((q) => listInFolders(q, whole, this.#ownerId, more));
      this.count(rows);
      await this.#learnRows(rows);
      for (const id of whole) this.#wholeFolders.add(id);
    }
    return this.#blocksOf(folder, wantsValue);
  }

  #blocksOf(folder: FolderPlace, wantsValue: boolean): ImportBlock[] {
    const visited = new Set([spotKey(folder)]);
    // A key is answered in the first block that carries it, and there only: clients that walk the blocks forwards
    // and clients that walk them backwards then agree.
    const taken = new Set<string>();
    const blocks: ImportBlock[] = [];
    for (const spot of this.imports(folder) as readonly Spot[]) {
      const source = this.#folders.get(spotKey(spot));
      if (!source) continue;
      const secrets: ReadSecret[] = [];
      this.#collect(source, { visited, taken, secrets }, wantsValue);
      blocks.push({ folder: source, secrets });
    }
    return blocks;
  }

  #collect(
    folder: ReachedFolder,
    walk: { visited: Set<string>; taken: Set<string>; secrets: ReadSecret[] },
    wantsValue: boolean,
  ): void {
    if (walk.visited.has(spotKey(folder))) return;
    walk.visited.add(spotKey(folder));
    for (const [key, rows] of this.#rows.get(folder.id) ?? []) {
      if (walk.taken.has(key)) continue;
      const row = rows.find((candidate) => candidate.ownerId !== null) ?? rows[0];
      const seen = row && this.view(row, folder, wantsValue);
      if (!seen) continue;
      walk.taken.add(key);
      walk.secrets.push(seen);
    }
    for (const spot of this.imports(folder) as readonly Spot[]) {
      const source = this.#folders.get(spotKey(spot));
      if (source) this.#collect(source, walk, wantsValue);
    }
  }

  /** One secret by name through the imports of a folder, its own secrets left out of the question. */
  async findImported(folder: FolderPlace, key: string, wantsValue: boolean): Promise<ReadSecret | null> {
    await this.#learnFolders([folder]);
    const ids = [...this.#folders.values()].flatMap((known) =>
      known === null || known.id === folder.id ? [] : [known.id],
    );
    const more = { room: this.#listingRoom, keys: [key] };
    const rows = await this.#needs.db.read((q) => secretsByKeys(q, ids, this.#ownerId, more));
    this.count(rows);
    await this.#learnRows(rows);
    const secrets = this.#blocksOf(folder, wantsValue).flatMap((block) => block.secrets);
    return secrets.find((secret) => secret.row.key === key) ?? null;
  }

  /** The same secrets with the references in their values followed as far as this reader may read. */
  async expand(secrets: readonly ReadSecret[]): Promise<ReadSecret[]> {
    const referring = secrets.filter((secret) => secret.value !== undefined && mayRefer(secret.value.open()));
    if (referring.length === 0) return [...secrets];
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const expander = new Expander(this, this.#allowance);
      const texts = new Map(referring.map((secret) => [secret.row.id, expander.expand(readable(secret))]));
      if (expander.wants.length === 0 || round === MAX_ROUNDS - 1) {
        this.#allowance = expander.left;
        return secrets.map((secret) => {
          const text = texts.get(secret.row.id);
          return text === undefined ? secret : { ...secret, value: seal(text) };
        });
      }
      await this.#satisfy(expander.wants);
    }
    return [...secrets];
  }

  async #satisfy(wants: readonly Want[]): Promise<void> {
    const spots = new Map<string, Spot>();
    for (const { from, reference } of wants) {
      await this.#learnRights(from.projectId);
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
    const more = { room: this.#referredRoom, keys };
    const rows = await this.#needs.db.read((q) => secretsByKeys(q, ids, this.#ownerId, more));
    this.#referredRoom -= weightOf(rows);
    await this.#learnRows(rows);
    for (const id of ids) {
      const known = this.#rows.get(id) ?? new Map<string, WeighedRow[]>();
      this.#rows.set(id, known);
      for (const key of keys) if (!known.has(key)) known.set(key, []);
    }
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
