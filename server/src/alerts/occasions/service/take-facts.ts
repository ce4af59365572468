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
import {
  contentOf,
  expiryOccasion,
  factOccasion,
  failureOccasion,
  isFailure,
  type CertificateRow,
} from "../model.ts";
import * as store from "../store.ts";
import type { InboxRow, MessageRow, Waiting } from "../store.ts";
import { audienceOf, groupBy, type Audience, type OccasionNeeds } from "./ready.ts";

const FACT_BATCH = 200;
/**
 * So much is written in one transaction, and whatever the last fact adds. Two hundred facts that a thousand alerts
 * wait for would be more than a transaction can hold, and as all nodes take facts in one line, nobody would ever be
 * told of anything again.
 */
const WRITTEN_AT_ONCE = 5000;

const EVENT_OF: ReadonlyMap<string, EventType> = new Map<string, EventType>([
  [certificateIssued.factName, "issuance"],
  [certificateRenewed.factName, "renewal"],
  [certificateRevoked.factName, "revocation"],
  [certificateRenewalFailed.factName, "renewal-failed"],
]);

/** The alerts of a project, filed by what they wait for, so that a fact does not walk past all the others. */
interface Roster {
  readonly stamp: number;
  readonly audiences: ReadonlyMap<string, Audience>;
}

const nobody: Audience = () => [];

function rosterOf(stamp: number, alerts: readonly AlertRow[]): Roster {
  const byType = groupBy(alerts, (alert) => alert.eventType);
  return { stamp, audiences: new Map([...byType].map(([type, group]) => [type, audienceOf(group)])) };
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

const reasonOf = ({ data }: InboxRow): string | undefined =>
  typeof data.reason === "string" ? data.reason : undefined;

/** The certificate that needs no more attention because of this fact. */
const overBy = (fact: InboxRow): string | undefined => {
  if (fact.name === certificateRevoked.factName) return fact.certificateId;
  return fact.name === certificateRenewed.factName && typeof fact.data.replacedId === "string"
    ? fact.data.replacedId
    : undefined;
};

interface Found {
  readonly fact: InboxRow;
  readonly certificate: CertificateRow;
  readonly now: Date;
}

/** What follows from some facts, before it is written down. */
class Consequences {
  readonly messages: MessageRow[] = [];
  readonly resolutions: MessageRow[] = [];
  waiting: Waiting[] = [];
  readonly #publicUrl: string;

  constructor(publicUrl: string) {
    this.#publicUrl = publicUrl;
  }

  get size(): number {
    return this.messages.length + this.resolutions.length + this.waiting.length;
  }

  tell(alert: AlertRow, kind: NoticeKind, { certificate, fact, now }: Found): void {
    const reason = reasonOf(fact);
    const content = contentOf({
      alert,
      kind,
      certificates: [certificate],
      total: 1,
      now,
      publicUrl: this.#publicUrl,
      failures: new Map(reason === undefined ? [] : [[certificate.id, reason]]),
    });
    const list = kind === "resolution" ? this.resolutions : this.messages;
    list.push({ id: newId(), alertId: alert.id, kind, content, total: 1 });
  }

  wait(alert: AlertRow, occasion: string, { certificate, fact }: Found): void {
    const detail = EVENT_OF.get(fact.name) === alert.eventType ? reasonOf(fact) : undefined;
    const { id: certificateId, notAfter } = certificate;
    this.waiting.push({ certificateId, alertId: alert.id, occasion, notAfter, detail });
  }

  /** A renewal that failed and then succeeded needs nobody's attention. */
  forgetFailuresOf(certificateId: string): void {
    this.waiting = this.waiting.filter((one) => one.certificateId !== certificateId || !isFailure(one));
  }
}

function follow({ audiences }: Roster, found: Found, into: Consequences): void {
  const { fact, certificate, now } = found;
  const type = EVENT_OF.get(fact.name);
  // Facts of this kind wait to be told together: one broken authority has thousands of them.
  for (const alert of type === undefined ? [] : (audiences.get(type) ?? nobody)(certificate)) {
    if (alert.eventType === "renewal-failed") into.wait(alert, failureOccasion(now), found);
    else if (alert.digest === null) into.tell(alert, alert.eventType, found);
    else into.wait(alert, factOccasion(alert.eventType, fact.id), found);
  }
  // Also one that was imported, or let go from hold: it may be past the moment at which a look would find it.
  const isNew = type !== "revocation" && type !== "renewal-failed" && certificate.revokedAt === null;
  for (const alert of isNew ? (audiences.get("expiration") ?? nobody)(certificate) : [])
    if (isDue(certificate.notAfter, alert.alertBefore, now))
      into.wait(alert, expiryOccasion(alert, now), found);
}

export function createFactReader({ clock, publicUrl, resolvingTypes }: OccasionNeeds) {
  const alertsOf = rememberAlerts();

  /**
   * Who was told of certificates that are now replaced or revoked, by certificate. Also if nobody may be told at this
   * moment: what is said then waits, as everything does, and an incident must not stay open for good.
   */
  const findTold = async (tx: Tx, overIds: readonly string[]): Promise<Map<string, AlertRow[]>> => {
    if (overIds.length === 0 || resolvingTypes.length === 0) return new Map();
    const told = await store.findToldAlerts(tx, overIds, resolvingTypes);
    if (told.length === 0) return new Map();
    const ids = [...new Set(told.map((one) => one.alertId))];
    const alerts = new Map((await store.readAlerts(tx, ids)).map((alert) => [alert.id, alert]));
    return new Map(
      [...groupBy(told, (one) => one.certificateId)].map(([id, group]) => [
        id,
        group.flatMap((one) => alerts.get(one.alertId) ?? []),
      ]),
    );
  };

  const writeDown = async (tx: Tx, taken: readonly InboxRow[], what: Consequences, now: Date) => {
    const overIds = taken.flatMap((fact) => overBy(fact) ?? []);
    if (overIds.length > 0) store.dropWaitingFailures(tx, overIds);
    await store.addMessages(tx, what.messages, now, null);
    await store.addMessages(tx, what.resolutions, now, resolvingTypes);
    if (what.waiting.length > 0) store.addOccasions(tx, what.waiting, now);
    store.removeFacts(
      tx,
      taken.map((fact) => fact.id),
    );
  };

  /** Takes in some of the facts that wait; are there more? */
  return async (tx: Tx): Promise<{ readonly taken: number; readonly isMore: boolean }> => {
    const facts = await store.takeFacts(tx, FACT_BATCH);
    if (facts.length === 0) return { taken: 0, isMore: false };
    const now = clock.now();
    const rosters = await alertsOf(tx, [...new Set(facts.map((fact) => fact.projectId))]);
    const told = await findTold(
      tx,
      facts.flatMap((fact) => overBy(fact) ?? []),
    );
    const ids = new Set([...facts.map((fact) => fact.certificateId), ...told.keys()]);
    const certificates = new Map((await store.readCertificates(tx, [...ids])).map((row) => [row.id, row]));
    const what = new Consequences(publicUrl);
    const taken: InboxRow[] = [];
    for (const fact of facts) {
      if (what.size >= WRITTEN_AT_ONCE) break;
      taken.push(fact);
      const overId = overBy(fact) ?? "";
      const over = certificates.get(overId);
      if (overId !== "") what.forgetFailuresOf(overId);
      if (over)
        for (const alert of told.get(overId) ?? [])
          what.tell(alert, "resolution", { fact, certificate: over, now });
      told.delete(overId); // once, though it was replaced and revoked
      const certificate = certificates.get(fact.certificateId);
      const roster = rosters.get(fact.projectId);
      if (certificate && roster) follow(roster, { fact, certificate, now }, what);
    }
    await writeDown(tx, taken, what, now);
    return { taken: taken.length, isMore: taken.length < facts.length || facts.length === FACT_BATCH };
  };
}
