/** What keeps the lists fast: moving expired rows to their phase, folding settled rows into counted blocks, clearing out. */
import { slowSql, sql, type Query, type Tx } from "../../../platform/db/index.ts";

const sweep = sql<{ id: string }>(`
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
const insertBlock = sql(
  `INSERT INTO certificate_blocks (profile_id, until_at, until_id, count) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
);
const gone = slowSql<{ projectId: string }>(
  `SELECT cp.project_id AS "projectId" FROM certificate_projects cp WHERE NOT EXISTS (SELECT 1 FROM projects p WHERE p.id = cp.project_id)`,
);
const clear = sql<{ id: string }>(`
  WITH doomed AS (SELECT id FROM certificates WHERE project_id = $1 LIMIT $2),
  bodies AS (DELETE FROM certificate_bodies WHERE certificate_id IN (SELECT id FROM doomed))
  DELETE FROM certificates WHERE id IN (SELECT id FROM doomed) RETURNING id`);
const clearRequests = sql(`DELETE FROM certificate_requests WHERE project_id = $1`);
const clearProject = sql(`DELETE FROM certificate_projects WHERE project_id = $1`);
const clearBlocks = sql(
  `DELETE FROM certificate_blocks b WHERE NOT EXISTS (SELECT 1 FROM certificate_profiles f WHERE f.id = b.profile_id)`,
);

export const moveExpired = async (tx: Tx, now: Date, most: number): Promise<number> =>
  (await tx.rows(sweep, [now, most])).length;
export const foldedProfiles = (q: Query) => q.rows(profiles);
export const findNextBlock = (
  q: Query,
  profile: { profileId: string; untilAt: string | null; untilId: string | null },
  settledBefore: Date,
  size: number,
) => q.first(nextBlock, [profile.profileId, settledBefore, profile.untilAt, profile.untilId, size - 1]);
export const addBlock = (
  tx: Tx,
  profileId: string,
  until: { untilAt: string; untilId: string },
  size: number,
): void => tx.later(insertBlock, [profileId, until.untilAt, until.untilId, size]);
export const goneProjects = (q: Query) => q.rows(gone);
export const clearCertificates = async (tx: Tx, projectId: string, most: number): Promise<number> =>
  (await tx.rows(clear, [projectId, most])).length;
export function forgetProject(tx: Tx, projectId: string): void {
  tx.later(clearRequests, [projectId]);
  tx.later(clearProject, [projectId]);
  tx.later(clearBlocks, []);
}
