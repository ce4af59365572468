/**
 * Which certificates a caller sees, by whichever endpoint. Search, export and every read of one certificate require
 * `read` on `certificates`. Lists that have a right of their own (a profile's, an alert's) are opened by that right;
 * what they then show is what the caller's rules about certificates let through: conditions and denials hold there as
 * they do everywhere. Only a caller without any rule that allows reading certificates sees such a list by its own right.
 */
import type { Db, TurnOf } from "../platform/db/index.ts";
import { compileRules, permittedOf, type Ability } from "../permissions/index.ts";
import { attributesOf } from "./model.ts";
import { findJudged } from "./store/certificates.ts";

const ACTION = "read";
const SUBJECT = "certificates";

const widened = new WeakMap<Ability, Ability>();

/** To be asked about what a list with a right of its own shows. */
export function sightOf(ability: Ability): Ability {
  const rules = ability.rulesFor(ACTION, SUBJECT);
  if (rules.some((rule) => rule.inverted !== true)) return ability;
  const known = widened.get(ability);
  if (known) return known;
  const sight = compileRules([...rules, { subject: SUBJECT, action: ACTION }]);
  widened.set(ability, sight);
  return sight;
}

/** The caller may see every certificate, without conditions: then the database can do the paging. */
export const seesAll = (sight: Ability): boolean => sight.can(ACTION, SUBJECT, {});

interface Looking {
  readonly db: Db;
  readonly turn: TurnOf;
  readonly now: Date;
}

/** Those that the caller may see, in their order. */
export async function seenOf<Row extends { readonly id: string }>(
  { db, turn, now }: Looking,
  sight: Ability,
  rows: readonly Row[],
): Promise<Row[]> {
  if (seesAll(sight) || rows.length === 0) return [...rows];
  const ids = rows.map(({ id }) => id);
  const judged = new Map((await db.read((q) => findJudged(q, ids), turn)).map((row) => [row.id, row]));
  return permittedOf(rows, ({ id }) => {
    const row = judged.get(id);
    return row !== undefined && sight.can(ACTION, SUBJECT, attributesOf(row, now));
  });
}

const CHUNK = 100;
/** More than this are not checked one by one; a reader with conditions sees those that come first. */
const MOST_LOOKED_THROUGH = 10_000;

/** A page of what the caller may see, of a list that is read bit by bit. */
export async function seenPage<Row extends { readonly id: string }>(
  read: (offset: number, limit: number) => Promise<readonly Row[]>,
  keep: (rows: readonly Row[]) => Promise<readonly Row[]>,
  { offset, limit }: { readonly offset: number; readonly limit: number },
): Promise<Row[]> {
  const seen: Row[] = [];
  for (let looked = 0; looked < MOST_LOOKED_THROUGH && seen.length < offset + limit; looked += CHUNK) {
    const rows = await read(looked, CHUNK);
    seen.push(...(await keep(rows)));
    if (rows.length < CHUNK) break;
  }
  return seen.slice(offset, offset + limit);
}
