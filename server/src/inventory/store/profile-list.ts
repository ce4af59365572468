/**
 * Operation 1, at a million rows. Each statement has one plan that stays the same however large a profile is and
 * whatever mix of states it holds; `bench/certificates/list.mjs` measures them.
 *
 * - unfiltered and every status: a range of one index, in the order of the answer. "Expired" is what the maintenance job has
 *   moved to phase 1, merged with the few live rows whose time has passed since.
 * - a deep page adds up counted chapters and blocks instead of walking rows, then starts inside the right block.
 *
 * The number of rows is written into the statement. As a parameter it would hide from PostgreSQL that a page is
 * small, and the statement would be planned anew each time, which costs as much as running it.
 */
import { sql, type SlowQuery, type Statement } from "../../platform/db/index.ts";
import type { ListedCertificate } from "../model.ts";
import type { CertificateStatusName } from "../../certificates/index.ts";

export const COLUMNS = `c.id, c.serial_number AS "serialNumber", c.common_name AS "commonName", c.not_before AS "notBefore", c.not_after AS "notAfter", c.revoked_at AS "revokedAt", c.created_at AS "createdAt"`;
export const ORDER = `ORDER BY c.created_at DESC, c.id DESC`;
/** How many blocks make a chapter. */
export const CHAPTER_BLOCKS = 32;

export interface ProfilePage {
  readonly offset: number;
  readonly limit: number;
  readonly status?: CertificateStatusName | undefined;
  readonly search?: string | undefined;
}

/** A few sizes, so that a caller with a taste for odd limits does not have a hundred statements prepared. */
const SIZES = [10, 20, 50, 100] as const;

type ProfileListing = (limit: number) => Statement<ListedCertificate>;
export function bySize(
  text: (size: number) => string,
  make: (text: string) => Statement<ListedCertificate> = sql,
): ProfileListing {
  const statements = SIZES.map((size) => ({ size, statement: make(text(size)) }));
  return (limit) => {
    const fitting = statements.find(({ size }) => size >= limit);
    if (!fitting) throw new Error(`a page of ${limit} is larger than any`);
    return fitting.statement;
  };
}

type Ranged = Exclude<CertificateStatusName, "expired"> | "any";
const RANGE: Readonly<Record<Ranged, string>> = {
  any: "c.profile_id = $1",
  revoked: "c.profile_id = $1 AND c.phase = 2",
  active: "c.profile_id = $1 AND c.phase = 0 AND c.not_after > $2",
};

const first = (kind: Ranged) =>
  bySize((size) => `SELECT ${COLUMNS} FROM certificates c WHERE ${RANGE[kind]} ${ORDER} LIMIT ${size}`);
// The keys come from the index alone; only the rows of the page are fetched.
const further = (kind: Ranged, offset: string) =>
  bySize(
    (size) => `
    WITH page AS MATERIALIZED (SELECT c.created_at, c.id FROM certificates c WHERE ${RANGE[kind]} ${ORDER} OFFSET ${offset}::bigint LIMIT ${size})
    SELECT ${COLUMNS} FROM page JOIN certificates c ON c.id = page.id ORDER BY page.created_at DESC, page.id DESC`,
  );
const FIRST = { any: first("any"), revoked: first("revoked"), active: first("active") };
const FURTHER = {
  any: further("any", "$2"),
  revoked: further("revoked", "$2"),
  active: further("active", "$3"),
};

const expired = (offset: string) =>
  bySize(
    (size) => `
    WITH late AS MATERIALIZED (SELECT c.created_at, c.id FROM certificates c WHERE c.phase = 0 AND c.not_after <= $2 AND c.profile_id = $1),
    swept AS (SELECT c.created_at, c.id FROM certificates c WHERE c.profile_id = $1 AND c.phase = 1 ${ORDER} LIMIT ${offset} + ${size}),
    page AS (
      SELECT k.created_at, k.id FROM (SELECT * FROM late UNION ALL SELECT * FROM swept) k ORDER BY k.created_at DESC, k.id DESC OFFSET ${offset} LIMIT ${size})
    SELECT ${COLUMNS} FROM page JOIN certificates c ON c.id = page.id ORDER BY page.created_at DESC, page.id DESC`,
  );
const FIRST_EXPIRED = expired("0");
const FURTHER_EXPIRED = expired("$3::bigint");

/**
 * Counts from the newest: the rows after the last block (the tail), then chapters and the blocks that are in none yet
 * (parts), then the blocks of the part that was met, then the rows of one block, by their keys alone.
 * The count of the tail is a correlated subquery on purpose: otherwise the planner starts parallel workers for it.
 */
const deep = bySize(
  (size) => `
  WITH newest AS MATERIALIZED (SELECT until_at, until_id FROM certificate_blocks WHERE profile_id = $1 ORDER BY until_at DESC, until_id DESC LIMIT 1),
  tail AS MATERIALIZED (
    SELECT (SELECT count(*) FROM certificates c WHERE c.profile_id = $1 AND (c.created_at, c.id) > (newest.until_at, newest.until_id)) AS n FROM newest),
  bound AS MATERIALIZED (
    SELECT until_at, until_id FROM (
      (SELECT until_at, until_id FROM certificate_chapters WHERE profile_id = $1 ORDER BY until_at DESC, until_id DESC LIMIT 1)
      UNION ALL SELECT '-infinity'::timestamptz, '00000000-0000-0000-0000-000000000000'::uuid) x ORDER BY until_at DESC LIMIT 1),
  parts AS (
    SELECT until_at, until_id, count, ${CHAPTER_BLOCKS} AS blocks FROM certificate_chapters WHERE profile_id = $1
    UNION ALL
    SELECT b.until_at, b.until_id, b.count, 1 FROM bound, certificate_blocks b
    WHERE b.profile_id = $1 AND (b.until_at, b.until_id) > (bound.until_at, bound.until_id)),
  part AS MATERIALIZED (
    SELECT x.until_at, x.until_id, x.blocks, $2::bigint - x.before AS skip FROM (
      SELECT p.until_at, p.until_id, p.blocks,
        tail.n + sum(p.count) OVER (ORDER BY p.until_at DESC, p.until_id DESC ROWS UNBOUNDED PRECEDING) - p.count AS before FROM parts p, tail) x
    WHERE x.before <= $2::bigint ORDER BY x.before DESC LIMIT 1),
  block AS MATERIALIZED (
    SELECT y.until_at, y.until_id, y.skip FROM part, LATERAL (
      SELECT x.until_at, x.until_id, part.skip - x.before AS skip FROM (
        SELECT b.until_at, b.until_id, sum(b.count) OVER (ORDER BY b.until_at DESC, b.until_id DESC ROWS UNBOUNDED PRECEDING) - b.count AS before FROM (
          SELECT k.until_at, k.until_id, k.count FROM certificate_blocks k
          WHERE k.profile_id = $1 AND (k.until_at, k.until_id) <= (part.until_at, part.until_id)
          ORDER BY k.until_at DESC, k.until_id DESC LIMIT part.blocks) b) x
      WHERE x.before <= part.skip ORDER BY x.before DESC LIMIT 1) y),
  start AS MATERIALIZED (
    SELECT s.created_at, s.id FROM block, LATERAL (
      SELECT k.created_at, k.id FROM certificates k WHERE k.profile_id = $1 AND (k.created_at, k.id) <= (block.until_at, block.until_id)
      ORDER BY k.created_at DESC, k.id DESC OFFSET block.skip LIMIT 1) s)
  SELECT page.* FROM start, LATERAL (
    SELECT ${COLUMNS} FROM certificates c WHERE c.profile_id = $1 AND (c.created_at, c.id) <= (start.created_at, start.id) ${ORDER} LIMIT ${size}) page
  ORDER BY page."createdAt" DESC, page.id DESC`,
);
const isInTail = sql<{ isInTail: boolean }>(`
  SELECT $2::bigint < (SELECT count(*) FROM certificates c WHERE c.profile_id = $1 AND (c.created_at, c.id) > (b.until_at, b.until_id)) AS "isInTail"
  FROM (SELECT until_at, until_id FROM certificate_blocks WHERE profile_id = $1 ORDER BY until_at DESC, until_id DESC LIMIT 1) b`);

/** Above this, counting blocks is cheaper than walking. */
const DEEP_OFFSET = 2_000;

async function readPage(
  q: SlowQuery,
  profileId: string,
  { offset, limit, status }: ProfilePage,
  now: Date,
): Promise<ListedCertificate[]> {
  if (status === "expired")
    return offset === 0
      ? q.rows(FIRST_EXPIRED(limit), [profileId, now])
      : q.rows(FURTHER_EXPIRED(limit), [profileId, now, offset]);
  const kind = status ?? "any";
  const range = kind === "active" ? [profileId, now] : [profileId];
  if (offset === 0) return q.rows(FIRST[kind](limit), range);
  if (kind === "any" && offset >= DEEP_OFFSET) {
    const look = () => q.rows(deep(limit), [profileId, offset]);
    const rows = await look();
    if (rows.length > 0) return rows;
    // Nothing: past the end, or among rows that are not folded into blocks yet; or were not, at the first look.
    if ((await q.first(isInTail, [profileId, offset]))?.isInTail === false) return look();
  }
  return q.rows(FURTHER[kind](limit), [...range, offset]);
}

export async function listOfProfile(
  q: SlowQuery,
  profileId: string,
  page: ProfilePage,
  now: Date,
): Promise<ListedCertificate[]> {
  return (await readPage(q, profileId, page, now)).slice(0, page.limit);
}
