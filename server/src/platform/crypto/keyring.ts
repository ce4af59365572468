/**
 * Envelope encryption. The root key never touches data: it wraps instance keys and one key per organisation;
 * an organisation's key wraps its projects' data keys; a data key encrypts rows. So a root key can change without
 * re-encrypting data, and a project can be crypto-shredded by deleting one key.
 *
 * Unwrapped keys stay in memory for as long as the process lives.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Db, Query, Tx } from "../db/index.ts";
import { sql } from "../db/index.ts";
import { newId } from "../ids.ts";
import { decrypt, deriveKey, encrypt } from "./aead.ts";

export class RootKeyError extends Error {
  override readonly name = "RootKeyError";
}

/** What a ciphertext belongs to; all of it is bound into the ciphertext. */
export interface EncryptionContext {
  readonly table: string;
  readonly row: string;
  readonly column: string;
  readonly version?: number;
}

export interface DataKey {
  readonly keyId: string;
  encrypt(plain: Buffer | string, place: EncryptionContext): Buffer;
  decrypt(box: Buffer, place: EncryptionContext): Buffer;
}

interface KeyRow {
  readonly id: string;
  readonly parentId: string | null;
  readonly orgId: string | null;
  readonly projectId: string | null;
  readonly purpose: string;
  readonly wrapped: Buffer;
}

const COLUMNS = `id, parent_id AS "parentId", org_id AS "orgId", project_id AS "projectId", purpose, wrapped`;
const insertKey = sql(
  `INSERT INTO data_keys (id, parent_id, org_id, project_id, purpose, wrapped) VALUES ($1, $2, $3, $4, $5, $6)`,
);
const activeOrgKey = sql<KeyRow>(
  `SELECT ${COLUMNS} FROM data_keys WHERE org_id = $1 AND project_id IS NULL AND retired_at IS NULL`,
);
const activeProjectKey = sql<KeyRow>(
  `SELECT ${COLUMNS} FROM data_keys WHERE project_id = $1 AND retired_at IS NULL`,
);
const keyById = sql<KeyRow>(`SELECT ${COLUMNS} FROM data_keys WHERE id = $1`);
const instanceKeys = sql<KeyRow>(`SELECT ${COLUMNS} FROM data_keys WHERE org_id IS NULL`);
const rootKeyRow = sql<{ checkValue: Buffer }>(`SELECT check_value AS "checkValue" FROM root_key`);
const retireProjectKey = sql<{ id: string }>(
  `UPDATE data_keys SET retired_at = now() WHERE project_id = $1 AND retired_at IS NULL RETURNING id`,
);
const rootWrapped = sql<KeyRow>(`SELECT ${COLUMNS} FROM data_keys WHERE parent_id IS NULL FOR UPDATE`);
const rootWrappedNow = sql<KeyRow>(`SELECT ${COLUMNS} FROM data_keys WHERE parent_id IS NULL`);
const rewrap = sql(`UPDATE data_keys SET wrapped = $2 WHERE id = $1`);
const replaceRootKey = sql(`UPDATE root_key SET check_value = $1`);
const insertRootKey = sql(`INSERT INTO root_key (check_value) VALUES ($1) ON CONFLICT DO NOTHING`);
const insertInstanceKey = sql(
  `INSERT INTO data_keys (id, purpose, wrapped) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
);

const INSTANCE_PURPOSES = ["token-signing", "credential-lookup", "licence-signing"] as const;
type InstancePurpose = (typeof INSTANCE_PURPOSES)[number];

/** Proves that a root key is the right one without revealing anything about it. */
const checkValueOf = (rootKey: Buffer): Buffer =>
  createHmac("sha256", deriveKey(rootKey, "root-check")).update("keyward").digest();

const wrongKey = () =>
  new RootKeyError(
    "The root key is not the one this database was made with. Nothing was changed; set KEYWARD_ROOT_KEY (or restore root.key in the data folder) to the right one.",
  );

/** Before anything else touches the database: is this the right root key for what is there? */
export async function checkRootKey(
  rootKey: Buffer,
  lookUp: (text: string) => Promise<{ rows: unknown[] }>,
  previous?: Buffer,
): Promise<void> {
  const table = await lookUp("SELECT to_regclass('root_key') AS name");
  if ((table.rows[0] as { name: string | null } | undefined)?.name === null) return;
  const { rows } = await lookUp("SELECT check_value FROM root_key");
  const known = (rows[0] as { check_value: Buffer } | undefined)?.check_value;
  if (known && !isKeyOf(known, rootKey) && !(previous && isKeyOf(known, previous))) throw wrongKey();
}

const isKeyOf = (checkValue: Buffer, rootKey: Buffer): boolean =>
  timingSafeEqual(checkValue, checkValueOf(rootKey));

type Wrapped = Pick<KeyRow, "id" | "orgId" | "projectId" | "purpose">;

/** The purpose of a key is bound in: somebody who can write rows cannot use the licence key as the token key. */
const wrapContext = ({ id, orgId, projectId, purpose }: Wrapped): string[] => [
  "data_keys",
  id,
  orgId ?? "",
  projectId ?? "",
  ...(purpose === DATA ? [] : [purpose]),
];
const DATA = "data";

export interface Keyring {
  /**
   * How many keys the root key cannot unwrap: made by a node that still ran with the previous root key when the others
   * had the new one already. What is encrypted with them can be read again after a start with the previous one.
   */
  readonly unwrappableKeys: number;
  instanceKey(purpose: InstancePurpose): Buffer;
  createOrgKey(tx: Tx, orgId: string): Promise<void>;
  createProjectKey(tx: Tx, orgId: string, projectId: string): Promise<void>;
  /** A new key for new rows; the old one stays for the rows that name it. Answers the old one's id. */
  rotateProjectKey(tx: Tx, orgId: string, projectId: string): Promise<string>;
  /** A rotation happened, here or on another node: look up the active key again. */
  forgetActive(projectId: string): void;
  /** The database may be another one, without the latest rotations. */
  forgetAllActive(): void;
  /** The key that new rows of this organisation or project are encrypted with. */
  dataKeyOf(owner: { readonly orgId: string } | { readonly projectId: string }, q?: Query): Promise<DataKey>;
  /** The key that an existing row names. */
  dataKeyById(keyId: string, q?: Query): Promise<DataKey>;
}

interface Opened {
  readonly plain: Buffer;
  /** Wrapped with the previous root key. */
  readonly isOld: boolean;
  /** Wrapped without its purpose. */
  readonly isUnbound: boolean;
}

class EnvelopeKeyring implements Keyring {
  readonly #db: Db;
  readonly #kek: Buffer;
  /** While the root key is being changed: a node that still has the previous one may wrap keys with it. */
  readonly #previousKek: Buffer | undefined;
  readonly #instance = new Map<string, Buffer>();
  unwrappableKeys = 0;
  // Keys are immutable, so caching them needs no invalidation; which one is active is looked up
  // only when it is not known, and a rotation drops it.
  readonly #plain = new LRUCache<string, Buffer>({ max: 20_000 });
  readonly #active = new LRUCache<string, string>({ max: 20_000, ttl: 60_000 });

  constructor(db: Db, rootKey: Buffer, previous: Buffer | undefined) {
    this.#db = db;
    this.#kek = deriveKey(rootKey, "wrap");
    this.#previousKek = previous && deriveKey(previous, "wrap");
  }

  async open(rootKey: Buffer, previous: Buffer | undefined): Promise<void> {
    await this.#db.write(
      async (tx) => {
        await tx.rows(insertRootKey, [checkValueOf(rootKey)]);
        const stored = await tx.first(rootKeyRow);
        const isCurrent = stored && isKeyOf(stored.checkValue, rootKey);
        if (!isCurrent && !(stored && previous && isKeyOf(stored.checkValue, previous))) throw wrongKey();
        if (previous) await this.#rewrapAll(tx, rootKey);
        else
          this.unwrappableKeys = (await tx.rows(rootWrappedNow)).filter((row) => !this.#isOurs(row)).length;
        await this.#bindPurposes(tx);
        for (const purpose of INSTANCE_PURPOSES) {
          const id = newId();
          const context = wrapContext({ id, orgId: null, projectId: null, purpose });
          await tx.rows(insertInstanceKey, [id, purpose, encrypt(this.#kek, randomBytes(32), context)]);
        }
        for (const row of await tx.rows(instanceKeys)) {
          this.#instance.set(row.purpose, this.#openRootWrapped(row).plain);
        }
      },
      { audited: false },
    );
  }

  /**
   * Instance keys of an older version were wrapped without their purpose. They are rewrapped, all of them at once: one
   * such key among others was put there by somebody else.
   */
  async #bindPurposes(tx: Tx): Promise<void> {
    const rows = (await tx.rows(instanceKeys)).map((row) => ({ row, ...this.#openRootWrapped(row) }));
    const unbound = rows.filter(({ isUnbound }) => isUnbound);
    if (unbound.length === 0) return;
    if (unbound.length < rows.length)
      throw new RootKeyError(
        "Some of the instance's keys in the table data_keys are not those that were put there. Restore the table from a backup.",
      );
    for (const { row, plain } of unbound)
      await tx.rows(rewrap, [row.id, encrypt(this.#kek, plain, wrapContext(row))]);
  }

  /** All or nothing: killed in the middle, the database still belongs to the previous root key. */
  async #rewrapAll(tx: Tx, rootKey: Buffer): Promise<void> {
    for (const row of await tx.rows(rootWrapped)) {
      const { plain, isOld } = this.#openRootWrapped(row);
      if (isOld) await tx.rows(rewrap, [row.id, encrypt(this.#kek, plain, wrapContext(row))]);
    }
    await tx.rows(replaceRootKey, [checkValueOf(rootKey)]);
  }

  #isOurs(row: KeyRow): boolean {
    try {
      return this.#openRootWrapped(row).plain.length > 0;
    } catch {
      return false;
    }
  }

  #openRootWrapped(row: KeyRow): Opened {
    const keks = this.#previousKek ? [this.#kek, this.#previousKek] : [this.#kek];
    let failure: unknown;
    for (const [index, kek] of keks.entries())
      for (const isUnbound of row.purpose === DATA ? [false] : [false, true])
        try {
          const context = wrapContext(isUnbound ? { ...row, purpose: DATA } : row);
          return { plain: decrypt(kek, row.wrapped, context), isOld: index > 0, isUnbound };
        } catch (error) {
          failure = error;
        }
    throw failure;
  }

  instanceKey(purpose: InstancePurpose): Buffer {
    const key = this.#instance.get(purpose);
    if (!key) throw new Error(`the instance key ${purpose} is missing`);
    return key;
  }

  async createOrgKey(tx: Tx, orgId: string): Promise<void> {
    const row = { id: newId(), orgId, projectId: null, purpose: DATA };
    await tx.rows(insertKey, [
      row.id,
      null,
      orgId,
      null,
      DATA,
      encrypt(this.#kek, randomBytes(32), wrapContext(row)),
    ]);
  }

  async createProjectKey(tx: Tx, orgId: string, projectId: string): Promise<void> {
    const parent = await tx.first(activeOrgKey, [orgId]);
    if (!parent) throw new Error("the organisation has no key");
    const row = { id: newId(), orgId, projectId, purpose: DATA };
    const wrapped = encrypt(await this.#unwrap(parent, tx), randomBytes(32), wrapContext(row));
    await tx.rows(insertKey, [row.id, parent.id, orgId, projectId, DATA, wrapped]);
  }

  async rotateProjectKey(tx: Tx, orgId: string, projectId: string): Promise<string> {
    const old = await tx.first(retireProjectKey, [projectId]);
    if (!old) throw new Error("there is no data key for this owner");
    await this.createProjectKey(tx, orgId, projectId);
    return old.id;
  }

  forgetActive(projectId: string): void {
    this.#active.delete(projectId);
  }

  forgetAllActive(): void {
    this.#active.clear();
  }

  async dataKeyOf(
    owner: { readonly orgId: string } | { readonly projectId: string },
    q?: Query,
  ): Promise<DataKey> {
    const ownerId = "projectId" in owner ? owner.projectId : owner.orgId;
    const known = this.#active.get(ownerId);
    if (known) return this.dataKeyById(known, q);
    const statement = "projectId" in owner ? activeProjectKey : activeOrgKey;
    const row = await this.#look(q, (query) => query.first(statement, [ownerId]));
    if (!row) throw new Error("there is no data key for this owner");
    this.#active.set(ownerId, row.id);
    return this.#dataKey(row.id, await this.#unwrap(row, q));
  }

  async dataKeyById(keyId: string, q?: Query): Promise<DataKey> {
    const known = this.#plain.get(keyId);
    if (known) return this.#dataKey(keyId, known);
    const row = await this.#look(q, (query) => query.first(keyById, [keyId]));
    if (!row) throw new Error("a row names a data key that is gone");
    return this.#dataKey(keyId, await this.#unwrap(row, q));
  }

  #look<T>(q: Query | undefined, look: (q: Query) => Promise<T>): Promise<T> {
    return q ? look(q) : this.#db.read(look);
  }

  async #unwrap(row: KeyRow, q?: Query): Promise<Buffer> {
    const known = this.#plain.get(row.id);
    if (known) return known;
    const plain =
      row.parentId === null
        ? this.#openRootWrapped(row).plain
        : decrypt(await this.#keyOf(row.parentId, q), row.wrapped, wrapContext(row));
    this.#plain.set(row.id, plain);
    return plain;
  }

  async #keyOf(id: string, q?: Query): Promise<Buffer> {
    const row = await this.#look(q, (query) => query.first(keyById, [id]));
    if (!row) throw new Error("a data key names a wrapping key that is gone");
    return this.#unwrap(row, q);
  }

  #dataKey(keyId: string, key: Buffer): DataKey {
    const context = (place: EncryptionContext) => [
      keyId,
      place.table,
      place.row,
      place.column,
      String(place.version ?? 0),
    ];
    return {
      keyId,
      encrypt: (plain, place) => encrypt(key, plain, context(place)),
      decrypt: (box, place) => decrypt(key, box, context(place)),
    };
  }
}

/** With `previous`, every key that the previous root key wraps is wrapped with the new one before anything else. */
export async function openKeyring(db: Db, rootKey: Buffer, previous?: Buffer): Promise<Keyring> {
  const keyring = new EnvelopeKeyring(db, rootKey, previous);
  await keyring.open(rootKey, previous);
  return keyring;
}
