/** A page of identities and how many there are, the same way for an organisation, a project and a project's members. */
import { escapeLike, type SlowQuery, type Statement } from "../platform/db/index.ts";
import { NONE, totalOf, type Counted, type Total } from "./counts.store.ts";

export interface IdentityPage {
  readonly offset: number;
  readonly limit: number;
  readonly search: string | undefined;
  /** The identities that the reader may see; null = all. */
  readonly only: readonly string[] | null;
}

/** `$1` now, `$2` place, `$3` limit, `$4` offset, `$5` only, `$6` pattern; of counts `$1` place, `$2` only, `$3` pattern. */
interface PageStatements<Row> {
  readonly page: Statement<Row>;
  readonly searchPage: Statement<Row>;
  readonly count: Statement<Total>;
  readonly countSearch: Statement<Total>;
  /** What is kept of the total of all. */
  readonly counted: Counted;
}

export async function pageOf<Row>(
  q: SlowQuery,
  statements: PageStatements<Row>,
  placeId: string,
  { asked, now }: { readonly asked: IdentityPage; readonly now: Date },
): Promise<{ rows: Row[]; total: Total }> {
  const { search, only } = asked;
  const rowsOf = [now, placeId, asked.limit, asked.offset, only];
  if (search !== undefined) {
    const pattern = `%${escapeLike(search)}%`;
    const [rows, total] = await Promise.all([
      q.rows(statements.searchPage, [...rowsOf, pattern]),
      q.first(statements.countSearch, [placeId, only, pattern]),
    ]);
    return { rows, total: total ?? NONE };
  }
  const [rows, total] = await Promise.all([
    q.rows(statements.page, rowsOf),
    only === null ? totalOf(q, statements.counted, placeId) : q.first(statements.count, [placeId, only]),
  ]);
  return { rows, total: total ?? NONE };
}
