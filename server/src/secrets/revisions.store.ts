/**
 * The revision of a project, which is part of the ETag. A change adds one to the slot of its connection and a
 * reader sums the slots: sixteen rows instead of one keep writers of a busy project from queueing. What a snapshot sees
 * only ever grows, so two different states never carry the same sum.
 *
 * Imports reach into other projects: the revision lists the sum of each project that can be reached.
 */
import { sql, type Query, type Tx } from "../platform/db/index.ts";

const SLOTS = 16;

const bump = sql(`
  INSERT INTO project_changes AS c (project_id, slot, counter) VALUES ($1, pg_backend_pid() % ${SLOTS}, 1)
  ON CONFLICT (project_id, slot) DO UPDATE SET counter = c.counter + 1`);

const sumOf = (id: string): string =>
  `coalesce((SELECT sum(c.counter) FROM project_changes c WHERE c.project_id = ${id}), 0)`;

/** `project:sum,…` of the project (a parameter such as `$1`) and of all that its imports reach. */
export const revisionOf = (parameter: string): string => `
  (CASE WHEN EXISTS (SELECT 1 FROM secret_imports i WHERE i.project_id = ${parameter}::uuid AND i.source_project_id <> i.project_id) THEN
    (WITH RECURSIVE reach AS (
       SELECT ${parameter}::uuid AS id
       UNION
       SELECT i.source_project_id FROM reach r JOIN secret_imports i ON i.project_id = r.id WHERE i.source_project_id <> i.project_id)
     SELECT string_agg(t.revision, ',') FROM (SELECT r.id::text || ':' || ${sumOf("r.id")} AS revision FROM reach r ORDER BY r.id) t)
  ELSE ${parameter}::text || ':' || ${sumOf(`${parameter}::uuid`)} END)`;

const revision = sql<{ revision: string }>(`SELECT ${revisionOf("$1")} AS revision`);

/** Something that reads may show has changed; goes with the commit. */
export const touchProject = (tx: Tx, projectId: string): void => tx.defer(bump, [projectId]);

export const readRevision = async (q: Query, projectId: string): Promise<string> =>
  (await q.first(revision, [projectId]))?.revision ?? "";

/** The projects a revision speaks about. */
export const projectsIn = (text: string): string[] => text.split(",").map((part) => part.slice(0, 36));
