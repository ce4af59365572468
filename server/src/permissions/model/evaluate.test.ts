import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { compileGlob } from "../../platform/glob.ts";
import { compileRules } from "./evaluate.ts";
import type { Conditions, Rule, ScalarOperators } from "./rules.ts";

function reading(conditions?: Conditions, inverted = false): Rule {
  return { subject: "secrets", action: "readValue", inverted, ...(conditions ? { conditions } : {}) };
}

describe("can", () => {
  test("is no without rules", () => {
    assert.equal(compileRules([]).can("readValue", "secrets", {}), false);
    assert.equal(compileRules([]).can("readValue", "secrets"), false);
  });

  test("is yes for the named action and subject only", () => {
    const ability = compileRules([reading()]);
    assert.equal(ability.can("readValue", "secrets", { environment: "dev" }), true);
    assert.equal(ability.can("edit", "secrets"), false);
    assert.equal(ability.can("read", "tags"), false);
  });

  test("refuses to be asked about something that does not exist", () => {
    const admin = compileRules([{ subject: "all", action: "manage" }]);
    assert.throws(() => admin.can("raed", "secrets"), /no such permission/);
    assert.throws(() => admin.can("read", "constructor"), /no such permission/);
    assert.equal(admin.can("create", "secrets"), true);
  });

  test("takes aliases on either side", () => {
    const sent = compileRules([
      { subject: "secret-event-subscriptions", action: "subscribe-to-creation-events" },
    ]);
    assert.equal(sent.can("create", "secret-events"), true);
    assert.equal(sent.can("delete", "secret-events"), false);
    const plain = compileRules([{ subject: "secret-events", action: "read" }]);
    assert.equal(plain.can("subscribe-to-import-mutation-events", "secret-event-subscriptions"), true);
  });

  test("read on secrets is describing and reading the value, granted, asked or denied", () => {
    const both = compileRules([{ subject: "secrets", action: "read" }]);
    assert.equal(both.can("describeSecret", "secrets"), true);
    assert.equal(both.can("readValue", "secrets"), true);
    const one = compileRules([{ subject: "secrets", action: "describeSecret" }]);
    assert.equal(one.can("read", "secrets"), false);
    const denied = compileRules([
      { subject: "secrets", action: ["describeSecret", "readValue"] },
      { subject: "secrets", action: "read", inverted: true },
    ]);
    assert.equal(denied.can("readValue", "secrets"), false);
  });

  test("a denial wins wherever it stands", () => {
    const allow = reading();
    const deny = reading({ environment: "prod" }, true);
    for (const rules of [
      [allow, deny],
      [deny, allow],
    ]) {
      assert.equal(compileRules(rules).can("readValue", "secrets", { environment: "prod" }), false);
      assert.equal(compileRules(rules).can("readValue", "secrets", { environment: "dev" }), true);
    }
  });

  test("a denial binds an administrator as well", () => {
    const ability = compileRules([
      { subject: "all", action: "manage" },
      reading({ environment: "prod" }, true),
    ]);
    assert.equal(ability.can("readValue", "secrets", { environment: "prod" }), false);
    assert.equal(ability.can("edit", "secrets", { environment: "prod" }), true);
  });

  test("an attribute that is not given never helps: no for allowing rules, yes for denying ones", () => {
    assert.equal(
      compileRules([reading({ environment: { $ne: "prod" } })]).can("readValue", "secrets", {}),
      false,
    );
    assert.equal(
      compileRules([reading(), reading({ environment: "prod" }, true)]).can("readValue", "secrets", {}),
      false,
    );
  });

  test("a value of the wrong kind counts as not given", () => {
    const allow = compileRules([reading({ environment: { $ne: "prod" } })]);
    assert.equal(allow.can("readValue", "secrets", { environment: ["dev"] }), false);
    const deny = compileRules([reading(), reading({ secretTags: { $in: ["x"] } }, true)]);
    assert.equal(deny.can("readValue", "secrets", { secretTags: "x" }), false);
    assert.equal(deny.can("readValue", "secrets", { secretTags: [] }), true);
  });

  test("a path in another spelling counts as not given", () => {
    const allow = compileRules([reading({ secretPath: { $glob: "/a/**" } })]);
    const deny = compileRules([reading(), reading({ secretPath: { $glob: "/b/**" } }, true)]);
    assert.equal(allow.can("readValue", "secrets", { secretPath: "/a/x" }), true);
    assert.equal(deny.can("readValue", "secrets", { secretPath: "/a/x" }), true);
    for (const secretPath of ["/a/../b", "/a//x", "/a/", "a", "/a/./x", "/a\u0000"]) {
      assert.equal(allow.can("readValue", "secrets", { secretPath }), false, secretPath);
      assert.equal(deny.can("readValue", "secrets", { secretPath }), false, secretPath);
    }
  });

  test("each path is judged by itself, whatever was asked before", () => {
    const ability = compileRules([reading({ secretPath: { $glob: "/a/**" } })]);
    for (const [secretPath, expected] of [
      ["/a/bb/c", true],
      ["/a/../c", false],
      ["/a/bb/c", true],
    ] as const) {
      assert.equal(ability.can("readValue", "secrets", { secretPath }), expected, secretPath);
    }
  });

  test("without attributes it asks whether it is possible at all", () => {
    assert.equal(compileRules([reading({ environment: "dev" })]).can("readValue", "secrets"), true);
    assert.equal(
      compileRules([reading(), reading({ environment: "dev" }, true)]).can("readValue", "secrets"),
      true,
    );
    assert.equal(
      compileRules([reading({ environment: "dev" }), reading(undefined, true)]).can("readValue", "secrets"),
      false,
    );
    assert.equal(compileRules([reading(undefined, true)]).can("readValue", "secrets"), false);
  });

  test("a plain secret path is exact, a pattern is not", () => {
    const ability = compileRules([reading({ secretPath: "/a" }), reading({ secretPath: { $glob: "/b/*" } })]);
    const at = (secretPath: string): boolean => ability.can("readValue", "secrets", { secretPath });
    assert.deepEqual(["/a", "/a/b", "/b", "/b/c", "/b/c/d"].map(at), [true, false, false, true, false]);
  });

  test("a wildcard inside a plain value is a character, not a wildcard", () => {
    const ability = compileRules([reading({ environment: "*", secretPath: { $in: ["/**"] } })]);
    assert.equal(ability.can("readValue", "secrets", { environment: "dev", secretPath: "/a" }), false);
    assert.equal(ability.can("readValue", "secrets", { environment: "*", secretPath: "/**" }), true);
  });

  test("tags: $in is any of them, $all is each of them", () => {
    const ability = compileRules([reading({ secretTags: { $in: ["a", "b"], $all: ["c"] } })]);
    const tagged = (...secretTags: string[]): boolean => ability.can("readValue", "secrets", { secretTags });
    assert.deepEqual(
      [tagged("a", "c"), tagged("b", "c", "d"), tagged("a"), tagged("c"), tagged()],
      [true, true, false, false, false],
    );
  });

  test("metadata: one pair must satisfy key and value together", () => {
    const metadata = { $elemMatch: { key: { $eq: "team" }, value: { $in: ["red", "blue"] } } };
    const ability = compileRules([{ subject: "dynamic-secrets", action: "lease", conditions: { metadata } }]);
    const lease = (...pairs: [string, string][]): boolean =>
      ability.can("lease", "dynamic-secrets", { metadata: pairs.map(([key, value]) => ({ key, value })) });
    assert.equal(lease(["x", "y"], ["team", "red"]), true);
    assert.equal(lease(["team", "green"], ["x", "red"]), false);
    assert.equal(lease(), false);
  });

  test("several names: an allowing rule must hold for each, a denying rule for any", () => {
    const altNames = { $glob: "*.good.test" };
    const allow = compileRules([{ subject: "certificates", action: "create", conditions: { altNames } }]);
    assert.equal(allow.can("create", "certificates", { altNames: ["a.good.test", "b.good.test"] }), true);
    assert.equal(allow.can("create", "certificates", { altNames: ["a.good.test", "evil.test"] }), false);
    assert.equal(allow.can("create", "certificates", { altNames: [] }), false);
    assert.equal(allow.can("create", "certificates", { altNames: "a.good.test" }), true);
    const deny = compileRules([
      { subject: "certificates", action: "create" },
      { subject: "certificates", action: "create", conditions: { altNames: "evil.test" }, inverted: true },
    ]);
    assert.equal(deny.can("create", "certificates", { altNames: ["a.good.test", "evil.test"] }), false);
    assert.equal(deny.can("create", "certificates", { altNames: ["a.good.test"] }), true);
  });

  test("a stored condition that cannot be read allows nothing and denies everything", () => {
    const broken: readonly Conditions[] = [
      { environment: { $glob: "{" } },
      { gone: "x" },
      { environment: {} },
      { secretTags: "x" },
      JSON.parse('{"environment":{"$regex":"."}}') as Conditions,
      JSON.parse('{"environment":null}') as Conditions,
    ];
    for (const conditions of broken) {
      const attributes = { environment: "dev", gone: "x", secretTags: ["x"] };
      assert.equal(compileRules([reading(conditions)]).can("readValue", "secrets", attributes), false);
      assert.equal(
        compileRules([reading(), reading(conditions, true)]).can("readValue", "secrets", attributes),
        false,
      );
    }
  });

  test("a stored rule about an unknown subject or action changes nothing", () => {
    const ability = compileRules([{ subject: ["gone", "tags"], action: ["vanish", "read"] }]);
    assert.equal(ability.can("read", "tags"), true);
  });
});

describe("explain", () => {
  const allow = reading({ environment: "dev" });
  const deny = reading({ secretPath: "/x" }, true);
  const ability = compileRules([allow, deny, { subject: "tags", action: "read" }]);

  test("names the rule that settled it and all that were looked at", () => {
    const considered = [
      { action: "readValue", subject: "secrets", conditions: { secretPath: "/x" }, inverted: true },
      { action: "readValue", subject: "secrets", conditions: { environment: "dev" }, inverted: false },
    ];
    const ask = (environment: string, secretPath: string): unknown =>
      ability.explain("readValue", "secrets", { environment, secretPath });
    assert.deepEqual(ask("dev", "/"), { allowed: true, decidedBy: allow, considered });
    assert.deepEqual(ask("dev", "/x"), { allowed: false, decidedBy: deny, considered });
    assert.deepEqual(ask("prod", "/"), { allowed: false, decidedBy: null, considered });
  });

  test("an unknown pair is not allowed and nothing speaks about it", () => {
    assert.deepEqual(ability.explain("fly", "secrets"), { allowed: false, decidedBy: null, considered: [] });
  });

  test("a rule that speaks about both halves of read is listed once", () => {
    const rule: Rule = { subject: "secrets", action: "read" };
    assert.deepEqual(compileRules([rule]).rulesFor("read", "secrets"), [rule]);
  });
});

// ---- against a reading of the rules as they stand ----------------------------------------------------------

function plainlyHolds(operators: string | ScalarOperators, value: string, mode: "path" | "text"): boolean {
  if (typeof operators === "string") return value === operators;
  const { $eq, $ne, $in, $nin, $glob } = operators;
  const compiled = $glob === undefined ? null : compileGlob($glob, mode);
  return (
    ($eq === undefined || value === $eq) &&
    ($ne === undefined || value !== $ne) &&
    ($in === undefined || $in.includes(value)) &&
    ($nin === undefined || !$nin.includes(value)) &&
    (compiled === null || (compiled.ok && compiled.glob.matches(value)))
  );
}

function plainlyApplies(rule: Rule, attributes: Readonly<Record<string, string>>): boolean {
  return Object.entries(rule.conditions ?? {}).every(([attribute, operators]) => {
    const value = attributes[attribute];
    if (value === undefined) return rule.inverted === true;
    return plainlyHolds(operators, value, attribute === "secretPath" ? "path" : "text");
  });
}

describe("against the definition", () => {
  const environments = ["dev", "prod", "x"];
  const paths = ["/", "/a", "/a/b", "/b"];
  const scalar = (
    values: readonly string[],
    globs: readonly string[],
  ): fc.Arbitrary<ScalarOperators | string> =>
    fc.oneof(
      fc.constantFrom(...values),
      fc
        .record(
          {
            $eq: fc.constantFrom(...values),
            $ne: fc.constantFrom(...values),
            $in: fc.uniqueArray(fc.constantFrom(...values), { minLength: 1 }),
            $nin: fc.uniqueArray(fc.constantFrom(...values), { minLength: 1 }),
            $glob: fc.constantFrom(...globs),
          },
          { requiredKeys: [] },
        )
        .filter((operators) => Object.keys(operators).length > 0),
    );
  const rule: fc.Arbitrary<Rule> = fc.record(
    {
      subject: fc.constantFrom<string | string[]>("secrets", ["secrets", "secret-folders"]),
      action: fc.constantFrom<string | string[]>("create", ["create", "edit"], "edit"),
      conditions: fc.record(
        {
          environment: scalar(environments, ["*", "d*", "{dev,prod}"]),
          secretPath: scalar(paths, ["/**", "/a/**", "/*"]),
        },
        { requiredKeys: [] },
      ),
      inverted: fc.boolean(),
    },
    { requiredKeys: ["subject", "action"] },
  );
  const attributes = fc.record(
    { environment: fc.constantFrom(...environments), secretPath: fc.constantFrom(...paths) },
    { requiredKeys: [] },
  );

  test("can is: some allowing rule applies and no denying rule does", () => {
    const seen = { yes: 0, no: 0 };
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 4 }), attributes, (rules, given) => {
        const speaking = rules.filter((one) => [one.action].flat().includes("edit"));
        const expected =
          speaking.some((one) => one.inverted !== true && plainlyApplies(one, given)) &&
          !speaking.some((one) => one.inverted === true && plainlyApplies(one, given));
        const ability = compileRules(rules);
        assert.equal(ability.can("edit", "secrets", given), expected);
        assert.equal(ability.explain("edit", "secrets", given).allowed, expected);
        assert.equal(compileRules([...rules].reverse()).can("edit", "secrets", given), expected);
        seen[expected ? "yes" : "no"] += 1;
      }),
      { numRuns: 3000 },
    );
    assert.ok(seen.yes > 100 && seen.no > 100, JSON.stringify(seen));
  });

  test("H3 so it is with many rules, which are filed by the value they ask for", () => {
    const seen = { yes: 0, no: 0 };
    const narrow: fc.Arbitrary<Rule> = fc.record(
      {
        subject: fc.constant("secrets"),
        action: fc.constant("edit"),
        conditions: fc.record(
          {
            environment: scalar(environments, ["d*", "{dev,prod}"]),
            secretPath: scalar(paths, ["/a/**", "/*"]),
          },
          { requiredKeys: ["environment"] },
        ),
        inverted: fc.constantFrom(true, false, false, false, false, false, false, false),
      },
      { requiredKeys: ["subject", "action", "conditions", "inverted"] },
    );
    const odd = fc.constantFrom<Record<string, string>>({ secretPath: "a//b" }, { secretPath: "" });
    fc.assert(
      fc.property(
        fc.array(narrow, { minLength: 9, maxLength: 24 }),
        attributes,
        fc.option(odd, { nil: {}, freq: 9 }),
        (rules, given, more) => {
          // A path that is none leaves the question open, as one that is missing does.
          const asked = { ...given, ...more };
          const { secretPath: _none, ...known } = asked;
          const meant = "secretPath" in more ? known : asked;
          const expected =
            rules.some((one) => one.inverted !== true && plainlyApplies(one, meant)) &&
            !rules.some((one) => one.inverted === true && plainlyApplies(one, meant));
          const ability = compileRules(rules);
          assert.equal(ability.can("edit", "secrets", asked), expected);
          assert.equal(ability.explain("edit", "secrets", asked).allowed, expected);
          seen[expected ? "yes" : "no"] += 1;
        },
      ),
      { numRuns: 2000 },
    );
    assert.ok(seen.yes > 100 && seen.no > 100, JSON.stringify(seen));
  });

  test("adding a role's denials never allows more, adding its grants never allows less", () => {
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 3 }), rule, attributes, (rules, extra, given) => {
        const before = compileRules(rules).can("edit", "secrets", given);
        const after = compileRules([...rules, extra]).can("edit", "secrets", given);
        if (extra.inverted === true) assert.ok(before || !after);
        else assert.ok(after || !before);
      }),
      { numRuns: 1000 },
    );
  });
});
