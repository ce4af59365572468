import { sql, type Query, type Tx } from "../platform/db/index.ts";

// The caller's own certificate projects come first; the oldest wins, so that the answer does not change over time.
const defaultProject = sql<{ id: string }>(`
  SELECT p.id FROM projects p
  LEFT JOIN memberships m ON m.project_id = p.id AND (m.identity_id = $2 OR m.user_id = $2)
  WHERE p.org_id = $1 AND p.type = 'cert-manager'
  ORDER BY (m.id IS NULL), p.created_at, p.id LIMIT 1`);
const noteProject = sql(`INSERT INTO certificate_projects (project_id) VALUES ($1) ON CONFLICT DO NOTHING`);

export const findCertificateProject = (q: Query, orgId: string, actor: { readonly id: string }) =>
  q.first(defaultProject, [orgId, actor.id]);
export const noteCertificateProject = (tx: Tx, projectId: string) => tx.defer(noteProject, [projectId]);
