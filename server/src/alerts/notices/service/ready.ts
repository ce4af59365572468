/** What the three steps share: their dependencies, and alerts compiled for matching. */
import type { Clock } from "../../../platform/clock.ts";
import type { Db } from "../../../platform/db/index.ts";
import { Pace } from "../../../platform/pace.ts";
import { compileFilters, prepare, type Steps } from "../../filters/model.ts";
import { shortlistOf } from "../../filters/shortlist.model.ts";
import type { AlertRow } from "../../model.ts";
import type { NoticeCertificateRow } from "../model.ts";

export interface NoticeNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly publicUrl: string;
  /** Kinds of channel that can resolve what they reported. */
  readonly resolvingTypes: readonly string[];
}

/** Maintenance: the changes are the server's own, without a caller. */
export const MAINTENANCE = { audited: false } as const;

/** Those of some alerts that a certificate concerns. */
export type AlertAudience = (certificate: NoticeCertificateRow) => Promise<AlertRow[]>;

async function inSteps<T>(steps: Steps<T>, pace: Pace): Promise<T> {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    if (pace.isDue()) await pace.rest();
  }
}

export async function audienceOf(alerts: readonly AlertRow[]): Promise<AlertAudience> {
  const compiled = alerts.map((alert) => ({ alert, matches: compileFilters(alert.filters) }));
  const shortlist = await inSteps(
    shortlistOf(compiled, ({ alert }) => alert.filters),
    new Pace(),
  );
  return async (certificate) => {
    const pace = new Pace();
    const prepared = await inSteps(prepare(certificate), pace);
    const concerned: AlertRow[] = [];
    for (const { alert, matches } of await inSteps(shortlist(prepared), pace)) {
      const isInReach = alert.applicationId === null || alert.applicationId === certificate.applicationId;
      if (isInReach && (await inSteps(matches(prepared), pace))) concerned.push(alert);
      if (pace.isDue()) await pace.rest();
    }
    return concerned;
  };
}
