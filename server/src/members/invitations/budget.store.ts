import { sql, type Tx } from "../../platform/db/index.ts";

const spend = sql<{ key: string }>(`
  INSERT INTO mail_budgets AS m (key, window_start, count)
  SELECT b.key, $1, 1 FROM unnest($2::text[]) AS b (key) ORDER BY b.key
  ON CONFLICT (key, window_start) DO UPDATE SET count = m.count + 1
    WHERE m.count < ($3::integer[])[array_position($2::text[], m.key)]
  RETURNING key`);
const sweep = sql(`DELETE FROM mail_budgets WHERE window_start < $1`);

interface Limit {
  readonly key: string;
  readonly limit: number;
}

/** Answers those that had something left. */
export const spendOne = async (tx: Tx, windowStart: Date, limits: readonly Limit[]): Promise<Set<string>> => {
  const values = [windowStart, limits.map(({ key }) => key), limits.map(({ limit }) => limit)];
  return new Set((await tx.rows(spend, values)).map(({ key }) => key));
};
export const sweepBudgets = (tx: Tx, before: Date) => tx.rows(sweep, [before]);
