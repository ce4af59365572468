/**
 * A search in a profile. search-planner.model.ts chooses between walking the list and the trigram index, and which parts of
 * the term the index is asked for; whichever it is, the whole term is compared afterwards.
 */
import { escapeLike, slowSql, sql, type Query, type SlowQuery } from "../../platform/db/index.ts";
import { bitsOf } from "../bigrams.model.ts";
import type { ListedCertificate } from "../model.ts";
import {
  LETTERS_SAMPLED,
  NEWEST_SAMPLED,
  PLACES_SAMPLED,
  SAMPLED_AT_A_PLACE,
  type SearchPlan,
  type SeenNames,
} from "../search-planner.model.ts";
import { bySize, COLUMNS, ORDER, type ProfilePage } from "./profile-list.ts";
import type { CertificateStatusName } from "../../certificates/index.ts";

// $1 the profile, $2 the term, $3 now, $4 the offset, and $5 the parts to look up.
const STATUS_CONDITION: Readonly<Record<CertificateStatusName | "any", string>> = {
  any: "AND $3::timestamptz IS NOT NULL",
  revoked: "AND c.phase = 2 AND $3::timestamptz IS NOT NULL",
  active: "AND c.phase = 0 AND c.not_after > $3",
  expired: "AND c.phase < 2 AND c.not_after <= $3",
};
const ofEach = <T>(make: (condition: string) => T): Readonly<Record<CertificateStatusName | "any", T>> => ({
  any: make(STATUS_CONDITION.any),
  revoked: make(STATUS_CONDITION.revoked),
  active: make(STATUS_CONDITION.active),
  expired: make(STATUS_CONDITION.expired),
});
// strpos and not LIKE: no index knows it and the planner takes it for frequent, so a walk stays a walk in one process.
const walk = (condition: string, offset: string) =>
  bySize(
    (size) =>
      `SELECT ${COLUMNS} FROM certificates c WHERE c.profile_id = $1 AND strpos(c.search_text, $2) > 0 ${condition} ${ORDER} ${offset} LIMIT ${size}`,
    slowSql<ListedCertificate>,
  );
const WALKS = {
  first: ofEach((condition) => walk(condition, "")),
  further: ofEach((condition) => walk(condition, "OFFSET $4::bigint")),
};
// Through the index. The parts come by a subquery, so that PostgreSQL cannot take a look at them and plan for each term
// anew: whatever they are, there is one good way. Wrapped in an expression, the profile is compared and not looked up.
const look = (profile: string) =>
  ofEach((condition) =>
    slowSql<ListedCertificate>(`
      WITH hits AS MATERIALIZED (
        SELECT c.id, c.serial_number, c.common_name, c.not_before, c.not_after, c.revoked_at, c.created_at FROM certificates c
        WHERE ${profile} AND c.search_text LIKE (SELECT $5::text) AND strpos(c.search_text, $2) > 0 ${condition})
      SELECT ${COLUMNS} FROM hits c ${ORDER} OFFSET $4 LIMIT $6`),
  );
const LOOKS = { byProfile: look("c.profile_id = $1"), byTerm: look("c.profile_id::text = $1") };

const walkSpan = ofEach((condition) =>
  slowSql<ListedCertificate>(`
    SELECT ${COLUMNS} FROM certificates c WHERE c.profile_id = $1 AND strpos(c.search_text, $2) > 0 ${condition}
      AND (c.created_at, c.id) > ($4::timestamptz, $5::uuid) AND (c.created_at, c.id) <= ($6::timestamptz, $7::uuid) ${ORDER} LIMIT $8`),
);
// The blocks that may hold the letters, newest first, each with the mark of the next older one; before them the mark of
// the newest block, whether it does or not. Two bits tell nearly as much as all.
const blocksWith = slowSql<Block>(`
  SELECT b.until_at::text AS "untilAt", b.until_id AS "untilId", b.after_at::text AS "afterAt", b.after_id AS "afterId", b.is_hit AS "isHit" FROM (
    (SELECT until_at, until_id, NULL::timestamptz AS after_at, NULL::uuid AS after_id, false AS is_hit
      FROM certificate_blocks WHERE profile_id = $1 ORDER BY until_at DESC, until_id DESC LIMIT 1)
    UNION ALL
    SELECT h.until_at, h.until_id, p.until_at, p.until_id, true FROM certificate_blocks h LEFT JOIN LATERAL (
      SELECT k.until_at, k.until_id FROM certificate_blocks k WHERE k.profile_id = $1 AND (k.until_at, k.until_id) < (h.until_at, h.until_id)
      ORDER BY k.until_at DESC, k.until_id DESC LIMIT 1) p ON true
    WHERE h.profile_id = $1 AND (h.letters IS NULL OR (get_bit(h.letters, $2) = 1 AND get_bit(h.letters, $3) = 1))) b
  ORDER BY b.until_at DESC, b.until_id DESC, b.is_hit`);

interface Block {
  readonly untilAt: string;
  readonly untilId: string;
  readonly afterAt: string | null;
  readonly afterId: string | null;
  readonly isHit: boolean;
}
interface Span {
  readonly after: readonly [at: string, id: string];
  readonly until: readonly [at: string, id: string];
}
const FIRST_OF_ALL = ["-infinity", "00000000-0000-0000-0000-000000000000"] as const;
const LAST_OF_ALL = ["infinity", "ffffffff-ffff-ffff-ffff-ffffffffffff"] as const;

/** What has to be walked: the rows that are in no block yet, then runs of blocks that may hold the letters. */
function spansOf(blocks: readonly Block[]): Span[] {
  const [newest] = blocks;
  if (!newest) return [{ after: FIRST_OF_ALL, until: LAST_OF_ALL }];
  const spans: Span[] = [{ after: [newest.untilAt, newest.untilId], until: LAST_OF_ALL }];
  for (const block of blocks.filter(({ isHit }) => isHit)) {
    const after =
      block.afterAt === null || block.afterId === null
        ? FIRST_OF_ALL
        : ([block.afterAt, block.afterId] as const);
    const last = spans.at(-1);
    if (last?.after[0] === block.untilAt && last.after[1] === block.untilId)
      spans.splice(-1, 1, { ...last, after });
    else spans.push({ after, until: [block.untilAt, block.untilId] });
  }
  return spans;
}

const newest = sql<{ text: string }>(
  `SELECT left(c.search_text, ${LETTERS_SAMPLED}) AS text FROM certificates c WHERE c.profile_id = $1 ${ORDER} LIMIT ${NEWEST_SAMPLED}`,
);
// A few names at places spread over the counted part of the list, newest place first. Not at the blocks' own marks: if
// names are numbered, those are alike.
const spread = sql<{ texts: string[] }>(`
  WITH marks AS MATERIALIZED (
    SELECT until_at, lead(until_at, 1, until_at) OVER older AS before_at, row_number() OVER older AS n, count(*) OVER () AS total
    FROM certificate_blocks WHERE profile_id = $1 WINDOW older AS (ORDER BY until_at DESC, until_id DESC)),
  places AS MATERIALIZED (
    SELECT n, until_at - (until_at - before_at) * random() AS at FROM marks
    WHERE n % greatest(1, total / ${PLACES_SAMPLED}) = 0 ORDER BY n LIMIT ${PLACES_SAMPLED})
  SELECT ARRAY(SELECT left(c.search_text, ${LETTERS_SAMPLED}) FROM certificates c WHERE c.profile_id = $1 AND c.created_at <= places.at ${ORDER} LIMIT ${SAMPLED_AT_A_PLACE}) AS texts
  FROM places ORDER BY n`);
const size = sql<{ counted: number; everywhere: number }>(`
  SELECT (SELECT coalesce(sum(count), 0) FROM certificate_blocks WHERE profile_id = $1) AS counted,
    (SELECT reltuples::float8 FROM pg_class WHERE oid = 'certificates'::regclass) AS everywhere`);

/** What a sample is made of; made once the connection is given back. */
export async function namesOfProfile(q: Query, profileId: string): Promise<SeenNames> {
  const [texts, places, sizes] = await Promise.all([
    q.rows(newest, [profileId]),
    q.rows(spread, [profileId]),
    q.first(size, [profileId]),
  ]);
  return {
    newest: texts.map(({ text }) => text),
    places: places.map((place) => place.texts),
    counted: sizes?.counted ?? 0,
    everywhere: sizes?.everywhere ?? 0,
  };
}

const likeOf = (parts: readonly string[]): string => `%${parts.map(escapeLike).join("%")}%`;

export async function searchInProfile(
  q: SlowQuery,
  profileId: string,
  page: ProfilePage & { readonly search: string },
  { now, plan }: { readonly now: Date; readonly plan: SearchPlan },
): Promise<ListedCertificate[]> {
  // Names are kept one per line, so a term with a line break is in none of them.
  if (/[\r\n]/.test(page.search)) return [];
  const { offset, limit, status = "any" } = page;
  const term = page.search.toLowerCase();
  const values = [profileId, term, now];
  if (plan.kind === "index") {
    const { [status]: statement } = plan.isByProfile ? LOOKS.byProfile : LOOKS.byTerm;
    return q.rows(statement, [...values, offset, likeOf(plan.parts), limit]);
  }
  if (plan.kind === "letters") {
    const found: ListedCertificate[] = [];
    const bits = bitsOf(term);
    const blocks = await q.rows(blocksWith, [profileId, bits[0], bits.at(-1)]);
    for (const { after, until } of spansOf(blocks)) {
      const left = offset + limit - found.length;
      if (left <= 0) break;
      found.push(...(await q.rows(walkSpan[status], [...values, ...after, ...until, left])));
    }
    return found.slice(offset, offset + limit);
  }
  const rows =
    offset === 0
      ? await q.rows(WALKS.first[status](limit), values)
      : await q.rows(WALKS.further[status](limit), [...values, offset]);
  return rows.slice(0, limit);
}
