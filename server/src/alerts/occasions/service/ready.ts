/** What the three steps share: what they need, and alerts made ready to be asked about certificates. */
import type { Clock } from "../../../platform/clock.ts";
import type { Db } from "../../../platform/db/index.ts";
import { Pace } from "../../../platform/pace.ts";
import { compileFilters, prepare } from "../../filters/model.ts";
import { shortlistOf } from "../../filters/model/shortlist.ts";
import type { AlertRow } from "../../model.ts";
import type { CertificateRow } from "../model.ts";

export interface OccasionNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly publicUrl: string;
  /** Kinds of channel that can be told that something is over. */
  readonly resolvingTypes: readonly string[];
}

/** Upkeep: the changes are the house's own, nobody asked for them. */
export const UPKEEP = { audited: false } as const;

/** Those of some alerts that a certificate concerns. */
export type Audience = (certificate: CertificateRow) => Promise<AlertRow[]>;

export async function audienceOf(alerts: readonly AlertRow[]): Promise<Audience> {
  const pace = new Pace();
  const compiled: { readonly alert: AlertRow; readonly matches: ReturnType<typeof compileFilters> }[] = [];
  for (const alert of alerts) {
    compiled.push({ alert, matches: compileFilters(alert.filters) });
    if (pace.isDue()) await pace.rest();
  }
  const shortlist = shortlistOf(compiled, ({ alert }) => alert.filters);
  return async (certificate) => {
    const prepared = prepare(certificate);
    const concerned: AlertRow[] = [];
    for (const { alert, matches } of shortlist(prepared)) {
      if (
        (alert.applicationId === null || alert.applicationId === certificate.applicationId) &&
        matches(prepared)
      )
        concerned.push(alert);
      if (pace.isDue()) await pace.rest();
    }
    return concerned;
  };
}

export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}
