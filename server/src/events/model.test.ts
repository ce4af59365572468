import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { Problem } from "../platform/problem.ts";
import { MAX_DEPTH, MAX_PATH_LENGTH } from "../secrets/paths.contract.ts";
import { choicesOf, MAX_CHOICES, readRegister, type EventGlobFilter } from "./model.ts";
import { sized } from "../../test/full-size.ts";

/** The longest paths there are, of letters that the globs below are full of. */
const PATHS = [
  `/${"a".repeat(255)}/${"a".repeat(255)}`,
  `/${"ab".repeat(127)}/${"ba".repeat(127)}`,
  "/a".repeat(MAX_DEPTH),
  `/${Array.from({ length: MAX_DEPTH }, () => "a".repeat(15)).join("/")}`,
];
/** Some three to five milliseconds. */
const MAX_STEPS = 600_000;

const fragment = fc.constantFrom(
  "*",
  "*a",
  "?",
  "?*",
  "a",
  "b",
  "[ab]",
  "[ab]*",
  "{a,aa}",
  "{a,b*}",
  "/",
  "/**/",
  "/*/",
);
const pattern = fc
  .tuple(fc.array(fragment, { minLength: 1, maxLength: 8 }), fc.integer({ min: 1, max: 60 }))
  .map(([parts, times]) => `/${parts.join("").repeat(times)}`.replace(/\/{2,}/g, "/").slice(0, 512));
const patternAndAll = fc
  .tuple(pattern, fc.boolean())
  .map(([text, isAll]) => (isAll ? `${text.slice(0, 508)}/**`.replace(/\/{2,}/g, "/") : text));

const read = (globs: readonly string[]): readonly EventGlobFilter[] | undefined => {
  try {
    return readRegister(globs.map((secretPath) => ({ event: "secret:create", conditions: { secretPath } })));
  } catch (error) {
    assert.equal((error as Problem).status, 422);
    return undefined;
  }
};
const stepsOf = (filters: readonly EventGlobFilter[], path: string): number =>
  filters.reduce((sum, { glob }) => {
    const { shape } = glob ?? {};
    return shape?.kind === "general" && path.startsWith(shape.stem)
      ? sum + (glob?.trace(path).steps ?? 0)
      : sum;
  }, 0);

describe("what a subscription registers", () => {
  it("E-05 costs an event a bounded number of steps, whatever globs were accepted", () => {
    let accepted = 0;
    const globs = fc.array(patternAndAll, { minLength: 1, maxLength: 100 });
    fc.assert(
      fc.property(globs, (all) => {
        // Of a register that is refused as a whole, as much as would have been accepted.
        const fitting: string[] = [];
        let choices = 0;
        for (const one of new Set(all)) {
          const own = read([one])?.reduce((sum, filter) => sum + choicesOf(filter), 0);
          if (own === undefined || choices + own > MAX_CHOICES) continue;
          choices += own;
          fitting.push(one);
        }
        const filters = read(fitting);
        assert.ok(filters, "what fits is accepted");
        accepted += filters.length;
        for (const path of PATHS) {
          assert.ok(path.length <= MAX_PATH_LENGTH);
          const steps = stepsOf(filters, path);
          assert.ok(steps <= MAX_STEPS, `${steps} steps for ${path.slice(0, 20)}…`);
        }
      }),
      { numRuns: sized(15, 60) },
    );
    assert.ok(accepted > sized(4, 60));
  });

  it("E-05 costs the most with one glob of nothing but wildcards, and that is within the bound too", () => {
    const small = Array.from({ length: 98 }, (_, n) => `/${"?".repeat(n)}[ab]/**`);
    for (const most of [`/${"*a".repeat(207)}`, `/${"?*".repeat(207)}`, `/${"{a,aa}".repeat(68)}`]) {
      const filters = read([most, `${most}a`, ...small]);
      assert.ok(filters);
      for (const path of PATHS) assert.ok(stepsOf(filters, path) <= MAX_STEPS);
    }
  });

  it("may be a hundred ordinary globs", () => {
    for (const make of [
      (n: number) => `/team-${n}*/**`,
      (n: number) => `/a${n}/*/b/**`,
      (n: number) => `/*/service-${n}/*/{dev,prod}*/**`,
      (n: number) => `/**/${n}/**/config*`,
    ])
      assert.equal(read(Array.from({ length: 100 }, (_, n) => make(n)))?.length, 100, make(1));
  });

  it("is refused as a whole, with every reason, when its globs leave more choices than one event may cost", () => {
    const register = ["/*".repeat(255), "nowhere", `/${"*a".repeat(255)}`, "/*/*b*"].map((secretPath) => ({
      event: "secret:create" as const,
      conditions: { secretPath },
    }));
    assert.throws(
      () => readRegister(register),
      (error: Problem) => error.status === 422 && JSON.stringify(error).includes("wildcards"),
    );
    assert.equal(
      read(["/?/**", "/[ab]"])?.reduce((sum, filter) => sum + choicesOf(filter), 0),
      2,
    );
    assert.equal(
      read(["/a/**", "/b", "/**"])?.reduce((sum, filter) => sum + choicesOf(filter), 0),
      0,
    );
  });
});
