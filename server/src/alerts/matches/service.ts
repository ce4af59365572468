/** What an alert is about at this moment, and what one with other filters would be. */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Db } from "../../platform/db/index.ts";
import { orgOf, type Permissions } from "../../permissions/index.ts";
import type { MatchingCertificate, Preview } from "../contract.ts";
import { endWindow, monthsToCount } from "../model.ts";
import type { Scopes } from "../scopes/service.ts";
import type { Alerts } from "../service.ts";
import { findMatches, type MatchWish } from "./store.ts";

export interface MatchNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly scopes: Scopes;
  readonly alerts: Alerts;
}

interface Page {
  readonly limit: number;
  readonly offset: number;
}

export type Matches = ReturnType<typeof createMatches>;

export function createMatches({ db, clock, permissions, scopes, alerts }: MatchNeeds) {
  const find = async (
    orgId: string,
    wish: Omit<MatchWish, "now" | "window" | "months">,
    alertBefore: string,
  ): Promise<{ certificates: MatchingCertificate[]; total: number }> => {
    const now = clock.now();
    const window = alertBefore === "" ? undefined : endWindow(alertBefore, null, now);
    const months = alertBefore === "" ? 0 : monthsToCount(alertBefore, now);
    const { certificates, total } = await db.read((q) => findMatches(q, { ...wish, window, months, now }), {
      tenant: orgId,
    });
    return { certificates: certificates.map((one) => ({ ...one, status: "active" })), total };
  };

  return {
    async ofAlert(actor: MemberActor, alertId: string, page: Page) {
      const { projectId, applicationId, filters, alertBefore } = await alerts.enter(actor, alertId, "read");
      return find(orgOf(actor), { projectId, applicationId, filters, ...page }, alertBefore);
    },

    async preview(actor: MemberActor, { filters, alertBefore, limit, offset, ...wish }: Preview) {
      const { projectId, applicationId } = await scopes.resolve(actor, wish);
      await permissions.requireInProject(actor, projectId, { action: "read", subject: "pki-alerts" });
      return find(orgOf(actor), { projectId, applicationId, filters, limit, offset }, alertBefore ?? "");
    },
  };
}
