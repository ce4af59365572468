import { sql, type Query } from "../platform/db/index.ts";

const projects = sql<{ projectId: string }>(
  `SELECT project_id AS "projectId" FROM memberships WHERE identity_id = $1 AND project_id IS NOT NULL`,
);

export const projectsOfIdentity = async (q: Query, identityId: string): Promise<string[]> =>
  (await q.rows(projects, [identityId])).map((row) => row.projectId);
