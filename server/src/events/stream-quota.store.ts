import { sql, type Tx } from "../platform/db/index.ts";

interface Taking {
  /** How many of those asked for were free. */
  readonly taken: number;
  readonly inProject: number;
  /** What was committed at that moment: a snapshot in PostgreSQL's text form. */
  readonly snapshot: string;
}

const lock = sql(`SELECT pg_advisory_xact_lock(hashtextextended('stream-slots:' || $1, 0))`);
const take = sql<Taking>(`
  WITH totals AS (
    SELECT coalesce(sum(c.open) FILTER (WHERE c.subject_id = $2), 0)::int AS in_project,
           coalesce(sum(c.open) FILTER (WHERE c.subject_id = $3), 0)::int AS of_actor
    FROM stream_counts c LEFT JOIN stream_nodes n ON n.node_id = c.node_id
    WHERE c.subject_id IN ($2, $3) AND (c.node_id = $1 OR n.seen_at > now() - make_interval(secs => $7))),
  room AS (SELECT in_project, greatest(0, least($4, $5 - in_project, $6 - of_actor))::int AS free FROM totals),
  taken AS (
    INSERT INTO stream_counts AS c (node_id, subject_id, open)
    SELECT $1, s.id, free FROM room, (SELECT id FROM unnest(ARRAY[$2, $3]::uuid[]) AS u (id) ORDER BY id) s WHERE free > 0
    ON CONFLICT (subject_id, node_id) DO UPDATE SET open = c.open + excluded.open)
  SELECT free AS taken, in_project AS "inProject", pg_current_snapshot()::text AS snapshot FROM room`);
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

interface WantedStreams {
  readonly projectId: string;
  readonly actorId: string;
  readonly count: number;
}

interface Limits {
  readonly nodeId: string;
  readonly perProject: number;
  readonly perActor: number;
  readonly leaseSeconds: number;
}

const sorted = (ids: readonly string[]): string[] => [...new Set(ids)].sort();

/** One answer for each, in the order asked. */
export async function takeQuota(tx: Tx, wanted: readonly WantedStreams[], limits: Limits): Promise<Taking[]> {
  const { nodeId, perProject, perActor, leaseSeconds } = limits;
  // Projects before actors, each in their order, so that two nodes never deadlock. All is sent
  // together; each statement sees what was committed before it began, so the counts are of after the locks.
  const locks = [...sorted(wanted.map((one) => one.projectId)), ...sorted(wanted.map((one) => one.actorId))];
  const locked = Promise.all(locks.map((id) => tx.rows(lock, [id])));
  const taken = Promise.all(
    wanted.map(({ projectId, actorId, count }) =>
      tx.first(take, [nodeId, projectId, actorId, count, perProject, perActor, leaseSeconds]),
    ),
  );
  await locked;
  return (await taken).filter((taking) => taking !== undefined);
}

export type StreamCounts = ReadonlyMap<string, number>;

export const releaseQuota = (tx: Tx, nodeId: string, freed: StreamCounts) =>
  tx.rows(release, [nodeId, [...freed.keys()], [...freed.values()]]);
export const showNode = (tx: Tx, nodeId: string) => tx.first(beat, [nodeId]);
export const restateCounts = (tx: Tx, nodeId: string, counts: StreamCounts) =>
  tx.rows(restate, [nodeId, [...counts.keys()], [...counts.values()]]);

export async function sweepNodes(tx: Tx, nodeId: string, deadSeconds: number): Promise<void> {
  await Promise.all([tx.rows(forgetDead, [deadSeconds]), tx.rows(sweep, [nodeId])]);
}

export async function removeNode(tx: Tx, nodeId: string): Promise<void> {
  await Promise.all([tx.rows(dropCounts, [nodeId]), tx.rows(leave, [nodeId])]);
}
