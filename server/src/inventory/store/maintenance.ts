/** What keeps the lists fast: moving expired rows to their phase, folding settled rows into counted blocks, clearing out. */
import { slowSql, sql, type SlowQuery, type Tx } from "../../platform/db/index.ts";
import { CHAPTER_BLOCKS } from "./profile-list.ts";

const sweep = slowSql<{ id: string }>(`
  UPDATE certificates SET phase = 1, renew_at = NULL WHERE id IN (
    SELECT c.id FROM certificates c WHERE c.phase = 0 AND c.not_after <= $1 ORDER BY c.not_after LIMIT $2 FOR UPDATE SKIP LOCKED) AND phase = 0 RETURNING id`);
const profiles = slowSql<{ profileId: string; untilAt: string | null; untilId: string | null }>(`
  SELECT f.id AS "profileId", b.until_at::text AS "untilAt", b.until_id AS "untilId" FROM certificate_profiles f
  LEFT JOIN LATERAL (SELECT until_at, until_id FROM certificate_blocks WHERE profile_id = f.id ORDER BY until_at DESC, until_id DESC LIMIT 1) b ON true`);
// The newest member of the next full block, if that many settled rows are there.
const nextBlock = slowSql<{ untilAt: string; untilId: string }>(`
  SELECT c.created_at::text AS "untilAt", c.id AS "untilId" FROM certificates c
  WHERE c.profile_id = $1 AND c.created_at < $2 AND ($3::timestamptz IS NULL OR (c.created_at, c.id) > ($3, $4::uuid))
  ORDER BY c.created_at, c.id OFFSET $5 LIMIT 1`);
// Folding waits for open deletions and blocks new ones, so that none is counted by neither or by both.
const lockToFold = sql(`SELECT pg_advisory_xact_lock(hashtextextended($1, 7))`);
// The row is locked as well: of several concurrent deletions, all but the first find it gone and subtract nothing.
const lockToDelete = sql<{ id: string }>(`
  SELECT c.id, pg_advisory_xact_lock_shared(hashtextextended(coalesce(c.profile_id, c.id)::text, 7)) FROM certificates c WHERE c.id = $1 FOR UPDATE`);
// Counted when nobody deletes; and nothing if another node has folded further meanwhile.
const insertBlock = sql(`
  INSERT INTO certificate_blocks (profile_id, until_at, until_id, count)
  SELECT $1::uuid, $2::timestamptz, $3::uuid, (SELECT count(*) FROM certificates c
    WHERE c.profile_id = $1::uuid AND (c.created_at, c.id) <= ($2, $3) AND ($4::timestamptz IS NULL OR (c.created_at, c.id) > ($4, $5::uuid)))
  WHERE NOT EXISTS (SELECT 1 FROM certificate_blocks b WHERE b.profile_id = $1::uuid AND ($4::timestamptz IS NULL OR (b.until_at, b.until_id) > ($4, $5::uuid)))`);
const undescribed = slowSql<{
  profileId: string;
  untilAt: string;
  untilId: string;
  afterAt: string | null;
  afterId: string | null;
}>(`
  SELECT b.profile_id AS "profileId", b.until_at::text AS "untilAt", b.until_id AS "untilId", p.until_at::text AS "afterAt", p.until_id AS "afterId"
  FROM (SELECT * FROM certificate_blocks WHERE letters IS NULL LIMIT $1) b LEFT JOIN LATERAL (
    SELECT k.until_at, k.until_id FROM certificate_blocks k
    WHERE k.profile_id = b.profile_id AND (k.until_at, k.until_id) < (b.until_at, b.until_id) ORDER BY k.until_at DESC, k.until_id DESC LIMIT 1) p ON true`);
const textsOf = slowSql<{ text: string }>(`
  SELECT c.search_text AS text FROM certificates c WHERE c.profile_id = $1 AND (c.created_at, c.id) <= ($2::timestamptz, $3::uuid)
    AND ($4::timestamptz IS NULL OR (c.created_at, c.id) > ($4, $5::uuid))`);
const setBigrams = sql(
  `UPDATE certificate_blocks SET letters = $4 WHERE profile_id = $1 AND until_at = $2 AND until_id = $3`,
);
const loose = `FROM certificate_blocks b WHERE b.profile_id = f.id AND NOT EXISTS (
  SELECT 1 FROM certificate_chapters c WHERE c.profile_id = b.profile_id AND (c.until_at, c.until_id) >= (b.until_at, b.until_id))`;
const fullChapters = slowSql<{ profileId: string }>(
  `SELECT f.id AS "profileId" FROM certificate_profiles f WHERE (SELECT count(*) ${loose}) >= ${CHAPTER_BLOCKS}`,
);
const insertChapter = sql<{ count: number }>(`
  INSERT INTO certificate_chapters (profile_id, until_at, until_id, count)
  SELECT $1::uuid, (array_agg(x.until_at ORDER BY x.until_at DESC, x.until_id DESC))[1], (array_agg(x.until_id ORDER BY x.until_at DESC, x.until_id DESC))[1], sum(x.count)
  FROM (SELECT b.until_at, b.until_id, b.count FROM (SELECT $1::uuid AS id) f, LATERAL (SELECT * ${loose}) b ORDER BY b.until_at, b.until_id LIMIT ${CHAPTER_BLOCKS}) x
  HAVING count(*) = ${CHAPTER_BLOCKS} RETURNING count`);
// What a certificate was counted in is the first whose newest member is not older than it.
const uncountIn = (table: string) =>
  sql(`
  UPDATE ${table} SET count = count - 1 WHERE (profile_id, until_at, until_id) = (
    SELECT b.profile_id, b.until_at, b.until_id FROM ${table} b, certificates c
    WHERE c.id = $1 AND b.profile_id = c.profile_id AND (b.until_at, b.until_id) >= (c.created_at, c.id) ORDER BY b.until_at, b.until_id LIMIT 1)`);
const uncountBlock = uncountIn("certificate_blocks");
const uncountChapter = uncountIn("certificate_chapters");
const gone = slowSql<{ projectId: string }>(
  `SELECT cp.project_id AS "projectId" FROM certificate_projects cp WHERE NOT EXISTS (SELECT 1 FROM projects p WHERE p.id = cp.project_id)`,
);
const clear = slowSql<{ id: string }>(`
  WITH doomed AS (SELECT id FROM certificates WHERE project_id = $1 LIMIT $2),
  bodies AS (DELETE FROM certificate_bodies WHERE certificate_id IN (SELECT id FROM doomed))
  DELETE FROM certificates WHERE id IN (SELECT id FROM doomed) RETURNING id`);
const clearRequests = sql(`DELETE FROM certificate_requests WHERE project_id = $1`);
const clearProject = sql(`DELETE FROM certificate_projects WHERE project_id = $1`);
const clearCounts = (table: string) =>
  sql(
    `DELETE FROM ${table} b WHERE NOT EXISTS (SELECT 1 FROM certificate_profiles f WHERE f.id = b.profile_id)`,
  );
const clearBlocks = clearCounts("certificate_blocks");
const clearChapters = clearCounts("certificate_chapters");

export const moveExpired = async (tx: Tx, now: Date, most: number): Promise<number> =>
  (await tx.rows(sweep, [now, most])).length;
export const foldedProfiles = (q: SlowQuery) => q.rows(profiles);
export const findNextBlock = (
  q: SlowQuery,
  profile: { profileId: string; untilAt: string | null; untilId: string | null },
  settledBefore: Date,
  size: number,
) => q.first(nextBlock, [profile.profileId, settledBefore, profile.untilAt, profile.untilId, size - 1]);
export function addBlock(
  tx: Tx,
  after: { profileId: string; untilAt: string | null; untilId: string | null },
  until: { untilAt: string; untilId: string },
): void {
  tx.defer(lockToFold, [after.profileId]);
  tx.defer(insertBlock, [after.profileId, until.untilAt, until.untilId, after.untilAt, after.untilId]);
}
export const blocksWithoutBigrams = (q: SlowQuery, most: number) => q.rows(undescribed, [most]);
type UndescribedBlock = Awaited<ReturnType<typeof blocksWithoutBigrams>>[number];
export const readBlockTexts = async (q: SlowQuery, block: UndescribedBlock): Promise<string[]> =>
  (await q.rows(textsOf, [block.profileId, block.untilAt, block.untilId, block.afterAt, block.afterId])).map(
    ({ text }) => text,
  );
export const storeBigrams = (tx: Tx, block: UndescribedBlock, letters: Buffer): void =>
  tx.defer(setBigrams, [block.profileId, block.untilAt, block.untilId, letters]);
export const profilesWithFullChapters = (q: SlowQuery) => q.rows(fullChapters);
/** True if there were blocks enough for one. */
export async function addChapter(tx: Tx, profileId: string): Promise<boolean> {
  await tx.rows(lockToFold, [profileId]);
  return (await tx.rows(insertChapter, [profileId])).length > 0;
}
/** Before the certificate is removed, in the same transaction. False if it is gone. */
export async function uncount(tx: Tx, certificateId: string): Promise<boolean> {
  if (!(await tx.first(lockToDelete, [certificateId]))) return false;
  tx.defer(uncountBlock, [certificateId]);
  tx.defer(uncountChapter, [certificateId]);
  return true;
}
export const goneProjects = (q: SlowQuery) => q.rows(gone);
export const clearCertificates = async (tx: Tx, projectId: string, most: number): Promise<number> =>
  (await tx.rows(clear, [projectId, most])).length;
export function forgetProject(tx: Tx, projectId: string): void {
  tx.defer(clearRequests, [projectId]);
  tx.defer(clearProject, [projectId]);
  tx.defer(clearBlocks, []);
  tx.defer(clearChapters, []);
}
