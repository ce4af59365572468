/**
 * From facts about certificates to messages, waiting pending notices and resolutions: one transaction per batch of one
 * project. What a batch costs is bounded, however many alerts wait for however many certificates.
 */
import { LRUCache } from "lru-cache";
import type { Tx } from "../../../platform/db/index.ts";
import { newId } from "../../../platform/ids.ts";
import { Pace } from "../../../platform/pace.ts";
import { addToGroup, groupBy } from "../../../platform/group-by.ts";
import { SHOWN, type NoticeKind } from "../../../notifications/index.ts";
import type { AlertEventType } from "../../contract.ts";
import { isDue, type AlertRow } from "../../model.ts";
import {
  contentOf,
  expiryNotice,
  factNotice,
  failureNotice,
  isFailure,
  type NoticeCertificateRow,
} from "../model.ts";
import * as store from "../store.ts";
import type { InboxRow, MessageRow, PendingNotice } from "../store.ts";
import { audienceOf, type AlertAudience, type NoticeNeeds } from "./ready.ts";
import {
  certificateIssued,
  certificateRenewalFailed,
  certificateRenewed,
  certificateRevoked,
} from "../../../certificates/events.ts";

const FACT_BATCH = 200;
/** Pending notices per transaction, plus what the last fact adds. */
const WRITTEN_AT_ONCE = 5000;
/** For how long one batch is gone through; others' facts wait for it, and the database ends transactions that idle. */
const BATCH_MS = 1000;
/**
 * A message per alert and certificate is what people expect of a few. Beyond this, what a batch has to say is one
 * message per alert, as for expiries: five hundred alerts and a thousand certificates would be half a million messages.
 */
const MOST_MESSAGES = 1000;

const EVENT_OF: ReadonlyMap<string, AlertEventType> = new Map<string, AlertEventType>([
  [certificateIssued.factName, "issuance"],
  [certificateRenewed.factName, "renewal"],
  [certificateRevoked.factName, "revocation"],
  [certificateRenewalFailed.factName, "renewal-failed"],
]);

/** The alerts of a project, indexed by event type, so that a fact does not walk past all the others. */
interface Roster {
  readonly stamp: number;
  readonly audiences: ReadonlyMap<string, AlertAudience>;
}

const nobody: AlertAudience = async () => [];

async function rosterOf(stamp: number, alerts: readonly AlertRow[]): Promise<Roster> {
  const audiences = new Map<string, AlertAudience>();
  for (const [type, group] of groupBy(alerts, (alert) => alert.eventType))
    audiences.set(type, await audienceOf(group));
  return { stamp, audiences };
}

/**
 * There are hundreds of facts per second, and alerts change rarely: they are read and compiled once and cached for as
 * long as their revision, which is read in the transaction that uses them, stays the same.
 */
function rememberAlerts() {
  const remembered = new LRUCache<string, Roster>({ max: 500 });
  return async (tx: Tx, projectId: string): Promise<Roster> => {
    const [row] = await store.readStamps(tx, [projectId]);
    const stamp = row?.stamp ?? 0;
    const known = remembered.get(projectId);
    if (known && known.stamp === stamp) return known;
    const roster = await rosterOf(stamp, await store.readAlertsOf(tx, [projectId]));
    remembered.set(projectId, roster);
    return roster;
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

interface TakenCertificate {
  readonly fact: InboxRow;
  readonly certificate: NoticeCertificateRow;
  readonly now: Date;
}

/** What follows from some facts, before it is stored. */
class Consequences {
  waiting: PendingNotice[] = [];
  readonly #told = new Map<AlertRow, TakenCertificate[]>();
  readonly #over = new Map<AlertRow, TakenCertificate[]>();

  /** `over`: what was reported needs no more attention. */
  tell(alert: AlertRow, found: TakenCertificate, over = false): void {
    addToGroup(over ? this.#over : this.#told, alert, found);
  }

  messages = (publicUrl: string): MessageRow[] => messagesOf(this.#told, publicUrl, false);
  resolutions = (publicUrl: string): MessageRow[] => messagesOf(this.#over, publicUrl, true);

  wait(alert: AlertRow, notice: string, { certificate, fact }: TakenCertificate): void {
    const detail = EVENT_OF.get(fact.name) === alert.eventType ? reasonOf(fact) : undefined;
    const { id: certificateId, notAfter } = certificate;
    this.waiting.push({ certificateId, alertId: alert.id, notice, notAfter, detail });
  }

  /** A renewal that failed and then succeeded needs nobody's attention. */
  forgetFailuresOf(certificateId: string): void {
    this.waiting = this.waiting.filter((one) => one.certificateId !== certificateId || !isFailure(one));
  }
}

function messageOf(
  alert: AlertRow,
  kind: NoticeKind,
  found: readonly TakenCertificate[],
  publicUrl: string,
): MessageRow[] {
  const [first] = found;
  if (!first) return [];
  const failures = found.flatMap(({ certificate, fact }) => {
    const reason = reasonOf(fact);
    return reason === undefined ? [] : [[certificate.id, reason] as const];
  });
  const content = contentOf({
    alert,
    kind,
    certificates: found.map(({ certificate }) => certificate),
    total: found.length,
    now: first.now,
    publicUrl,
    failures: new Map(failures),
  });
  return [{ id: newId(), alertId: alert.id, kind, content, total: found.length }];
}

/**
 * One message each, or one per alert where that would be too many. A resolution names those that it resolves: PagerDuty
 * closes an incident for each certificate that is shown, so none is left out there.
 */
function messagesOf(
  byAlert: ReadonlyMap<AlertRow, readonly TakenCertificate[]>,
  publicUrl: string,
  isOver: boolean,
): MessageRow[] {
  let all = 0;
  for (const found of byAlert.values()) all += found.length;
  const apiece = all <= MOST_MESSAGES ? 1 : isOver ? SHOWN : Number.POSITIVE_INFINITY;
  return [...byAlert].flatMap(([alert, found]) => {
    const kind = isOver ? "resolution" : alert.eventType;
    const messages: MessageRow[] = [];
    for (let from = 0; from < found.length; from += apiece)
      messages.push(...messageOf(alert, kind, found.slice(from, from + apiece), publicUrl));
    return messages;
  });
}

async function follow({ audiences }: Roster, found: TakenCertificate, into: Consequences): Promise<void> {
  const { fact, certificate, now } = found;
  const type = EVENT_OF.get(fact.name);
  // Facts of this kind are reported together: one broken CA has thousands of them.
  for (const alert of type === undefined ? [] : await (audiences.get(type) ?? nobody)(certificate)) {
    if (alert.eventType === "renewal-failed") into.wait(alert, failureNotice(now), found);
    else if (alert.digest === null) into.tell(alert, found);
    else into.wait(alert, factNotice(alert.eventType, fact.id), found);
  }
  // Also one that was imported, or released from hold: it may be past the moment at which a scan would find it.
  const isNew = type !== "revocation" && type !== "renewal-failed" && certificate.revokedAt === null;
  for (const alert of isNew ? await (audiences.get("expiration") ?? nobody)(certificate) : [])
    if (isDue(certificate.notAfter, alert.alertBefore, now))
      into.wait(alert, expiryNotice(alert, now), found);
}

export function createFactReader({ clock, publicUrl, resolvingTypes }: NoticeNeeds) {
  const alertsOf = rememberAlerts();

  /**
   * Alerts that reported certificates which are now replaced or revoked, by certificate. Also those disabled at this
   * moment: the resolution waits, as everything does, and an incident must not stay open for good.
   */
  const findNotified = async (tx: Tx, overIds: readonly string[]): Promise<Map<string, AlertRow[]>> => {
    if (overIds.length === 0 || resolvingTypes.length === 0) return new Map();
    const told = await store.findNotifiedAlerts(tx, overIds, resolvingTypes);
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
    const [messages, resolutions] = [what.messages(publicUrl), what.resolutions(publicUrl)];
    await store.addMessages(tx, messages, now, null);
    await store.addMessages(tx, resolutions, now, resolvingTypes);
    if (what.waiting.length > 0) store.addNotices(tx, what.waiting, now);
    store.removeFacts(
      tx,
      taken.map((fact) => fact.id),
    );
    return messages.length + resolutions.length + what.waiting.length;
  };

  /** Handles some of a project's facts; answers how many, and how much followed from them. */
  return async (tx: Tx, projectId: string): Promise<{ readonly taken: number; readonly written: number }> => {
    const facts = await store.takeFacts(tx, projectId, FACT_BATCH);
    if (facts.length === 0) return { taken: 0, written: 0 };
    const now = clock.now();
    const roster = await alertsOf(tx, projectId);
    const told = await findNotified(
      tx,
      facts.flatMap((fact) => overBy(fact) ?? []),
    );
    const ids = new Set([...facts.map((fact) => fact.certificateId), ...told.keys()]);
    const certificates = new Map((await store.readCertificates(tx, [...ids])).map((row) => [row.id, row]));
    const what = new Consequences();
    const taken: InboxRow[] = [];
    const pace = new Pace();
    const endsAt = clock.elapsed() + BATCH_MS;
    for (const fact of facts) {
      if (what.waiting.length >= WRITTEN_AT_ONCE) break;
      if (taken.length > 0 && clock.elapsed() > endsAt) break;
      if (pace.isDue()) await pace.rest();
      taken.push(fact);
      const overId = overBy(fact) ?? "";
      const over = certificates.get(overId);
      if (overId !== "") what.forgetFailuresOf(overId);
      if (over)
        for (const alert of told.get(overId) ?? []) what.tell(alert, { fact, certificate: over, now }, true);
      told.delete(overId); // once, though it was replaced and revoked
      const certificate = certificates.get(fact.certificateId);
      if (certificate) await follow(roster, { fact, certificate, now }, what);
    }
    return { taken: taken.length, written: await writeDown(tx, taken, what, now) };
  };
}
