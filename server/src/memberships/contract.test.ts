import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { rangeSeconds, roleAssignment } from "./contract.ts";
import { sized } from "../../test/full-size.ts";

/** The slow and obvious reading of a range. */
function slowSeconds(range: string): number | undefined {
  const units = new Map([
    ["s", 1],
    ["m", 60],
    ["h", 60 * 60],
    ["d", 24 * 60 * 60],
    ["w", 7 * 24 * 60 * 60],
  ]);
  const unit = units.get(range.at(-1) ?? "");
  const digits = [...range.slice(0, -1)];
  if (unit === undefined || digits.length === 0 || digits[0] === "0") return undefined;
  if (digits.some((digit) => !"0123456789".includes(digit))) return undefined;
  const seconds = Number(digits.join("")) * unit;
  return digits.length <= 10 && seconds <= 100 * 366 * 24 * 60 * 60 ? seconds : undefined;
}

describe("a role to assign", () => {
  const parse = (given: Record<string, unknown>) => roleAssignment.safeParse({ role: "viewer", ...given });

  it("takes exactly the ranges that are a number and a unit, up to a hundred years", () => {
    const likely = fc
      .tuple(fc.nat({ max: 4_000_000_000 }), fc.constantFrom("s", "m", "h", "d", "w", "y", "", "S", " s"))
      .map(([number, unit]) => `${number}${unit}`);
    fc.assert(
      fc.property(fc.oneof(likely, fc.string({ maxLength: 12 })), (temporaryRange) => {
        const wanted = slowSeconds(temporaryRange);
        const parsed = parse({ isTemporary: true, temporaryRange });
        assert.equal(parsed.success, wanted !== undefined, temporaryRange);
        if (parsed.success && parsed.data.isTemporary) assert.equal(rangeSeconds(parsed.data.range), wanted);
      }),
    );
  });

  it("ends, whatever is accepted, at a moment that the calendar and the database know", () => {
    const start = fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
    fc.assert(
      fc.property(
        start,
        fc.nat({ max: 999_999 }),
        fc.constantFrom("s", "m", "h", "d", "w"),
        (at, number, unit) => {
          const parsed = parse({
            isTemporary: true,
            temporaryRange: `${number}${unit}`,
            temporaryAccessStartTime: at,
          });
          if (!parsed.success || !parsed.data.isTemporary || !parsed.data.startsAt) return;
          const end = new Date(parsed.data.startsAt.getTime() + rangeSeconds(parsed.data.range) * 1000);
          assert.match(end.toISOString(), /^\d{4}-/);
          assert.equal(parsed.data.startsAt.toISOString(), at);
        },
      ),
      { numRuns: sized(200, 500) },
    );
  });

  it("reads none of the temporary fields of a permanent one", () => {
    const anything = fc.anything();
    fc.assert(
      fc.property(anything, anything, anything, (temporaryMode, temporaryRange, temporaryAccessStartTime) => {
        const parsed = parse({ isTemporary: false, temporaryMode, temporaryRange, temporaryAccessStartTime });
        assert.deepEqual(parsed.data, { role: "viewer", isTemporary: false });
      }),
    );
  });
});
