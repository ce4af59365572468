import { counterOf } from "../../platform/bound.ts";
import { slowSql, sql, type Query, type SlowQuery, type Tx } from "../../platform/db/index.ts";
import type { RoleAssignment } from "../../memberships/index.ts";

export interface InvitedPlace {
  readonly projectId: string;
  readonly roles: readonly RoleAssignment[];
}

export interface InvitationRow {
  readonly id: string;
  readonly orgId: string;
  readonly email: string;
  readonly firstName: string;
  readonly lastName: string;
  readonly role: string;
  readonly projects: readonly InvitedPlace[];
  readonly inviterKind: "user" | "identity";
  readonly inviterId: string;
  readonly expiresAt: Date;
  readonly createdAt: Date;
}

const COLUMNS = `id, org_id AS "orgId", email, first_name AS "firstName", last_name AS "lastName", role, projects,
  inviter_kind AS "inviterKind", inviter_id AS "inviterId", expires_at AS "expiresAt", created_at AS "createdAt"`;

const put = sql(`
  INSERT INTO invitations (id, org_id, email, first_name, last_name, role, projects, inviter_kind, inviter_id, digest, expires_at, created_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
  ON CONFLICT (org_id, email) DO UPDATE SET id = excluded.id, first_name = excluded.first_name, last_name = excluded.last_name,
    role = excluded.role, projects = excluded.projects, inviter_kind = excluded.inviter_kind, inviter_id = excluded.inviter_id,
    digest = excluded.digest, expires_at = excluded.expires_at, created_at = excluded.created_at`);
const byDigest = sql<InvitationRow>(
  `SELECT ${COLUMNS} FROM invitations WHERE digest = $1 AND expires_at > $2`,
);
const byId = sql<InvitationRow>(
  `SELECT ${COLUMNS} FROM invitations WHERE org_id = $1 AND id = $2 AND expires_at > $3`,
);
const to = sql<{ id: string }>(`SELECT id FROM invitations WHERE org_id = $1 AND email = $2`);
const ofOrg = slowSql<InvitationRow>(`
  SELECT ${COLUMNS} FROM invitations WHERE org_id = $1 AND expires_at > $2 ORDER BY created_at, id LIMIT $3`);
// Of many who take at once the row lock lets one through; the others find nothing.
const take = sql<{ id: string }>(`DELETE FROM invitations WHERE id = $1 AND expires_at > $2 RETURNING id`);
const sweep = sql(`DELETE FROM invitations WHERE expires_at <= $1`);
const existing = sql<{ id: string }>(`SELECT id FROM projects WHERE org_id = $1 AND id = ANY($2)`);
// Keeps the projects from being deleted between this look and the memberships that point at them.
const held = sql<{ id: string }>(
  `SELECT id FROM projects WHERE org_id = $1 AND id = ANY($2) ORDER BY id FOR KEY SHARE`,
);

/** JSON has no dates: a start that was asked for comes back as text. */
function revive(assignment: RoleAssignment): RoleAssignment {
  if (!assignment.isTemporary || assignment.startsAt === undefined) return assignment;
  return { ...assignment, startsAt: new Date(assignment.startsAt) };
}

const toRow = (row: InvitationRow): InvitationRow => ({
  ...row,
  projects: row.projects.map((place) => ({ ...place, roles: place.roles.map(revive) })),
});

export const hasInvitation = async (q: Query, orgId: string, email: string): Promise<boolean> =>
  (await q.first(to, [orgId, email])) !== undefined;
export const countInvitations = counterOf("invitations WHERE org_id = $1");
export const countMembers = counterOf(
  "memberships WHERE org_id = $1 AND project_id IS NULL AND user_id IS NOT NULL",
);
export const putInvitation = (tx: Tx, row: InvitationRow, digest: Buffer) =>
  tx.rows(put, [
    row.id,
    row.orgId,
    row.email,
    row.firstName,
    row.lastName,
    row.role,
    JSON.stringify(row.projects),
    row.inviterKind,
    row.inviterId,
    digest,
    row.expiresAt,
    row.createdAt,
  ]);

export async function findInvitation(
  q: Query,
  digest: Buffer,
  now: Date,
): Promise<InvitationRow | undefined> {
  const row = await q.first(byDigest, [digest, now]);
  return row && toRow(row);
}

export const findInvitationById = (q: Query, orgId: string, id: string, now: Date) =>
  q.first(byId, [orgId, id, now]);
export const listInvitations = (q: SlowQuery, orgId: string, now: Date, most: number) =>
  q.rows(ofOrg, [orgId, now, most]);
/** Undefined if someone else was faster, or it was withdrawn, replaced or ran out. */
export const takeInvitation = (tx: Tx, id: string, now: Date) => tx.first(take, [id, now]);
export const sweepInvitations = (tx: Tx, now: Date) => tx.rows(sweep, [now]);

const idsOf = (rows: readonly { readonly id: string }[]): Set<string> => new Set(rows.map((row) => row.id));
export const existingProjects = async (q: Query, orgId: string, ids: readonly string[]) =>
  idsOf(await q.rows(existing, [orgId, ids]));
export const holdProjects = async (tx: Tx, orgId: string, ids: readonly string[]) =>
  idsOf(await tx.rows(held, [orgId, ids]));
