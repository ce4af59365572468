import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { backOffMs, judge } from "./deliveries/model.ts";
import { digestIsDue, dueFrom, endWindow, isDue, type AlertRow } from "./model.ts";
import { contentOf, needsFullLook, type NoticeCertificateRow } from "./notices/model.ts";
import { sized } from "../../test/full-size.ts";

const at = (text: string): Date => new Date(text);

describe("when a certificate is due", () => {
  const cases: readonly [string, string, string][] = [
    ["2026-03-31T10:00:00Z", "1m", "2026-02-28T10:00:00.000Z"],
    ["2028-03-31T10:00:00Z", "1m", "2028-02-29T10:00:00.000Z"],
    ["2026-03-28T10:00:00Z", "1m", "2026-02-28T10:00:00.000Z"],
    ["2028-02-29T10:00:00Z", "1y", "2027-02-28T10:00:00.000Z"],
    ["2026-01-15T10:00:00Z", "3m", "2025-10-15T10:00:00.000Z"],
    ["2029-03-31T10:00:00Z", "13m", "2028-02-29T10:00:00.000Z"],
    ["2030-01-31T10:00:00Z", "23m", "2028-02-29T10:00:00.000Z"],
    ["2026-03-30T10:00:00Z", "1d", "2026-03-29T10:00:00.000Z"],
    ["2026-03-30T10:00:00Z", "2w", "2026-03-16T10:00:00.000Z"],
    ["2026-03-30T10:00:00Z", "36h", "2026-03-28T22:00:00.000Z"],
  ];
  for (const [end, before, due] of cases)
    test(`${before} before ${end} is ${due}`, () =>
      assert.equal(dueFrom(at(end), before).toISOString(), due));

  test("it is due from that very moment until its end, and not at its end", () => {
    const end = at("2026-03-30T10:00:00Z");
    assert.equal(isDue(end, "1d", at("2026-03-29T09:59:59.999Z")), false);
    assert.equal(isDue(end, "1d", at("2026-03-29T10:00:00Z")), true);
    assert.equal(isDue(end, "1d", at("2026-03-30T09:59:59.999Z")), true);
    assert.equal(isDue(end, "1d", end), false);
  });

  test("no certificate that became due lies outside the window of ends", () => {
    const moment = fc.integer({ min: Date.UTC(2024, 0, 1), max: Date.UTC(2029, 0, 1) });
    const before = fc
      .tuple(fc.integer({ min: 1, max: 400 }), fc.constantFrom("h", "d", "w", "m", "y"))
      .map(([count, unit]) => `${unit === "y" ? (count % 5) + 1 : count}${unit}`);
    fc.assert(
      fc.property(
        moment,
        fc.integer({ min: 0, max: 40 * 86_400_000 }),
        before,
        fc.integer({ min: -6 * 86_400_000, max: 6 * 86_400_000 }),
        (nowMillis, gap, alertBefore, offset) => {
          const now = new Date(nowMillis);
          const since = new Date(nowMillis - gap);
          const { low, high } = endWindow(alertBefore, since, now);
          for (const edge of [low, high]) {
            const end = new Date(edge.getTime() + offset);
            const becameDue = isDue(end, alertBefore, now) && dueFrom(end, alertBefore) > since;
            if (becameDue)
              assert.ok(
                end > low && end <= high,
                `${end.toISOString()} outside ${low.toISOString()} … ${high.toISOString()}`,
              );
          }
        },
      ),
      { numRuns: sized(600, 3000) },
    );
  });

  test("the window of a minute is a minute wide, but for the last days of a month", () => {
    const { low, high } = endWindow("1m", at("2026-05-10T10:00:00Z"), at("2026-05-10T10:01:00Z"));
    assert.equal(high.getTime() - low.getTime(), 60_000);
  });

  test("9999 years ahead stays within what a certificate can say", () => {
    assert.equal(
      endWindow("9999y", null, at("2026-05-10T10:00:00Z")).high.toISOString(),
      "9999-12-31T23:59:59.999Z",
    );
    assert.equal(isDue(at("9999-12-31T23:59:59Z"), "9999y", at("2026-01-01T00:00:00Z")), true);
  });
});

test("a digest is due when its hour or day is over", () => {
  const gathered = at("2026-05-10T10:59:00Z");
  assert.equal(digestIsDue("hourly", gathered, at("2026-05-10T10:59:59Z")), false);
  assert.equal(digestIsDue("hourly", gathered, at("2026-05-10T11:00:00Z")), true);
  assert.equal(digestIsDue("daily", gathered, at("2026-05-10T23:59:59Z")), false);
  assert.equal(digestIsDue("daily", gathered, at("2026-05-11T00:00:00Z")), true);
  assert.equal(digestIsDue(null, gathered, gathered), true);
});

describe("after an attempt", () => {
  const now = at("2026-05-10T10:00:00Z");
  const attempt = {
    attempts: 3,
    firstAttemptAt: at("2026-05-10T09:00:00Z"),
    createdAt: at("2026-05-10T09:58:00Z"),
    now,
    chance: 0.5,
  };

  test("distances grow, with jitter, up to some hours", () => {
    assert.deepEqual(
      [1, 2, 3, 20].map((n) => backOffMs(n, 0.5)),
      [15_000, 30_000, 60_000, 10_800_000],
    );
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (n, chance) => assert.ok(backOffMs(n, chance) >= 7_500 && backOffMs(n, chance) <= 16_200_000),
      ),
    );
  });
  test("what was taken is delivered, what was refused is failed", () => {
    assert.deepEqual(judge({ kind: "taken" }, attempt), { status: "delivered" });
    assert.deepEqual(judge({ kind: "refused", reason: "answered 410" }, attempt), {
      status: "failed",
      error: "answered 410",
    });
  });
  test("the last attempt falls on the end of a day, then it is failed", () => {
    const late = { ...attempt, firstAttemptAt: at("2026-05-09T10:00:30Z") };
    assert.deepEqual(judge({ kind: "later", reason: "x" }, late), {
      status: "pending",
      error: "x",
      nextAt: at("2026-05-10T10:00:30Z"),
      counts: true,
    });
    assert.equal(
      judge({ kind: "later", reason: "x" }, { ...late, now: at("2026-05-10T10:00:30Z") }).status,
      "failed",
    );
  });
  test("a receiver's retry-after is honoured", () => {
    assert.deepEqual(judge({ kind: "later", reason: "x", afterSeconds: 600 }, attempt), {
      status: "pending",
      error: "x",
      nextAt: at("2026-05-10T10:10:00Z"),
      counts: true,
    });
  });
  test("without a mail server it waits for ever and counts no attempt", () => {
    const old = { ...attempt, firstAttemptAt: at("2020-01-01T00:00:00Z") };
    assert.deepEqual(judge({ kind: "unready", reason: "x" }, old), {
      status: "pending",
      error: "x",
      nextAt: at("2026-05-10T10:01:00Z"),
      counts: false,
    });
  });

  test("a mail that has waited for a mail server for long is tried less often, within the hour", () => {
    const waitMs = (createdAt: string, chance: number): number => {
      const verdict = judge(
        { kind: "unready", reason: "x" },
        { ...attempt, createdAt: at(createdAt), chance },
      );
      assert.equal(verdict.status, "pending");
      return verdict.status === "pending" ? verdict.nextAt.getTime() - now.getTime() : 0;
    };
    assert.equal(waitMs("2026-05-10T08:00:00Z", 0.5), 30 * 60_000);
    assert.ok(waitMs("2026-05-10T08:00:00Z", 0) < waitMs("2026-05-10T08:00:00Z", 1));
    assert.equal(waitMs("2026-01-01T00:00:00Z", 0.5), 3_600_000);
  });
});

describe("an alert looks at its whole window", () => {
  const now = at("2026-03-30T10:00:00Z");
  const looks = (lookedAt: Date | null, isDaily = false) =>
    needsFullLook({ lookedAt, isDaily } as AlertRow, now);

  test("the first time, after a whole day, and after a look from the future", () => {
    assert.equal(looks(null), true);
    assert.equal(looks(at("2026-03-29T10:00:00Z")), true);
    assert.equal(looks(at("2026-03-29T10:00:00.001Z")), false);
    assert.equal(looks(now), false);
    assert.equal(looks(at("2026-03-30T10:00:00.001Z")), true);
  });

  test("on every new day if it speaks daily", () => {
    assert.equal(looks(at("2026-03-29T23:59:59.999Z"), true), true);
    assert.equal(looks(at("2026-03-30T00:00:00Z"), true), false);
    assert.equal(looks(at("2026-03-29T23:59:59.999Z"), false), false);
  });
});

test("a message says in how many whole days a certificate ends, and whether it has", () => {
  const now = at("2026-03-30T10:00:00Z");
  const told = (notAfter: string, revokedAt: Date | null = null) => {
    const times = { notBefore: at("2026-01-01T00:00:00Z"), notAfter: at(notAfter), revokedAt };
    const row = { id: "c", ...times, revocationReason: 1 } as NoticeCertificateRow;
    const alert = { id: "a", projectId: "p" } as AlertRow;
    const wish = { alert, kind: "expiration", certificates: [row], total: 1, now, publicUrl: "" } as const;
    const [one] = contentOf(wish).certificates;
    return [one?.daysUntilExpiry, one?.status, one?.revocationReason];
  };
  assert.deepEqual(told("2026-04-09T10:00:00Z"), [10, "active", undefined]);
  assert.deepEqual(told("2026-04-09T09:59:59Z"), [9, "active", undefined]);
  assert.deepEqual(told("2026-03-30T10:00:00Z"), [0, "expired", undefined]);
  assert.deepEqual(told("2026-03-29T10:00:00Z"), [-1, "expired", undefined]);
  assert.deepEqual(told("2026-04-09T10:00:00Z", now), [10, "revoked", "KEY_COMPROMISE"]);
});
