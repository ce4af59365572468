import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { inventory, openReceiver, type Receiver } from "../../test/alert-receiver.ts";

/**
 * Four hundred days in seconds: certificates of one hour to 398 days come, are renewed, revoked and end; the receiver
 * is down now and then, for minutes, for hours and for longer than anyone keeps trying. A model that does nothing
 * clever says what had to be reported, which messages had to be given up and which are suppressed: all certificates
 * replaced, revoked or expired; what was sent must be exactly that.
 * `KEYWARD_SIMULATION=full` takes ten thousand certificates and hourly steps; the usual run is a small one of the kind.
 */
const isFull = process.env["KEYWARD_SIMULATION"] === "full";
const CERTIFICATES = isFull ? 10_000 : 150;
const STEPS = isFull ? 9600 : 180;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const START = Date.parse("2026-01-03T05:00:00Z");
const SPAN = 400 * DAY;
const PATH = "/api/v1/cert-manager/alerts";

/** The same course of events for the same seed (mulberry32). */
function chanceFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

interface Certificate {
  readonly id: string;
  readonly commonName: string;
  readonly notAfter: number;
  /** The scan before which it was replaced or revoked. */
  overAt: number;
}

/** The receiver is down from one scan (inclusive) to another (exclusive), both named by their number. */
interface Outage {
  readonly from: number;
  readonly to: number;
}

interface Message {
  readonly alertId: string;
  readonly kind: string;
  readonly shown: readonly string[];
  readonly total: number;
  /** The scans in which it was sent. */
  readonly looks: readonly number[];
}

/**
 * Scans come in threes, close together, then a pause: both the short and the long-lived get their chance. A few
 * uneven seconds keep any two scans from being exactly a day apart, where a millisecond would decide.
 */
const momentOf = (look: number): number =>
  START +
  (SPAN * (look - (look % 3))) / STEPS +
  (look % 3) * (isFull ? 20 : 50) * 60_000 +
  ((look * 37) % 17) * 25_000;

/**
 * Between two outages there is time enough for whatever waits to be tried once more (attempts are never more than
 * four and a half hours apart), so the fate of a message is decided by the outage it was born in.
 */
function outagesBy(chance: () => number): Outage[] {
  const pause = Math.max(8 * HOUR, (SPAN / STEPS) * 6);
  const between = (low: number, high: number): number => low + chance() * (high - low);
  const outages: Outage[] = [];
  for (let look = 6; ;) {
    const lasting = [
      between(0, 2 * HOUR),
      between(3 * HOUR, 20 * HOUR),
      between(26 * HOUR, 9 * DAY),
      between(18 * HOUR, 30 * HOUR),
    ][Math.floor(chance() * 4)];
    let to = look + 1;
    while (momentOf(to) < momentOf(look) + (lasting ?? HOUR)) to += 1;
    if (to > STEPS - 6) return outages;
    outages.push({ from: look, to });
    const next = momentOf(to) + pause + chance() * (isFull ? 5 : 20) * DAY;
    for (look = to; momentOf(look) < next;) look += 1;
  }
}

/** Attempts are never further apart. */
const LONGEST_PAUSE = 4.5 * HOUR;
const firstLookFrom = (moment: number, from: number): number => {
  let look = from;
  while (momentOf(look) < moment) look += 1;
  return look;
};

type Fate = "delivered" | "given up" | "fell silent";

/**
 * The expected outcome of a message that was sent in these scans. A day after its first attempt it is given up, if the
 * receiver is still away then. It falls silent at the first attempt at which none of its certificates is due any more;
 * when attempts come is chance, but one comes within four and a half hours, and one when the day is over.
 */
function fateOf(
  looks: readonly number[],
  outages: readonly Outage[],
  isDueAt: (look: number) => boolean,
): Fate {
  const [bornAt = 0] = looks;
  const last = looks.at(-1) ?? bornAt;
  const outage = outages.find(({ from, to }) => from <= bornAt && bornAt < to);
  if (!outage || last >= outage.to) return "delivered";
  const dayIsOver = firstLookFrom(momentOf(bornAt) + DAY, bornAt);
  const next = Math.min(
    firstLookFrom(momentOf(last) + LONGEST_PAUSE, last + 1),
    Math.max(dayIsOver, last + 1),
  );
  if (dayIsOver < outage.to && last >= dayIsOver) return "given up";
  return isDueAt(next) ? "delivered" : "fell silent";
}

interface Rule {
  readonly id: string;
  readonly before: string;
  readonly isDaily: boolean;
  readonly suffix: string;
}

/** Step by step back in whole days: slow and obvious. */
function dueFrom(end: number, before: string): number {
  const count = Number(before.slice(0, -1)) * (before.endsWith("y") ? 12 : 1);
  if (before.endsWith("h")) return end - count * HOUR;
  if (before.endsWith("d")) return end - count * DAY;
  const date = new Date(end);
  const wanted = date.getUTCFullYear() * 12 + date.getUTCMonth() - count;
  for (let back = end; ; back -= DAY) {
    const day = new Date(back);
    if (day.getUTCFullYear() * 12 + day.getUTCMonth() === wanted && day.getUTCDate() <= date.getUTCDate())
      return back;
  }
}

let house: TestHouse;
let receiver: Receiver;
before(async () => {
  receiver = await openReceiver();
  house = await openTestHouse({
    start: new Date(START),
    env: { KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" },
  });
});
after(async () => {
  await house.close();
  await receiver.close();
});

test(
  "four hundred days: every due notice is reported once, and nothing else",
  { timeout: isFull ? 7_200_000 : 170_000 },
  async () => {
    const chance = chanceFrom(20_260_103);
    const pick = (max: number): number => Math.floor(chance() * max);
    // A token of the owner would not live so long; the alerts are made before the days begin to run.
    const projectId = (await aProject(house.owner, { type: "cert-manager" })).id;
    const store = inventory(house.house.database, house.owner.orgId);
    const addAlert = async (more: Record<string, unknown>): Promise<string> => {
      const made = await house.owner.post(PATH, {
        name: "watch",
        eventType: "expiration",
        filters: [],
        projectId,
        channels: [{ config: { url: `${receiver.url}/in` } }],
        ...more,
      });
      assert.equal(made.status, 200, JSON.stringify(made.body));
      return made.body.alert.id;
    };
    const rules: Rule[] = [];
    for (const [before, isDaily, suffix] of [
      ["30d", false, ""],
      ["2h", false, ""],
      ["1m", false, "a"],
      ["3d", true, "b"],
      ["1y", false, "c"],
    ] as const) {
      const filters =
        suffix === "" ? [] : [{ field: "common_name", operator: "ends_with", value: suffix.toUpperCase() }];
      rules.push({
        id: await addAlert({
          alertBefore: before,
          notificationConfig: { enableDailyNotification: isDaily },
          filters,
        }),
        before,
        isDaily,
        suffix,
      });
    }
    const factAlerts = {
      issuance: await addAlert({ eventType: "issuance" }),
      renewal: await addAlert({ eventType: "renewal" }),
      revocation: await addAlert({ eventType: "revocation" }),
    };

    const expected = new Set<string>();
    const dueMoments = new Map<string, number>();
    const live = new Map<string, Certificate>();
    const outages = outagesBy(chance);
    const sent = new Map<string, Message>();
    const accepted = new Set<string>();
    const surprises: string[] = [];
    let look = 0;
    receiver.answer = ({ json, body }) => {
      receiver.received.length = 0;
      if (accepted.has(json.id)) surprises.push(`${json.id} was sent again after it was taken`);
      const message: Message = {
        alertId: json.data.alert.id,
        kind: json.type.split(".").at(-1),
        shown: json.data.certificates.map((one: { id: string }) => one.id),
        total: json.data.metadata.totalCertificates,
        looks: [...(sent.get(json.id)?.looks ?? []), look],
      };
      const before = sent.get(json.id);
      if (before && JSON.stringify({ ...before, looks: message.looks }) !== JSON.stringify(message))
        surprises.push(`${json.id} said something else when it was repeated: ${body}`);
      sent.set(json.id, message);
      if (outages.some(({ from, to }) => from <= look && look < to)) return 503;
      accepted.add(json.id);
      return 200;
    };

    const lifetime = (): number =>
      [HOUR + pick(5 * HOUR), DAY + pick(6 * DAY), 7 * DAY + pick(83 * DAY), pick(308 * DAY) + 90 * DAY][
        pick(4)
      ] ?? DAY;
    const born = (): { projectId: string; commonName: string; notBefore: Date; notAfter: Date } => {
      const now = Math.floor(house.clock.millis() / 1000) * 1000;
      return {
        projectId,
        commonName: `c${live.size}.${["a", "b", "c", "d"][pick(4)] ?? "a"}`,
        notBefore: new Date(now),
        notAfter: new Date(now + lifetime()),
      };
    };
    const keep = (id: string, { commonName, notAfter }: ReturnType<typeof born>): void =>
      void live.set(id, { id, commonName, notAfter: notAfter.getTime(), overAt: Infinity });

    const happen = async (): Promise<void> => {
      const roll = chance();
      const candidates = [...live.values()].filter(
        (one) => one.overAt === Infinity && one.notAfter > house.clock.millis(),
      );
      const chosen = candidates[pick(candidates.length)];
      if (roll < 0.7 || !chosen) {
        const wish = born();
        const id = await store.issue(wish);
        keep(id, wish);
        expected.add(`${factAlerts.issuance} ${id} issuance`);
      } else if (roll < 0.9) {
        const wish = born();
        const id = await store.renew(chosen.id, wish);
        keep(id, wish);
        chosen.overAt = look;
        expected.add(`${factAlerts.renewal} ${id} renewal`);
      } else {
        await store.revoke(chosen.id, projectId, house.clock.now());
        chosen.overAt = look;
        expected.add(`${factAlerts.revocation} ${chosen.id} revocation`);
      }
    };

    const expect = (now: number): void => {
      for (const certificate of live.values()) {
        if (certificate.overAt !== Infinity || certificate.notAfter <= now) continue;
        for (const rule of rules) {
          if (!certificate.commonName.endsWith(rule.suffix)) continue;
          const key = `${certificate.id} ${rule.before}`;
          const due = dueMoments.get(key) ?? dueFrom(certificate.notAfter, rule.before);
          dueMoments.set(key, due);
          if (due <= now)
            expected.add(
              `${rule.id} ${certificate.id} ${rule.isDaily ? `day:${new Date(now).toISOString().slice(0, 10)}` : ""}`,
            );
        }
      }
    };

    // The clock also runs by itself, some seconds in all: whatever is due within a moment of a step is asked at the step.
    let made = 0;
    for (; look < STEPS; look += 1) {
      house.clock.set(new Date(momentOf(look)));
      while (made < (CERTIFICATES * (look + 1)) / STEPS) {
        await happen();
        made += 1;
      }
      const before = house.clock.millis();
      await house.house.alertWork.runNow();
      expect(before);
    }
    for (let hour = 0; hour < 5; hour += 1) {
      await house.house.alertWork.runNow();
      expect(house.clock.millis());
      house.clock.advance(5 * HOUR);
    }
    await house.house.alertWork.runNow();
    expect(house.clock.millis());

    const notices = await house.house.database.read((q) =>
      q.rows<{ alertId: string; certificateId: string; notice: string; deliveryId: string | null }>({
        name: undefined,
        isSlow: false,
        text: `SELECT o.alert_id AS "alertId", o.certificate_id AS "certificateId", o.occasion AS notice, d.id AS "deliveryId" FROM alert_occasions o LEFT JOIN alert_deliveries d ON d.message_id = o.message_id`,
      }),
    );
    const told = new Set<string>();
    const members = new Map<string, Set<string>>();
    for (const { alertId, certificateId, notice, deliveryId } of notices) {
      assert.ok(
        deliveryId !== null && sent.has(deliveryId),
        `${alertId} ${certificateId} ${notice} was never sent`,
      );
      told.add(`${alertId} ${certificateId} ${notice}`);
      members.set(deliveryId, (members.get(deliveryId) ?? new Set()).add(certificateId));
    }
    const isDueAt = (ids: Iterable<string>, at: number): boolean =>
      [...ids].some((id) => {
        const certificate = live.get(id);
        return certificate !== undefined && certificate.overAt > at && certificate.notAfter > momentOf(at);
      });
    const states = await house.house.database.read((q) =>
      q.rows<{ id: string; status: string; error: string | null }>({
        name: undefined,
        isSlow: false,
        text: `SELECT id, status, last_error AS error FROM alert_deliveries`,
      }),
    );
    const OVER =
      "Not sent: its certificates were replaced or revoked or have ended. Before that: answered 503";
    const outcomes: Record<Fate, [string, string | null]> = {
      delivered: ["delivered", null],
      "given up": ["failed", "answered 503 (given up after a day)"],
      "fell silent": ["failed", OVER],
    };
    const fates = new Map<string, Fate>();
    for (const [id, { kind, looks }] of sent) {
      const own = members.get(id) ?? new Set<string>();
      const isAlive = (at: number): boolean => kind !== "expiration" || isDueAt(own, at);
      fates.set(id, fateOf(looks, outages, isAlive));
      for (const at of looks)
        if (!isAlive(at)) surprises.push(`${id} was sent in look ${at}, when nothing of it was due`);
    }
    assert.deepEqual(
      states.map(({ id, status, error }) => [id, status, error]).sort(),
      [...fates].map(([id, fate]) => [id, ...outcomes[fate]]).sort(),
      "what became of each message",
    );
    assert.deepEqual(
      [...accepted].sort(),
      [...fates].flatMap(([id, fate]) => (fate === "delivered" ? [id] : [])).sort(),
    );
    const count = (fate: Fate): number => [...fates.values()].filter((one) => one === fate).length;
    const summary = `${count("given up")} given up and ${count("fell silent")} fallen silent of ${sent.size}`;
    assert.ok(count("given up") > 0 && count("fell silent") > 0, summary);
    assert.ok(count("delivered") > sent.size / 2, summary);

    for (const [id, message] of sent) {
      if (message.kind !== "expiration") {
        const key = `${message.alertId} ${message.shown[0]} ${message.kind}`;
        if (told.has(key)) surprises.push(`${key} was told twice`);
        told.add(key);
        continue;
      }
      const group = members.get(id) ?? new Set();
      assert.equal(message.total, group.size);
      assert.equal(message.shown.length, Math.min(20, group.size));
      for (const certificateId of message.shown) assert.ok(group.has(certificateId));
    }
    assert.deepEqual(surprises, []);
    assert.deepEqual(
      [...expected].filter((key) => !told.has(key)),
      [],
      "should have been told",
    );
    assert.deepEqual(
      [...told].filter((key) => !expected.has(key)),
      [],
      "should not have been told",
    );
    assert.ok(
      told.size > CERTIFICATES,
      `a simulation in which hardly anything happens proves little: ${told.size}`,
    );
  },
);
