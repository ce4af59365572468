/**
 * Operation 1, at a million rows. Four statements, each with one plan that stays the same however large a profile is
 * and whatever mix of states it holds; `bench/certificates/list.mjs` measures them.
 *
 * - unfiltered and every status: a range of one index, in the order of the answer. "Expired" is what the sweep has
 *   moved to phase 1, merged with the few live rows whose time has passed since.
 * - a deep page adds up counted blocks instead of walking rows, then starts inside the right block.
 * - a search is never a named statement; model.ts chooses between walking the list and the trigram index.
 */
import { escapeLike, searchSql, sql, type Query } from "../../../platform/db/index.ts";
import type { Status } from "../../model.ts";
import { SAMPLE_SIZE, type ListedCertificate, type SearchPlan, type SearchSample } from "../model.ts";

const COLUMNS = `c.id, c.serial_number AS "serialNumber", c.common_name AS "commonName", c.not_before AS "notBefore", c.not_after AS "notAfter", c.revoked_at AS "revokedAt", c.created_at AS "createdAt"`;
const ORDER = `ORDER BY c.created_at DESC, c.id DESC`;

const all = sql<ListedCertificate>(
  `SELECT ${COLUMNS} FROM certificates c WHERE c.profile_id = $1 ${ORDER} OFFSET $2 LIMIT $3`,
);
const revoked = sql<ListedCertificate>(
  `SELECT ${COLUMNS} FROM certificates c WHERE c.profile_id = $1 AND c.phase = 2 ${ORDER} OFFSET $2 LIMIT $3`,
);
const active = sql<ListedCertificate>(
  `SELECT ${COLUMNS} FROM certificates c WHERE c.profile_id = $1 AND c.phase = 0 AND c.not_after > $4 ${ORDER} OFFSET $2 LIMIT $3`,
);
const expired = sql<ListedCertificate>(`
  WITH late AS MATERIALIZED (SELECT c.created_at, c.id FROM certificates c WHERE c.phase = 0 AND c.not_after <= $4 AND c.profile_id = $1),
  swept AS (SELECT c.created_at, c.id FROM certificates c WHERE c.profile_id = $1 AND c.phase = 1 ${ORDER} LIMIT $2::bigint + $3::bigint),
  page AS (SELECT k.created_at, k.id FROM (SELECT * FROM late UNION ALL SELECT * FROM swept) k ORDER BY k.created_at DESC, k.id DESC OFFSET $2 LIMIT $3)
  SELECT ${COLUMNS} FROM page JOIN certificates c ON c.id = page.id ORDER BY page.created_at DESC, page.id DESC`);

// The count of the tail is a correlated subquery on purpose: otherwise the planner starts parallel workers for it.
const deep = sql<ListedCertificate>(`
  WITH newest AS MATERIALIZED (SELECT until_at, until_id FROM certificate_blocks WHERE profile_id = $1 ORDER BY until_at DESC, until_id DESC LIMIT 1),
  tail AS MATERIALIZED (
    SELECT (SELECT count(*) FROM certificates c WHERE c.profile_id = $1 AND (c.created_at, c.id) > (newest.until_at, newest.until_id)) AS n FROM newest),
  marks AS (
    SELECT b.until_at, b.until_id, tail.n + sum(b.count) OVER (ORDER BY b.until_at DESC, b.until_id DESC) - b.count AS before
    FROM certificate_blocks b, tail WHERE b.profile_id = $1),
  start AS MATERIALIZED (SELECT until_at, until_id, $2::bigint - before AS skip FROM marks WHERE before <= $2::bigint ORDER BY before DESC LIMIT 1)
  SELECT ${COLUMNS} FROM start, LATERAL (
    SELECT k.id FROM certificates k WHERE k.profile_id = $1 AND (k.created_at, k.id) <= (start.until_at, start.until_id)
    ORDER BY k.created_at DESC, k.id DESC OFFSET start.skip LIMIT $3) page JOIN certificates c ON c.id = page.id ${ORDER}`);
const isInTail = sql<{ isInTail: boolean }>(`
  SELECT $2::bigint < (SELECT count(*) FROM certificates c WHERE c.profile_id = $1 AND (c.created_at, c.id) > (b.until_at, b.until_id)) AS "isInTail"
  FROM (SELECT until_at, until_id FROM certificate_blocks WHERE profile_id = $1 ORDER BY until_at DESC, until_id DESC LIMIT 1) b`);

const STATUS_CONDITION: Readonly<Record<Status, string>> = {
  revoked: "AND c.phase = 2",
  active: "AND c.phase = 0 AND c.not_after > $5",
  expired: "AND c.phase < 2 AND c.not_after <= $5",
};
// Wrapped in an expression, a column is compared but not looked up: so the part that model.ts chose is what the index
// is asked for. A common term stays bare: the planner's statistics of it are good, and lead to walking in order.
// `$5 IS NOT NULL` only gives $5 a type.
const FORMS = {
  walk: "c.profile_id = $1 AND c.search_text LIKE $4 AND $6::text IS NULL",
  byProfile: "c.profile_id = $1 AND c.search_text LIKE $6 AND (c.search_text || '') LIKE $4",
  byTerm: "c.profile_id::text = $1 AND c.search_text LIKE $6 AND (c.search_text || '') LIKE $4",
} as const;
const found = (form: string, condition: string) =>
  searchSql<ListedCertificate>(
    `SELECT ${COLUMNS} FROM certificates c WHERE ${form} AND $5::timestamptz IS NOT NULL ${condition} ${ORDER} OFFSET $2 LIMIT $3`,
  );
const searchesOf = (form: string) => ({
  any: found(form, ""),
  revoked: found(form, STATUS_CONDITION.revoked),
  active: found(form, STATUS_CONDITION.active),
  expired: found(form, STATUS_CONDITION.expired),
});
const SEARCHES = {
  walk: searchesOf(FORMS.walk),
  byProfile: searchesOf(FORMS.byProfile),
  byTerm: searchesOf(FORMS.byTerm),
};
const sample = sql<{ text: string }>(
  `SELECT c.search_text AS text FROM certificates c WHERE c.profile_id = $1 ${ORDER} LIMIT ${SAMPLE_SIZE}`,
);
const share = sql<{ isDominant: boolean }>(`
  SELECT 4 * (SELECT coalesce(sum(count), 0) FROM certificate_blocks WHERE profile_id = $1) > (SELECT reltuples FROM pg_class WHERE oid = 'certificates'::regclass) AS "isDominant"`);

export interface ProfilePage {
  readonly offset: number;
  readonly limit: number;
  readonly status?: Status | undefined;
  readonly search?: string | undefined;
}

/** Above this, counting blocks is cheaper than walking. */
const DEEP_OFFSET = 2_000;

async function listAll(
  q: Query,
  profileId: string,
  { offset, limit }: ProfilePage,
): Promise<ListedCertificate[]> {
  if (offset >= DEEP_OFFSET) {
    const rows = await q.rows(deep, [profileId, offset, limit]);
    if (rows.length > 0) return rows;
    // Nothing: past the end, or among rows that are not folded into blocks yet.
    if ((await q.first(isInTail, [profileId, offset]))?.isInTail === false) return [];
  }
  return q.rows(all, [profileId, offset, limit]);
}

export async function sampleProfile(q: Query, profileId: string): Promise<SearchSample> {
  const [texts, part] = await Promise.all([q.rows(sample, [profileId]), q.first(share, [profileId])]);
  return { texts: texts.map(({ text }) => text), isDominant: part?.isDominant === true };
}

export async function searchInProfile(
  q: Query,
  profileId: string,
  page: ProfilePage & { readonly search: string },
  { now, plan }: { readonly now: Date; readonly plan: SearchPlan },
): Promise<ListedCertificate[]> {
  // Names are kept one per line, so a term with a line break is in none of them.
  if (/[\r\n]/.test(page.search)) return [];
  const pattern = (text: string): string => `%${escapeLike(text.toLowerCase())}%`;
  const form = plan.kind === "walk" ? "walk" : plan.isByProfile ? "byProfile" : "byTerm";
  const part = plan.kind === "walk" ? null : pattern(plan.part);
  return q.rows(SEARCHES[form][page.status ?? "any"], [
    profileId,
    page.offset,
    page.limit,
    pattern(page.search),
    now,
    part,
  ]);
}

export async function listOfProfile(
  q: Query,
  profileId: string,
  page: ProfilePage,
  now: Date,
): Promise<ListedCertificate[]> {
  const { offset, limit, status } = page;
  if (status === undefined) return listAll(q, profileId, page);
  if (status === "revoked") return q.rows(revoked, [profileId, offset, limit]);
  return q.rows(status === "active" ? active : expired, [profileId, offset, limit, now]);
}
