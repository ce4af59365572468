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
import { prepare } from "../../filters/model.ts";
import { isDue, type AlertRow } from "../../model.ts";
import { contentOf, expiryOccasion, type CertificateRow } from "../model.ts";
import * as store from "../store.ts";
import type { InboxRow, Waiting } from "../store.ts";
import { concerns, groupBy, makeReady, type OccasionNeeds, type Ready } from "./ready.ts";

export const FACT_BATCH = 200;

const EVENT_OF: ReadonlyMap<string, EventType> = new Map<string, EventType>([
  [certificateIssued.factName, "issuance"],
  [certificateRenewed.factName, "renewal"],
  [certificateRevoked.factName, "revocation"],
  [certificateRenewalFailed.factName, "renewal-failed"],
]);

/**
 * Facts come by the hundred per second, alerts change rarely: they are read and compiled once and remembered for as
 * long as their fingerprint, which is asked in the very transaction that uses them, stays the same.
 */
function rememberAlerts() {
  const remembered = new LRUCache<
    string,
    { readonly fingerprint: string; readonly alerts: readonly Ready[] }
  >({ max: 500 });
  return async (tx: Tx, projectIds: readonly string[]): Promise<Map<string, readonly Ready[]>> => {
    const current = new Map(
      (await store.readFingerprints(tx, projectIds)).map((row) => [row.projectId, row.fingerprint]),
    );
    const stale = [...current]
      .filter(([id, fingerprint]) => remembered.get(id)?.fingerprint !== fingerprint)
      .map(([id]) => id);
    if (stale.length > 0) {
      const fresh = groupBy(
        (await store.readAlertsOf(tx, stale)).map(makeReady),
        ({ alert }) => alert.projectId,
      );
      for (const id of stale)
        remembered.set(id, { fingerprint: current.get(id) ?? "", alerts: fresh.get(id) ?? [] });
    }
    return new Map([...current.keys()].map((id) => [id, remembered.get(id)?.alerts ?? []]));
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
    store.addMessage(
      tx,
      { id: newId(), alertId: alert.id, kind, content, total: 1, at: now },
      kind === "resolution" ? resolvingTypes : null,
    );
  };

  const follow = (tx: Tx, alerts: readonly Ready[], found: Found): Waiting[] => {
    const { fact, certificate, now } = found;
    const type = EVENT_OF.get(fact.name);
    const prepared = prepare(certificate);
    // Also one that was imported, or let go from hold: it may be past the moment at which a look would find it.
    const isNew = type !== "revocation" && type !== "renewal-failed" && certificate.revokedAt === null;
    const waiting: Waiting[] = [];
    const wait = (alertId: string, occasion: string, detail?: string) =>
      waiting.push({
        certificateId: certificate.id,
        alertId,
        occasion,
        notAfter: certificate.notAfter,
        detail,
      });
    for (const ready of alerts) {
      const { alert } = ready;
      const isExpiry =
        alert.eventType === "expiration" && isNew && isDue(certificate.notAfter, alert.alertBefore, now);
      if ((alert.eventType !== type && !isExpiry) || !concerns(ready, certificate, prepared)) continue;
      if (isExpiry) wait(alert.id, expiryOccasion(alert, now));
      else if (alert.digest === null) tell(tx, alert, alert.eventType, found);
      else
        wait(
          alert.id,
          `fact:${fact.id}`,
          typeof fact.data.reason === "string" ? fact.data.reason : undefined,
        );
    }
    return waiting;
  };

  /** Certificates whose expiry was reported and that are now replaced or revoked. */
  const resolve = async (
    tx: Tx,
    over: ReadonlyMap<string, InboxRow>,
    alerts: readonly Ready[],
    now: Date,
  ): Promise<void> => {
    if (over.size === 0 || resolvingTypes.length === 0) return;
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
      const alert = alerts.find((ready) => ready.alert.id === alertId)?.alert;
      const certificate = certificates.get(certificateId);
      const fact = over.get(certificateId);
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
    const byProject = await alertsOf(tx, [...new Set(taken.map((fact) => fact.projectId))]);
    const certificates = new Map(
      (
        await store.readCertificates(
          tx,
          taken.map((fact) => fact.certificateId),
        )
      ).map((row) => [row.id, row]),
    );
    const waiting: Waiting[] = [];
    const over = new Map<string, InboxRow>();
    for (const fact of taken) {
      const certificate = certificates.get(fact.certificateId);
      if (certificate)
        waiting.push(...follow(tx, byProject.get(fact.projectId) ?? [], { fact, certificate, now }));
      const overId = overBy(fact);
      if (overId !== undefined) over.set(overId, fact);
    }
    await resolve(tx, over, [...byProject.values()].flat(), now);
    if (waiting.length > 0) store.addOccasions(tx, waiting, now);
    store.removeFacts(
      tx,
      taken.map((fact) => fact.id),
    );
    return taken.length;
  };
}
