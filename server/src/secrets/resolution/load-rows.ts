/** Rows that imports and references lead to: on shared read pipelines if few, else in the organisation's turn. */
import type { Db } from "../../platform/db/index.ts";
import {
  listInFolders,
  listManyInFolders,
  manyByKeys,
  secretsByKeys,
  type Reach,
  type WeighedRow,
} from "./store.ts";

/** Something that is read here is large, so all of it is to be read again, in the organisation's turn. */
export class IsLarge extends Error {
  override readonly name = "IsLarge";
}

export interface Loader {
  inFolders(reach: Reach, wantsValue: boolean): Promise<WeighedRow[]>;
  byKeys(reach: Reach, keys: readonly string[]): Promise<WeighedRow[]>;
}

const orLarge = (rows: WeighedRow[] | undefined): WeighedRow[] => {
  if (!rows) throw new IsLarge();
  return rows;
};

const quickly = (db: Db): Loader => ({
  inFolders: async (reach, wantsValue) => orLarge(await db.read((q) => listInFolders(q, reach, wantsValue))),
  byKeys: async (reach, keys) => orLarge(await db.read((q) => secretsByKeys(q, reach, keys))),
});

const inTurnOf = (db: Db, tenant: string): Loader => ({
  inFolders: (reach, wantsValue) => db.read((q) => listManyInFolders(q, reach, wantsValue), { tenant }),
  byKeys: (reach, keys) => db.read((q) => manyByKeys(q, reach, keys), { tenant }),
});

/** Unless it is the turn for a large answer, `IsLarge` is thrown when there is too much to load. */
export const createLoader = (db: Db, orgId: string, isLarge: boolean): Loader =>
  isLarge ? inTurnOf(db, orgId) : quickly(db);
