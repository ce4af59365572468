import { sql, type Query } from "../platform/db/index.ts";

const one = sql<{ one: number }>(`SELECT 1 AS one`);
export const ping = (q: Query) => q.first(one);
