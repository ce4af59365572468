/**
 * Deciding what is worth telling. Three steps, each safe to repeat and to be killed in:
 *
 *  facts     certificates were issued, renewed, revoked: the database kept a copy of each fact in the transaction that
 *            stated it. Taking it out and writing down what follows from it is one transaction, so it follows once.
 *  look      certificates became due by the passing of time: found by an index on their ends, between the moment of
 *            the last look and now; written down as occasions, of which each exists once. Only then the cursor moves.
 *  gather    occasions that wait are made into one message per alert, with one delivery per channel.
 */
import type { Clock } from "../../platform/clock.ts";
import type { Db, Tx } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { SHOWN, type NoticeKind } from "../../notifications/index.ts";
import { certificateIssued, certificateRenewalFailed, certificateRenewed, certificateRevoked } from "../../certificates/events.ts";
import type { EventType } from "../contract.ts";
import { compileFilters, includesAuthorities, prepare, type Matcher, type Prepared } from "../filters/model.ts";
import { digestIsDue, endWindow, isDue } from "../model.ts";
import type { AlertRow } from "../store.ts";
import { contentOf, expiryOccasion, needsFullLook } from "./model.ts";
import * as store from "./store.ts";
import type { CertificateRow, DueWindow, InboxRow, Waiting } from "./store.ts";

export interface OccasionNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly publicUrl: string;
  /** Kinds of channel that can be told that something is over. */
  readonly resolvingTypes: readonly string[];
}

const FACT_BATCH = 200;
const WINDOW_BATCH = 500;
const OCCASION_BATCH = 5000;
/** Nodes' clocks differ a little; looking back this far finds what another node's clock skipped. */
const OVERLAP_MS = 5 * 60_000;
const GREATEST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff";
const UPKEEP = { audited: false } as const;
const HISTORY_DAYS = 90;

const EVENT_OF: ReadonlyMap<string, EventType> = new Map<string, EventType>([
  [certificateIssued.factName, "issuance"],
  [certificateRenewed.factName, "renewal"],
  [certificateRevoked.factName, "revocation"],
  [certificateRenewalFailed.factName, "renewal-failed"],
]);

interface Ready {
  readonly alert: AlertRow;
  readonly matches: Matcher;
}

interface Look extends Ready {
  readonly isFull: boolean;
}

const makeReady = (alert: AlertRow): Ready => ({ alert, matches: compileFilters(alert.filters) });

const concerns = ({ alert, matches }: Ready, certificate: CertificateRow, prepared: Prepared): boolean =>
  (alert.applicationId === null || alert.applicationId === certificate.applicationId) && matches(prepared);

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

export type Occasions = ReturnType<typeof createOccasions>;

export function createOccasions(needs: OccasionNeeds) {
  const facts = createFactReader(needs);
  const looker = createLooker(needs);
  const gather = createGatherer(needs);
  return {
    /** Takes in waiting facts until there are none; answers how many. */
    async takeFacts(): Promise<number> {
      let all = 0;
      for (;;) {
        const taken = await needs.db.write((tx) => facts(tx), UPKEEP);
        all += taken;
        if (taken < FACT_BATCH) return all;
      }
    },
    async lookForDue(): Promise<void> {
      await looker();
      await gather();
    },
    gather,
    sweep: (now: Date) =>
      needs.db.write((tx) => store.sweepHistory(tx, new Date(now.getTime() - 30 * 86_400_000), new Date(now.getTime() - HISTORY_DAYS * 86_400_000)), UPKEEP),
  };
}

function createFactReader({ clock, publicUrl, resolvingTypes }: OccasionNeeds) {
  interface Found {
    readonly fact: InboxRow;
    readonly certificate: CertificateRow;
    readonly now: Date;
  }

  const tell = (tx: Tx, alert: AlertRow, kind: NoticeKind, { certificate, fact, now }: Found): void => {
    const failures = typeof fact.data.reason === "string" ? new Map([[certificate.id, fact.data.reason]]) : new Map<string, string>();
    const content = contentOf({ alert, kind, certificates: [certificate], total: 1, now, publicUrl, failures });
    store.addMessage(tx, { id: newId(), alertId: alert.id, kind, content, total: 1, at: now }, kind === "resolution" ? resolvingTypes : null);
  };

  const follow = (tx: Tx, alerts: readonly Ready[], found: Found): Waiting[] => {
    const { fact, certificate, now } = found;
    const type = EVENT_OF.get(fact.name);
    const prepared = prepare(certificate);
    const isNew = type === "issuance" || type === "renewal";
    const waiting: Waiting[] = [];
    const wait = (alertId: string, occasion: string, detail?: string) =>
      waiting.push({ certificateId: certificate.id, alertId, occasion, notAfter: certificate.notAfter, detail });
    for (const ready of alerts) {
      const { alert } = ready;
      const isExpiry = alert.eventType === "expiration" && isNew && isDue(certificate.notAfter, alert.alertBefore, now);
      if ((alert.eventType !== type && !isExpiry) || !concerns(ready, certificate, prepared)) continue;
      if (isExpiry) wait(alert.id, expiryOccasion(alert, now));
      else if (alert.digest === null) tell(tx, alert, alert.eventType, found);
      else wait(alert.id, `fact:${fact.id}`, typeof fact.data.reason === "string" ? fact.data.reason : undefined);
    }
    return waiting;
  };

  /** Certificates whose expiry was reported and that are now replaced or revoked. */
  const resolve = async (tx: Tx, over: ReadonlyMap<string, InboxRow>, alerts: readonly Ready[], now: Date): Promise<void> => {
    if (over.size === 0 || resolvingTypes.length === 0) return;
    const told = await store.findToldAlerts(tx, [...over.keys()], resolvingTypes);
    if (told.length === 0) return;
    const certificates = new Map((await store.readCertificates(tx, told.map((one) => one.certificateId))).map((row) => [row.id, row]));
    for (const { alertId, certificateId } of told) {
      const alert = alerts.find((ready) => ready.alert.id === alertId)?.alert;
      const certificate = certificates.get(certificateId);
      const fact = over.get(certificateId);
      if (alert && certificate && fact) tell(tx, alert, "resolution", { fact, certificate, now });
    }
  };

  const overBy = (fact: InboxRow): string | undefined => {
    if (fact.name === certificateRevoked.factName) return fact.certificateId;
    return fact.name === certificateRenewed.factName && typeof fact.data.replacedId === "string" ? fact.data.replacedId : undefined;
  };

  return async (tx: Tx): Promise<number> => {
    const taken = await store.takeFacts(tx, FACT_BATCH);
    if (taken.length === 0) return 0;
    const now = clock.now();
    const alerts = (await store.readAlertsOf(tx, [...new Set(taken.map((fact) => fact.projectId))])).map(makeReady);
    const byProject = groupBy(alerts, ({ alert }) => alert.projectId);
    const certificates = new Map((await store.readCertificates(tx, taken.map((fact) => fact.certificateId))).map((row) => [row.id, row]));
    const waiting: Waiting[] = [];
    const over = new Map<string, InboxRow>();
    for (const fact of taken) {
      const certificate = certificates.get(fact.certificateId);
      if (certificate) waiting.push(...follow(tx, byProject.get(fact.projectId) ?? [], { fact, certificate, now }));
      const overId = overBy(fact);
      if (overId !== undefined) over.set(overId, fact);
    }
    await resolve(tx, over, alerts, now);
    if (waiting.length > 0) store.addOccasions(tx, waiting, now);
    store.removeFacts(tx, taken.map((fact) => fact.id));
    return taken.length;
  };
}

function createLooker({ db, clock }: OccasionNeeds) {
  const write = async (waiting: Waiting[], now: Date): Promise<void> => {
    while (waiting.length > 0) {
      const part = waiting.splice(0, OCCASION_BATCH);
      await db.write(async (tx) => store.addOccasions(tx, part, now), UPKEEP);
    }
  };

  const collect = (row: CertificateRow, looks: readonly Look[], now: Date): Waiting[] => {
    const prepared = prepare(row);
    return looks
      .filter((look) => isDue(row.notAfter, look.alert.alertBefore, now) && concerns(look, row, prepared))
      .map(({ alert }) => ({ certificateId: row.id, alertId: alert.id, occasion: expiryOccasion(alert, now), notAfter: row.notAfter }));
  };

  /** Walks all windows side by side, a page of each at a time. */
  const walk = async (groups: readonly { window: DueWindow; looks: readonly Look[] }[], now: Date): Promise<void> => {
    let open = [...groups];
    while (open.length > 0) {
      const rows = await db.read((q) => store.readDue(q, open.map((group) => group.window)));
      const waiting: Waiting[] = [];
      const last = new Map<number, { row: CertificateRow; count: number }>();
      for (const row of rows) {
        last.set(row.window, { row, count: (last.get(row.window)?.count ?? 0) + 1 });
        for (const one of collect(row, open[row.window]?.looks ?? [], now)) waiting.push(one);
      }
      await write(waiting, now);
      open = open.flatMap((group, index) => {
        const end = last.get(index);
        return end?.count === store.PAGE ? [{ ...group, window: { ...group.window, low: end.row.notAfter, lowId: end.row.id } }] : [];
      });
    }
  };

  const lookAtAuthorities = async (looks: readonly Look[], now: Date): Promise<void> => {
    const wishing = looks.filter(({ alert }) => alert.applicationId === null && includesAuthorities(alert.filters));
    if (wishing.length === 0) return;
    const byProject = groupBy(wishing, ({ alert }) => alert.projectId);
    const rows = await db.read((q) => store.readDueAuthorities(q, [...byProject.keys()], now));
    await write(rows.flatMap((row) => collect(row, byProject.get(row.projectId) ?? [], now)), now);
  };

  return async (): Promise<void> => {
    const now = clock.now();
    const until = await db.read(store.readEvaluatedUntil);
    const since = until === null ? null : new Date(until.getTime() - OVERLAP_MS);
    const looks: Look[] = (await db.read(store.readExpiring)).map((alert) => ({ ...makeReady(alert), isFull: needsFullLook(alert, now) }));
    const byWindow = groupBy(looks, ({ alert, isFull }) => `${alert.projectId} ${alert.alertBefore} ${String(isFull)}`);
    const groups = [...byWindow.values()].flatMap((group) => {
      const [first] = group;
      if (!first) return [];
      const { low, high } = endWindow(first.alert.alertBefore, first.isFull ? null : since, now);
      return [{ window: { projectId: first.alert.projectId, low, lowId: GREATEST_ID, high }, looks: group }];
    });
    for (let at = 0; at < groups.length; at += WINDOW_BATCH) await walk(groups.slice(at, at + WINDOW_BATCH), now);
    await lookAtAuthorities(looks, now);
    const full = looks.filter((look) => look.isFull).map((look) => look.alert);
    await db.write(async (tx) => {
      if (full.length > 0) store.markLooked(tx, full, now);
      store.writeEvaluatedUntil(tx, now);
    }, UPKEEP);
  };
}

function createGatherer({ db, clock, publicUrl }: OccasionNeeds) {
  const gatherOne = async (tx: Tx, alertId: string, now: Date): Promise<void> => {
    const alert = await store.lockForGathering(tx, alertId);
    if (!alert?.enabled || !digestIsDue(alert.digest, alert.gatheredAt, now)) return;
    if (alert.eventType === "expiration") await store.dropOccasionsThatAreOver(tx, alertId, now);
    const urgent = await store.readMostUrgent(tx, alertId, SHOWN);
    if (urgent.length === 0) return;
    const rows = new Map((await store.readCertificates(tx, urgent.map((one) => one.certificateId))).map((row) => [row.id, row]));
    const certificates = [...new Set(urgent.map((one) => one.certificateId))].flatMap((id) => rows.get(id) ?? []);
    const failures = new Map(urgent.flatMap((one) => (one.detail === null ? [] : [[one.certificateId, one.detail] as const])));
    const id = newId();
    const total = await store.assignOccasions(tx, alertId, id);
    const content = contentOf({ alert, kind: alert.eventType, certificates, total, now, publicUrl, failures });
    store.addMessage(tx, { id, alertId, kind: alert.eventType, content, total, at: now }, null);
    store.markGathered(tx, alertId, now);
  };

  return async (): Promise<void> => {
    const now = clock.now();
    const waiting = (await db.read(store.readWaitingAlerts)).filter((alert) => digestIsDue(alert.digest, alert.gatheredAt, now));
    for (const { id } of waiting) await db.write((tx) => gatherOne(tx, id, now), UPKEEP);
  };
}
