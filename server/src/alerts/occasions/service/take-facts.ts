/** From facts about certificates to messages, waiting occasions and resolutions: one transaction per batch. */
import { LRUCache } from "lru-cache";
import type { Tx } from "../../../platform/db/index.ts";
import { newId } from "../../../platform/ids.ts";
import {
  certificateIssued,
  certificateRenewalFailed,
  certificateRenewed,
  certificateRevoked,
} from "../../../certificates/index.ts";
import type { NoticeKind } from "../../../notifications/index.ts";
import type { EventType } from "../../contract.ts";
import { isDue, type AlertRow } from "../../model.ts";
import { contentOf, expiryOccasion, failureOccasion, isFailure, type CertificateRow } from "../model.ts";
import * as store from "../store.ts";
import type { InboxRow, Waiting } from "../store.ts";
import { audienceOf, groupBy, type Audience, type OccasionNeeds } from "./ready.ts";

export const FACT_BATCH = 200;

const EVENT_OF: ReadonlyMap<string, EventType> = new Map<string, EventType>([
  [certificateIssued.factName, "issuance"],
  [certificateRenewed.factName, "renewal"],
  [certificateRevoked.factName, "revocation"],
  [certificateRenewalFailed.factName, "renewal-failed"],
]);

/** The alerts of a project, filed by what they wait for, so that a fact does not walk past all the others. */
interface Roster {
  readonly stamp: number;
  readonly byId: ReadonlyMap<string, AlertRow>;
  readonly audiences: ReadonlyMap<string, Audience>;
}

const nobody: Audience = () => [];

function rosterOf(stamp: number, alerts: readonly AlertRow[]): Roster {
  const byType = groupBy(alerts, (alert) => alert.eventType);
  return {
    stamp,
    byId: new Map(alerts.map((alert) => [alert.id, alert])),
    audiences: new Map([...byType].map(([type, group]) => [type, audienceOf(group)])),
  };
}

/**
 * Facts come by the hundred per second, alerts change rarely: they are read and compiled once and remembered for as
 * long as their stamp, which is asked in the very transaction that uses them, stays the same.
 */
function rememberAlerts() {
  const remembered = new LRUCache<string, Roster>({ max: 500 });
  return async (tx: Tx, projectIds: readonly string[]): Promise<Map<string, Roster>> => {
    const stamps = new Map((await store.readStamps(tx, projectIds)).map((row) => [row.projectId, row.stamp]));
    const rosters = new Map<string, Roster>();
    for (const id of projectIds) {
      const known = remembered.get(id);
      if (known && known.stamp === stamps.get(id)) rosters.set(id, known);
    }
    const stale = projectIds.filter((id) => !rosters.has(id));
    if (stale.length === 0) return rosters;
    const fresh = groupBy(await store.readAlertsOf(tx, stale), (alert) => alert.projectId);
    for (const id of stale) {
      const roster = rosterOf(stamps.get(id) ?? 0, fresh.get(id) ?? []);
      rosters.set(id, roster);
      remembered.set(id, roster);
    }
    return rosters;
  };
}

export function createFactReader({ clock, publicUrl, resolvingTypes }: OccasionNeeds) {
  const alertsOf = rememberAlerts();
  interface Found {
    readonly fact: InboxRow;
    readonly certificate: CertificateRow;
    readonly now: Date;
  }

  const tell = (tx: Tx, alert: AlertRow, kind: NoticeKind, { certificate, fact, now }: Found): void => {
    const failures =
      typeof fact.data.reason === "string"
        ? new Map([[certificate.id, fact.data.reason]])
        : new Map<string, string>();
    const content = contentOf({
      alert,
      kind,
      certificates: [certificate],
      total: 1,
      now,
      publicUrl,
      failures,
    });
    const message = { id: newId(), alertId: alert.id, kind, content, total: 1 };
    store.addMessages(tx, [message], now, kind === "resolution" ? resolvingTypes : null);
  };

  const follow = (tx: Tx, { audiences }: Roster, found: Found): Waiting[] => {
    const { fact, certificate, now } = found;
    const type = EVENT_OF.get(fact.name);
    const reason = typeof fact.data.reason === "string" ? fact.data.reason : undefined;
    const waiting: Waiting[] = [];
    const wait = (alertId: string, occasion: string, detail?: string) =>
      waiting.push({
        certificateId: certificate.id,
        alertId,
        occasion,
        notAfter: certificate.notAfter,
        detail,
      });
    // Facts of this kind wait to be told together: one broken authority has thousands of them.
    for (const alert of type === undefined ? [] : (audiences.get(type) ?? nobody)(certificate)) {
      if (alert.eventType === "renewal-failed") wait(alert.id, failureOccasion(now), reason);
      else if (alert.digest === null) tell(tx, alert, alert.eventType, found);
      else wait(alert.id, `fact:${fact.id}`, reason);
    }
    // Also one that was imported, or let go from hold: it may be past the moment at which a look would find it.
    const isNew = type !== "revocation" && type !== "renewal-failed" && certificate.revokedAt === null;
    for (const alert of isNew ? (audiences.get("expiration") ?? nobody)(certificate) : []) {
      if (isDue(certificate.notAfter, alert.alertBefore, now)) wait(alert.id, expiryOccasion(alert, now));
    }
    return waiting;
  };

  /** Certificates whose expiry or failed renewal was reported and that are now replaced or revoked. */
  const resolve = async (
    tx: Tx,
    over: ReadonlyMap<string, InboxRow>,
    rosters: ReadonlyMap<string, Roster>,
    now: Date,
  ): Promise<void> => {
    if (over.size === 0) return;
    store.dropWaitingFailures(tx, [...over.keys()]);
    if (resolvingTypes.length === 0) return;
    const told = await store.findToldAlerts(tx, [...over.keys()], resolvingTypes);
    if (told.length === 0) return;
    const certificates = new Map(
      (
        await store.readCertificates(
          tx,
          told.map((one) => one.certificateId),
        )
      ).map((row) => [row.id, row]),
    );
    for (const { alertId, certificateId } of told) {
      const certificate = certificates.get(certificateId);
      const fact = over.get(certificateId);
      const alert = rosters.get(fact?.projectId ?? "")?.byId.get(alertId);
      if (alert && certificate && fact) tell(tx, alert, "resolution", { fact, certificate, now });
    }
  };

  const overBy = (fact: InboxRow): string | undefined => {
    if (fact.name === certificateRevoked.factName) return fact.certificateId;
    return fact.name === certificateRenewed.factName && typeof fact.data.replacedId === "string"
      ? fact.data.replacedId
      : undefined;
  };

  return async (tx: Tx): Promise<number> => {
    const taken = await store.takeFacts(tx, FACT_BATCH);
    if (taken.length === 0) return 0;
    const now = clock.now();
    const rosters = await alertsOf(tx, [...new Set(taken.map((fact) => fact.projectId))]);
    const certificates = new Map(
      (
        await store.readCertificates(
          tx,
          taken.map((fact) => fact.certificateId),
        )
      ).map((row) => [row.id, row]),
    );
    let waiting: Waiting[] = [];
    const over = new Map<string, InboxRow>();
    for (const fact of taken) {
      const certificate = certificates.get(fact.certificateId);
      const roster = rosters.get(fact.projectId);
      const overId = overBy(fact);
      if (overId !== undefined) {
        over.set(overId, fact);
        waiting = waiting.filter((one) => one.certificateId !== overId || !isFailure(one));
      }
      if (certificate && roster) waiting.push(...follow(tx, roster, { fact, certificate, now }));
    }
    await resolve(tx, over, rosters, now);
    if (waiting.length > 0) store.addOccasions(tx, waiting, now);
    store.removeFacts(
      tx,
      taken.map((fact) => fact.id),
    );
    return taken.length;
  };
}
