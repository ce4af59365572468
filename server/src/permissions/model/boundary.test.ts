import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { missingFrom } from "./boundary.ts";
import { builtinRules } from "./builtin.ts";
import { ALL_PAIRS } from "./catalogue.ts";
import { compileTest, conjoin, type AttributeValue } from "./conditions.ts";
import { compileRules } from "./evaluate.ts";
import type { Condition, Conditions, Rule } from "./rules.ts";

function rule(conditions?: Conditions, inverted = false): Rule {
  return { subject: "secrets", action: "create", ...(conditions ? { conditions } : {}), inverted };
}

function within(wanted: readonly Rule[], holder: readonly Rule[]): boolean {
  return missingFrom(compileRules(holder), wanted).length === 0;
}

describe("what a holder may hand out", () => {
  const cases: readonly (readonly [string, readonly Rule[], readonly Rule[], boolean])[] = [
    ["nothing, by nobody", [], [], true],
    ["something, by nobody", [rule()], [], false],
    ["the same", [rule()], [rule()], true],
    ["less, by condition", [rule({ environment: "dev" })], [rule()], true],
    ["more, by dropping the condition", [rule()], [rule({ environment: "dev" })], false],
    [
      "more, even if the holder's pattern takes everything",
      [rule()],
      [rule({ environment: { $glob: "*" } })],
      false,
    ],
    [
      "a listed value",
      [rule({ environment: "dev" })],
      [rule({ environment: { $in: ["dev", "test"] } })],
      true,
    ],
    [
      "an unlisted value",
      [rule({ environment: "x" })],
      [rule({ environment: { $in: ["dev", "test"] } })],
      false,
    ],
    [
      "a list that two rules cover",
      [rule({ environment: { $in: ["dev", "test"] } })],
      [rule({ environment: "dev" }), rule({ environment: "test" })],
      true,
    ],
    ["a value under $ne", [rule({ environment: "dev" })], [rule({ environment: { $ne: "prod" } })], true],
    ["the excluded value", [rule({ environment: "prod" })], [rule({ environment: { $ne: "prod" } })], false],
    [
      "a pattern without the excluded value",
      [rule({ environment: { $glob: "d*" } })],
      [rule({ environment: { $ne: "prod" } })],
      true,
    ],
    [
      "a pattern with the excluded value",
      [rule({ environment: { $glob: "p*" } })],
      [rule({ environment: { $ne: "prod" } })],
      false,
    ],
    [
      "more exclusions",
      [rule({ environment: { $nin: ["a", "b"] } })],
      [rule({ environment: { $ne: "a" } })],
      true,
    ],
    [
      "fewer exclusions",
      [rule({ environment: { $ne: "a" } })],
      [rule({ environment: { $nin: ["a", "b"] } })],
      false,
    ],
    [
      "a narrower pattern",
      [rule({ secretPath: { $glob: "/a/b/**" } })],
      [rule({ secretPath: { $glob: "/a/**" } })],
      true,
    ],
    [
      "a wider pattern",
      [rule({ secretPath: { $glob: "/**" } })],
      [rule({ secretPath: { $glob: "/a/**" } })],
      false,
    ],
    ["a path in a pattern", [rule({ secretPath: "/a" })], [rule({ secretPath: { $glob: "/a/**" } })], true],
    [
      "an added attribute",
      [rule({ environment: "dev", secretPath: "/a" })],
      [rule({ environment: "dev" })],
      true,
    ],
    ["another attribute", [rule({ secretPath: "/a" })], [rule({ environment: "dev" })], false],
    ["what the holder is denied", [rule()], [rule(), rule({ environment: "prod" }, true)], false],
    [
      "what lies beside the denial",
      [rule({ environment: "dev" })],
      [rule(), rule({ environment: "prod" }, true)],
      true,
    ],
    [
      "with the same denial",
      [rule(), rule({ environment: "prod" }, true)],
      [rule(), rule({ environment: "prod" }, true)],
      true,
    ],
    [
      "with a wider denial",
      [rule(), rule({ environment: { $glob: "p*" } }, true)],
      [rule(), rule({ environment: "prod" }, true)],
      true,
    ],
    [
      "with a narrower denial",
      [rule(), rule({ environment: "prod", secretPath: "/a" }, true)],
      [rule(), rule({ environment: "prod" }, true)],
      false,
    ],
    [
      "with a denial narrowed only by what is wanted anyway",
      [rule({ secretPath: "/a" }), rule({ environment: "prod", secretPath: "/a" }, true)],
      [rule(), rule({ environment: "prod" }, true)],
      true,
    ],
    [
      "patterns apart from the denied pattern",
      [rule({ secretPath: { $glob: "/a/**" } })],
      [rule(), rule({ secretPath: { $glob: "/b/**" } }, true)],
      true,
    ],
    [
      "patterns that meet the denied pattern",
      [rule({ secretPath: { $glob: "/**/x" } })],
      [rule(), rule({ secretPath: { $glob: "/b/**" } }, true)],
      false,
    ],
    [
      "more tags required",
      [rule({ secretTags: { $all: ["a", "b"] } })],
      [rule({ secretTags: { $all: ["a"] } })],
      true,
    ],
    [
      "fewer tags required",
      [rule({ secretTags: { $all: ["a"] } })],
      [rule({ secretTags: { $all: ["a", "b"] } })],
      false,
    ],
    [
      "one of fewer tags",
      [rule({ secretTags: { $in: ["a"] } })],
      [rule({ secretTags: { $in: ["a", "b"] } })],
      true,
    ],
    [
      "one of more tags",
      [rule({ secretTags: { $in: ["a", "b"] } })],
      [rule({ secretTags: { $in: ["a"] } })],
      false,
    ],
    [
      "tags say nothing against a denied tag",
      [rule({ secretTags: { $in: ["a"] } })],
      [rule(), rule({ secretTags: { $in: ["b"] } }, true)],
      false,
    ],
    [
      "a broken condition of the holder",
      [rule({ environment: "dev" })],
      [rule({ environment: { $glob: "{" } })],
      false,
    ],
    [
      "a broken denial of the holder",
      [rule({ environment: "dev" })],
      [rule(), rule({ environment: { $glob: "{" } }, true)],
      false,
    ],
  ];
  for (const [what, wanted, holder, expected] of cases) {
    test(`${what}: ${expected ? "yes" : "no"}`, () => assert.equal(within(wanted, holder), expected));
  }

  test("the answer names what is missing, by canonical name, with the conditions as sent", () => {
    const wanted: Rule[] = [
      {
        subject: "secret-event-subscriptions",
        action: ["subscribe-to-creation-events", "subscribe-to-update-events"],
      },
      { subject: "secrets", action: "read", conditions: { environment: "dev" } },
    ];
    const holder = compileRules([
      { subject: "secret-events", action: "create" },
      { subject: "secrets", action: "describeSecret" },
    ]);
    assert.deepEqual(missingFrom(holder, wanted), [
      { action: "readValue", subject: "secrets", conditions: { environment: "dev" } },
      { action: "update", subject: "secret-events" },
    ]);
  });

  test("only who holds the wildcard may hand out the wildcard", () => {
    const admin = builtinRules("project", "admin") ?? [];
    assert.equal(within(admin, admin), true);
    assert.deepEqual(missingFrom(compileRules(builtinRules("project", "member") ?? []), admin), [
      { action: "manage", subject: "all" },
    ]);
    assert.equal(within(admin, [...admin, rule({ environment: "prod" }, true)]), false);
    assert.equal(
      within(
        [{ subject: "secrets", action: "manage" }],
        [{ subject: "secrets", action: ["read", "create", "edit", "delete"] }],
      ),
      false,
    );
    assert.equal(within([{ subject: "secrets", action: "manage" }], admin), true);
  });

  test("a list of every subject is not the wildcard: the wildcard grows with the catalogue", () => {
    const subjects = [...new Set(ALL_PAIRS.map((pair) => pair.subject))];
    const every: Rule = { subject: subjects, action: "manage" };
    assert.equal(within([{ subject: "all", action: "manage" }], [every]), false);
    assert.equal(within([every], [every]), true);
    assert.equal(within([every], [{ subject: "all", action: "manage" }]), true);
  });

  test("names that are listed together may occur together, so two rules for one each do not cover them", () => {
    const issue = (altNames: Condition): Rule => ({
      subject: "certificates",
      action: "create",
      conditions: { altNames },
    });
    const both = [issue({ $in: ["a.x", "b.x"] })];
    assert.equal(within(both, [issue("a.x"), issue("b.x")]), false);
    assert.equal(within(both, [issue({ $glob: "*.x" })]), true);
  });

  test("an unconditional denial is only matched by an unconditional denial", () => {
    const holder = [rule(), rule(undefined, true)];
    assert.equal(within([rule({ environment: "dev" }), rule({ environment: "dev" }, true)], holder), false);
    assert.equal(within([rule({ environment: "dev" }), rule(undefined, true)], holder), true);
  });

  test("hostile roles end in a refusal, not in endless work", () => {
    const nasty = (letter: string): Rule[] =>
      Array.from({ length: 150 }, (_, i) =>
        rule({
          secretPath: { $glob: `/${`{${letter},?}*`.repeat(12)}${i}` },
          environment: { $glob: `*${i}*a*b*` },
        }),
      );
    assert.equal(within(nasty("a"), nasty("b")), false);
  });
});

// ---- property: an empty answer is a proof ------------------------------------------------------------------

interface Question {
  readonly action: string;
  readonly subject: string;
  readonly attributes?: Record<string, AttributeValue>;
}

function combine(
  choices: Readonly<Record<string, readonly (AttributeValue | undefined)[]>>,
): Record<string, AttributeValue>[] {
  return Object.entries(choices).reduce<Record<string, AttributeValue>[]>(
    (all, [name, values]) =>
      all.flatMap((one) => values.map((value) => (value === undefined ? one : { ...one, [name]: value }))),
    [{}],
  );
}

const environments = ["dev", "prod", "pre"];
const paths = ["/", "/a", "/a/b", "/b", "/b/a"];
const names = ["a.x", "b.x", "b.y"];
const tagSets = [[], ["t"], ["u"], ["t", "u"]];
const pairLists = [
  [],
  [{ key: "k", value: "1" }],
  [{ key: "k", value: "2" }],
  [{ key: "l", value: "1" }],
  [
    { key: "k", value: "2" },
    { key: "l", value: "1" },
  ],
];
const questions: readonly Question[] = [
  ...combine({
    environment: [undefined, ...environments],
    secretPath: [undefined, ...paths],
    secretTags: [undefined, ...tagSets],
  }).flatMap((attributes) =>
    ["create", "edit"].map((action) => ({ action, subject: "secrets", attributes })),
  ),
  ...combine({
    altNames: [undefined, [], ["a.x"], ["b.x"], ["a.x", "b.x"], ["b.x", "b.y"], ["a.x", "b.y"]],
    metadata: [undefined, ...pairLists],
  }).map((attributes) => ({ action: "create", subject: "certificates", attributes })),
  { action: "create", subject: "secrets" },
  { action: "edit", subject: "secrets" },
  { action: "create", subject: "certificates" },
];

const scalar = (values: readonly string[], globs: readonly string[]): fc.Arbitrary<Condition> =>
  fc.oneof(
    fc.constantFrom<Condition>(...values),
    fc.record({ $glob: fc.constantFrom(...globs) }),
    fc.record({ $ne: fc.constantFrom(...values) }),
    fc.record({ $in: fc.uniqueArray(fc.constantFrom(...values), { minLength: 1, maxLength: 3 }) }),
    fc.record({ $nin: fc.uniqueArray(fc.constantFrom(...values), { minLength: 1, maxLength: 2 }) }),
    fc.record({ $glob: fc.constantFrom(...globs), $ne: fc.constantFrom(...values) }),
    fc.record({
      $in: fc.uniqueArray(fc.constantFrom(...values), { minLength: 1 }),
      $glob: fc.constantFrom(...globs),
    }),
  );
const someTags = fc.uniqueArray(fc.constantFrom("t", "u"), { minLength: 1 });
const tagCondition: fc.Arbitrary<Condition> = fc.oneof(
  fc.record({ $in: someTags }),
  fc.record({ $all: someTags }),
  fc.record({ $in: someTags, $all: someTags }),
);
const side = (values: readonly string[]) =>
  fc.oneof(fc.record({ $eq: fc.constantFrom(...values) }), fc.record({ $ne: fc.constantFrom(...values) }));
const pairCondition: fc.Arbitrary<Condition> = fc.oneof(
  fc.record({ $elemMatch: fc.record({ key: side(["k", "l"]) }) }),
  fc.record({ $elemMatch: fc.record({ key: side(["k", "l"]), value: side(["1", "2"]) }) }),
);
const secretConditions = fc.record(
  {
    environment: scalar(environments, ["*", "p*", "{dev,prod}", "pr?", "[!d]*"]),
    secretPath: scalar(paths, ["/**", "/a/**", "/*", "/**/a", "/{a,b}", "/b/**"]),
    secretTags: tagCondition,
  },
  { requiredKeys: [] },
);
const certificateConditions = fc.record(
  { altNames: scalar(names, ["*.x", "b*", "*", "b.{x,y}"]), metadata: pairCondition },
  { requiredKeys: [] },
);
const inverted = fc.oneof(
  { weight: 2, arbitrary: fc.constant(false) },
  { weight: 1, arbitrary: fc.constant(true) },
);
const anyRule: fc.Arbitrary<Rule> = fc.oneof(
  fc.record({
    subject: fc.constant("secrets"),
    action: fc.constantFrom<string | string[]>("create", ["create", "edit"]),
    conditions: secretConditions,
    inverted,
  }),
  fc.record({
    subject: fc.constant("certificates"),
    action: fc.constant("create"),
    conditions: certificateConditions,
    inverted,
  }),
  fc.record({ subject: fc.constant("all"), action: fc.constant("manage"), inverted: fc.constant(false) }),
);

/** Rules made from the holder's own by adding conditions, dropping allowances and keeping some denials. */
function narrowed(holder: readonly Rule[], extras: readonly Conditions[], keep: readonly boolean[]): Rule[] {
  return holder
    .filter((_, at) => keep[at] !== false)
    .map((one, at) => {
      const extra = extras[at] ?? {};
      if (one.subject !== "secrets" || one.inverted === true) return one;
      return { ...one, conditions: { ...extra, ...one.conditions } };
    });
}
const wantedAndHolder: fc.Arbitrary<[Rule[], Rule[]]> = fc.oneof(
  fc.tuple(
    fc.array(anyRule, { minLength: 1, maxLength: 3 }),
    fc.array(anyRule, { minLength: 1, maxLength: 4 }),
  ),
  fc
    .tuple(
      fc.array(anyRule, { minLength: 1, maxLength: 4 }),
      fc.array(secretConditions, { minLength: 4, maxLength: 4 }),
      fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
    )
    .map(([holder, extras, keep]): [Rule[], Rule[]] => [narrowed(holder, extras, keep), holder]),
);

describe("the boundary as a property", () => {
  test("whatever is said to be within is within for every question, and it is said often enough to be useful", () => {
    const seen = { contained: 0, proven: 0, outside: 0, substantial: 0 };
    fc.assert(
      fc.property(wantedAndHolder, ([wanted, holder]) => {
        const [asked, held] = [compileRules(wanted), compileRules(holder)];
        const granted = questions.filter((q) => asked.can(q.action, q.subject, q.attributes));
        const excess = granted.find((q) => !held.can(q.action, q.subject, q.attributes));
        const proven = missingFrom(held, wanted).length === 0;
        if (proven) assert.equal(excess, undefined, JSON.stringify({ wanted, holder, excess }));
        if (excess !== undefined) seen.outside += 1;
        else if (granted.length > 0) seen.contained += 1;
        if (excess === undefined && granted.length > 0 && proven) seen.proven += 1;
        if (proven && granted.length > 20) seen.substantial += 1;
      }),
      { numRuns: 3000 },
    );
    assert.ok(seen.outside > 300, JSON.stringify(seen));
    assert.ok(seen.contained > 300, JSON.stringify(seen));
    assert.ok(seen.proven > seen.contained / 2, JSON.stringify(seen));
    assert.ok(seen.substantial > 100, JSON.stringify(seen));
  });

  test("handing out step by step never leads beyond the first holder", () => {
    fc.assert(
      fc.property(
        fc.array(anyRule, { minLength: 1, maxLength: 3 }),
        fc.array(fc.array(anyRule, { maxLength: 2 }), { maxLength: 5 }),
        (first, attempts) => {
          const origin = compileRules(first);
          // Each newcomer is granted a role by the previous one, if the boundary lets it.
          let roles: Rule[] = first;
          for (const attempt of attempts) {
            if (missingFrom(compileRules(roles), attempt).length > 0) continue;
            roles = attempt;
            const ability = compileRules(roles);
            for (const q of questions) {
              if (ability.can(q.action, q.subject, q.attributes)) {
                assert.ok(
                  origin.can(q.action, q.subject, q.attributes),
                  JSON.stringify({ first, attempt, q }),
                );
              }
            }
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  test("everyone may hand out what they hold, as long as it carries their denials", () => {
    fc.assert(
      fc.property(fc.array(anyRule, { maxLength: 4 }), (rules) => {
        const missing = missingFrom(compileRules(rules), rules);
        assert.deepEqual(missing, []);
      }),
      { numRuns: 500 },
    );
  });
});

describe("two tests of one attribute", () => {
  const [tags, others] = [compileTest({ $in: ["a"] }, "tags"), compileTest({ $all: ["b"] }, "tags")];
  const unreadable = compileTest("a", "tags");

  test("are one where both are about tags or about the same kind of text", () => {
    assert.deepEqual(conjoin(tags, others), {
      kind: "tags",
      anyOf: [new Set(["a"])],
      allOf: new Set(["b"]),
    });
    const [low, high] = [compileTest({ $in: ["a", "b"] }, "text"), compileTest({ $in: ["b", "c"] }, "text")];
    const both = conjoin(low, high);
    assert.ok(both !== null && "scalar" in both);
    assert.deepEqual(both.scalar.only, new Set(["b"]));
  });

  test("are none where one of them cannot be read", () => {
    assert.equal(unreadable.kind, "unreadable");
    for (const [a, b] of [
      [tags, unreadable],
      [unreadable, tags],
      [unreadable, unreadable],
    ] as const)
      assert.equal(conjoin(a, b), null);
  });
});
