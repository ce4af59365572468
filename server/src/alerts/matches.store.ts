/** Which certificates an alert matches, in SQL: one alert against the whole inventory. */
import { searchSql, type SlowQuery } from "../platform/db/index.ts";
import type { CertificateFilter } from "./filters/contract.ts";
import { filterConditions, parameters } from "./filters/store.ts";
import type { EndWindow } from "./model.ts";

interface MatchRow {
  readonly id: string;
  readonly serialNumber: string;
  readonly commonName: string;
  readonly san: string[];
  readonly profileName: string | null;
  readonly enrollmentType: string | null;
  readonly notBefore: Date;
  readonly notAfter: Date;
}

export interface MatchWish {
  readonly projectId: string;
  readonly applicationId: string | null;
  readonly filters: readonly CertificateFilter[];
  /** Certificates with `notAfter` in this range; undefined for all valid ones. */
  readonly window: EndWindow | undefined;
  /** Of those, the ones for which so many months before the end is not after now; 0 for all. */
  readonly months: number;
  readonly now: Date;
  readonly limit: number;
  readonly offset: number;
}

const NAMES = `ARRAY(SELECT alt ->> 'value' FROM jsonb_array_elements(c.alt_names) AS alt)`;
const FROM = `FROM certificates c LEFT JOIN certificate_profiles p ON p.id = c.profile_id`;

// Months are clamped to the last day of the shorter one, here and in the model.
const isDue = (months: string, now: string): string =>
  `(c.not_after AT TIME ZONE 'UTC' - make_interval(months => ${months}::integer)) <= (${now}::timestamptz AT TIME ZONE 'UTC')`;

/** Those that are valid and not replaced, the soonest `notAfter` first. */
export async function findMatches(
  q: SlowQuery,
  wish: MatchWish,
): Promise<{ certificates: MatchRow[]; total: number }> {
  const params = parameters(wish.projectId, wish.window?.low ?? wish.now);
  const conditions = [
    "c.project_id = $1 AND c.phase = 0 AND c.renewed_by_id IS NULL AND c.not_after > $2",
    ...(wish.window ? [`c.not_after <= ${params.add(wish.window.high)}`] : []),
    ...(wish.months === 0 ? [] : [isDue(params.add(wish.months), params.add(wish.now))]),
    ...(wish.applicationId === null ? [] : [`c.application_id = ${params.add(wish.applicationId)}`]),
    filterConditions(wish.filters, params),
  ].join(" AND ");
  const count = searchSql<{ total: number }>(`SELECT count(*) AS total ${FROM} WHERE ${conditions}`);
  const counted = await q.first(count, params.values);
  const page = searchSql<MatchRow>(`
    SELECT c.id, c.serial_number AS "serialNumber", c.common_name AS "commonName", ${NAMES} AS san, p.slug AS "profileName",
      p.enrollment_type AS "enrollmentType", c.not_before AS "notBefore", c.not_after AS "notAfter"
    ${FROM} WHERE ${conditions} ORDER BY c.not_after, c.id LIMIT ${params.add(wish.limit)} OFFSET ${params.add(wish.offset)}`);
  return { certificates: await q.rows(page, params.values), total: counted?.total ?? 0 };
}
