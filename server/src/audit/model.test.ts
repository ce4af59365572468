import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { newId } from "../platform/ids.ts";
import {
  agentTypeOf,
  cutoffOf,
  fromCursor,
  isOutlived,
  monthOf,
  monthOfPartition,
  monthsFrom,
  periodOf,
  toCursor,
} from "./model.ts";

const moments = fc.date({ min: new Date("1971-01-01"), max: new Date("9000-01-01"), noInvalidDate: true });

describe("a cursor", () => {
  it("leads back to the row it was made of", () => {
    fc.assert(
      fc.property(moments, fc.uuid(), (at, id) => {
        assert.deepEqual(fromCursor(toCursor({ at, id })), { at, id });
      }),
    );
  });

  it("of another make is refused as an invalid field", () => {
    const encode = (text: string) => Buffer.from(text).toString("base64url");
    const others = [
      "",
      "x",
      "%%%",
      encode("1.2"),
      encode(`1e3.${newId()}`),
      encode(`-1.${newId()}`),
      encode(`1.${newId()}.x`),
      encode(`1.${newId()}'`),
    ];
    for (const cursor of others) assert.throws(() => fromCursor(cursor), { status: 422 }, cursor);
  });
});

describe("the months of the audit log", () => {
  it("follow each other without gap or overlap, and the first holds the present moment", () => {
    fc.assert(
      fc.property(moments, (now) => {
        const months = monthsFrom(now, 14);
        assert.ok(months[0] && months[0].from <= now && now < months[0].to);
        for (const [index, month] of months.entries()) {
          if (index > 0) assert.deepEqual(month.from, months[index - 1]?.to);
          assert.deepEqual([month.from.getUTCDate(), month.from.getUTCHours()], [1, 0]);
          assert.deepEqual(monthOfPartition(month.partition), month);
        }
      }),
    );
  });

  it("are named after year and month in UTC", () => {
    assert.equal(
      monthsFrom(new Date("2031-12-31T23:59:59.999Z"), 2)
        .map((month) => month.partition)
        .join(),
      "audit_log_2031_12,audit_log_2032_01",
    );
  });

  it("are told from other tables by their names", () => {
    for (const name of [
      "audit_log_default",
      "audit_log",
      "audit_log_2031_13",
      "audit_log_2031_00",
      "audit_log_2031_1",
      "x_audit_log_2031_01",
      "audit_log_2031_01_x",
    ]) {
      assert.equal(monthOfPartition(name), undefined, name);
    }
  });

  it("are outlived only when their very last moment is older than what is kept", () => {
    const april = monthOf(2031, 3);
    assert.equal(isOutlived(april, cutoffOf(new Date("2031-05-31T00:00:00Z"), 30)), true);
    assert.equal(isOutlived(april, cutoffOf(new Date("2031-05-30T23:59:59Z"), 30)), false);
  });
});

describe("the period of a question", () => {
  const now = new Date("2031-05-31T00:00:00Z");
  it("is the last thirty days, or the thirty days before the end that was given", () => {
    assert.deepEqual(periodOf({}, now), { from: new Date("2031-05-01T00:00:00Z"), to: undefined });
    const endDate = new Date("2030-01-31T00:00:00Z");
    assert.deepEqual(periodOf({ endDate }, now), { from: new Date("2030-01-01T00:00:00Z"), to: endDate });
  });
});

describe("the kind of a user agent", () => {
  it("is told from its name", () => {
    const kinds = {
      "keyward-cli/0.1.0": "cli",
      cli: "cli",
      "Mozilla/5.0 (X11)": "web",
      "terraform-provider": "terraform",
      "infisical-nodejs-sdk": "sdk",
      "curl/8": "other",
      "": "other",
    };
    for (const [agent, kind] of Object.entries(kinds)) assert.equal(agentTypeOf(agent), kind, agent);
    assert.equal(agentTypeOf(null), "other");
  });
});
