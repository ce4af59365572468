import { sql, type Tx } from "../../platform/db/index.ts";

export interface Taking {
  readonly isTaken: boolean;
  readonly inProject: number;
  readonly ofActor: number;
  /** What was committed at that moment, in PostgreSQL's words. */
  readonly snapshot: string;
}

// Always the project first and then the actor, so that two nodes never wait for each other in a circle.
const lock = sql(`SELECT pg_advisory_xact_lock(hashtextextended('stream-slots:' || $1, 0))`);
const take = sql<Taking>(`
  WITH totals AS (
    SELECT coalesce(sum(c.open) FILTER (WHERE c.subject_id = $2), 0)::int AS in_project,
           coalesce(sum(c.open) FILTER (WHERE c.subject_id = $3), 0)::int AS of_actor
    FROM stream_counts c LEFT JOIN stream_nodes n ON n.node_id = c.node_id
    WHERE c.subject_id IN ($2, $3) AND (c.node_id = $1 OR n.seen_at > now() - make_interval(secs => $6))),
  taken AS (
    INSERT INTO stream_counts AS c (node_id, subject_id, open)
    SELECT $1, s.id, 1 FROM totals, (SELECT id FROM unnest(ARRAY[$2, $3]::uuid[]) AS u (id) ORDER BY id) s
    WHERE in_project < $4 AND of_actor < $5
    ON CONFLICT (subject_id, node_id) DO UPDATE SET open = c.open + 1 RETURNING 1)
  SELECT EXISTS (SELECT 1 FROM taken) AS "isTaken", in_project AS "inProject", of_actor AS "ofActor",
    pg_current_snapshot()::text AS snapshot
  FROM totals`);
const release = sql(`
  WITH freed AS (
    SELECT c.node_id, c.subject_id, f.n FROM stream_counts c JOIN unnest($2::uuid[], $3::int[]) AS f (id, n) ON f.id = c.subject_id
    WHERE c.node_id = $1 ORDER BY c.subject_id FOR UPDATE OF c)
  UPDATE stream_counts c SET open = greatest(c.open - freed.n, 0) FROM freed
  WHERE c.node_id = freed.node_id AND c.subject_id = freed.subject_id`);
const beat = sql<{ isNew: boolean }>(`
  INSERT INTO stream_nodes (node_id, seen_at) VALUES ($1, now())
  ON CONFLICT (node_id) DO UPDATE SET seen_at = now() RETURNING (xmax = 0) AS "isNew"`);
const restate = sql(`
  INSERT INTO stream_counts (node_id, subject_id, open) SELECT $1, id, n FROM unnest($2::uuid[], $3::int[]) AS s (id, n) ORDER BY id
  ON CONFLICT (subject_id, node_id) DO UPDATE SET open = excluded.open`);
const forgetDead = sql(`DELETE FROM stream_nodes WHERE seen_at < now() - make_interval(secs => $1)`);
const sweep = sql(`
  DELETE FROM stream_counts c WHERE (c.node_id = $1 AND c.open = 0) OR NOT EXISTS (SELECT 1 FROM stream_nodes n WHERE n.node_id = c.node_id)`);
const leave = sql(`DELETE FROM stream_nodes WHERE node_id = $1`);
const dropCounts = sql(`DELETE FROM stream_counts WHERE node_id = $1`);

export interface Wanted {
  readonly nodeId: string;
  readonly projectId: string;
  readonly actorId: string;
  readonly perProject: number;
  readonly perActor: number;
}

export async function takeSlot(tx: Tx, wanted: Wanted, leaseSeconds: number): Promise<Taking> {
  const { nodeId, projectId, actorId, perProject, perActor } = wanted;
  // Sent together; each statement sees what was committed before it began, so the count is of after the locks.
  const [, , rows] = await Promise.all([
    tx.rows(lock, [projectId]),
    tx.rows(lock, [actorId]),
    tx.rows(take, [nodeId, projectId, actorId, perProject, perActor, leaseSeconds]),
  ]);
  const taking = rows[0];
  if (!taking) throw new Error("taking a slot answered no row");
  return taking;
}

type Counts = ReadonlyMap<string, number>;

export const releaseSlots = (tx: Tx, nodeId: string, freed: Counts) =>
  tx.rows(release, [nodeId, [...freed.keys()], [...freed.values()]]);
export const showNode = (tx: Tx, nodeId: string) => tx.first(beat, [nodeId]);
export const restateCounts = (tx: Tx, nodeId: string, counts: Counts) =>
  tx.rows(restate, [nodeId, [...counts.keys()], [...counts.values()]]);

export async function sweepNodes(tx: Tx, nodeId: string, deadSeconds: number): Promise<void> {
  await Promise.all([tx.rows(forgetDead, [deadSeconds]), tx.rows(sweep, [nodeId])]);
}

export async function removeNode(tx: Tx, nodeId: string): Promise<void> {
  await Promise.all([tx.rows(dropCounts, [nodeId]), tx.rows(leave, [nodeId])]);
}
