/** The certificates that an alert matches now, and those that other filters would match. */
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db/index.ts";
import { orgOf, type Permissions } from "../permissions/index.ts";
import type { MatchingCertificate, Preview } from "./contract.ts";
import { endWindow, monthsToCount } from "./model.ts";
import type { Scopes } from "./scopes.ts";
import type { Alerts } from "./service.ts";
import { findMatches, type MatchWish } from "./matches.store.ts";
import { seenOf, seesAll, sightOf } from "../inventory/index.ts";

interface MatchNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly scopes: Scopes;
  readonly alerts: Alerts;
}

/** More than this are not checked one by one; a reader with conditions sees those that expire first. */
const MOST_LOOKED_THROUGH = 10_000;

interface MatchPage {
  readonly limit: number;
  readonly offset: number;
}

export type Matches = ReturnType<typeof createMatches>;

export function createMatches({ db, clock, permissions, scopes, alerts }: MatchNeeds) {
  const find = async (
    actor: MemberActor,
    { limit, offset, ...about }: Omit<MatchWish, "now" | "window" | "months">,
    alertBefore: string,
  ): Promise<{ certificates: MatchingCertificate[]; total: number }> => {
    const now = clock.now();
    const window = alertBefore === "" ? undefined : endWindow(alertBefore, null, now);
    const months = alertBefore === "" ? 0 : monthsToCount(alertBefore, now);
    const sight = sightOf(await permissions.inProject(actor, about.projectId));
    const isAll = seesAll(sight);
    // A caller who may see some of them gets pages and a count of those, and no hint of the others.
    const page = isAll ? { limit, offset } : { limit: MOST_LOOKED_THROUGH, offset: 0 };
    const turn = { tenant: orgOf(actor) };
    const found = await db.read((q) => findMatches(q, { ...about, ...page, window, months, now }), turn);
    const seen = isAll ? found.certificates : await seenOf({ db, turn, now }, sight, found.certificates);
    const shown = isAll ? seen : seen.slice(offset, offset + limit);
    return {
      certificates: shown.map((one) => ({ ...one, status: "active" })),
      total: isAll ? found.total : seen.length,
    };
  };

  return {
    async ofAlert(actor: MemberActor, alertId: string, page: MatchPage) {
      const { projectId, applicationId, filters, alertBefore } = await alerts.enter(actor, alertId, "read");
      return find(actor, { projectId, applicationId, filters, ...page }, alertBefore);
    },

    async preview(actor: MemberActor, { filters, alertBefore, limit, offset, ...wish }: Preview) {
      const { projectId, applicationId } = await scopes.resolve(actor, wish);
      await permissions.requireInProject(actor, projectId, { action: "read", subject: "pki-alerts" });
      return find(actor, { projectId, applicationId, filters, limit, offset }, alertBefore ?? "");
    },
  };
}
