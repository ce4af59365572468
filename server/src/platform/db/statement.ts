import { createHash } from "node:crypto";
import type { PipelineStatement } from "@keyward/pg-pipeline";

/**
 * A statement is SQL text with a stable name, so that PostgreSQL parses and plans it once per connection; under
 * load that is worth a factor of 1.7. The row type is what the store says it reads back.
 */
export interface Statement<Row> extends PipelineStatement<Row> {
  /** May take long: kept off the shared read pipelines, where it would delay everyone behind it. */
  readonly isSlow: boolean;
}
export interface QuickStatement<Row> extends Statement<Row> {
  readonly isSlow: false;
}

const nameOf = (text: string): string =>
  `k${createHash("sha256").update(text).digest("base64url").slice(0, 20)}`;

export function sql<Row = Record<string, never>>(text: string): QuickStatement<Row> {
  return { name: nameOf(text), text, isSlow: false };
}

/**
 * For substring searches and other statements whose best plan depends on the values: unnamed, because a named
 * one switches to a generic plan after five runs and then scans whole tables.
 */
export function searchSql<Row = Record<string, never>>(text: string): Statement<Row> {
  return { name: undefined, text, isSlow: true };
}

/** For what may take long, or returns much. Runs in a tenant's turn: see `Db.read`. */
export function slowSql<Row = Record<string, never>>(text: string): Statement<Row> {
  return { name: nameOf(text), text, isSlow: true };
}

/** LIKE treats these as wildcards; a search term means them literally. */
export const escapeLike = (term: string): string => term.replace(/[\\%_]/g, (char) => `\\${char}`);

/** Rows turned into columns, as `unnest` takes them. */
export const columnsOf = (rows: readonly (readonly unknown[])[]): unknown[][] =>
  (rows[0] ?? []).map((_, column) => rows.map((row) => row[column]));
