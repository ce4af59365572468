import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import type { RoleScopeKind } from "./catalogue.ts";
import { type Rule, RULE_LIMITS, checkRules, isCanonicalPath } from "./rules.ts";
import { sized } from "../../../test/full-size.ts";

function accepted(input: unknown, scope: RoleScopeKind = "project"): Rule[] {
  const checked = checkRules(input, scope);
  assert.ok(checked.ok, checked.ok ? "" : JSON.stringify(checked.issues));
  return checked.rules;
}

function issues(input: unknown, scope: RoleScopeKind = "project"): [string, string][] {
  const checked = checkRules(input, scope);
  assert.ok(!checked.ok, "should be refused");
  return checked.issues.map((issue) => [issue.path.join("."), issue.message]);
}

function on(attribute: string, condition: unknown, subject = "secrets"): unknown[] {
  return [
    { subject, action: subject === "secrets" ? "readValue" : "read", conditions: { [attribute]: condition } },
  ];
}

describe("rules as they are sent", () => {
  test("are stored as they were sent, aliases included, without keys that mean nothing", () => {
    const sent = [
      { subject: "secret-event-subscriptions", action: ["subscribe-to-creation-events"], inverted: false },
      { subject: ["tags", "environments"], action: "read" },
      { subject: "secrets", action: ["read", "edit"], conditions: { environment: "dev" }, inverted: true },
      { subject: "workspace", action: "delete", conditions: {} },
    ];
    assert.deepEqual(accepted(sent.map((rule) => ({ ...rule, id: 7 }))), sent);
  });

  test("null stands for an absent condition or flag", () => {
    assert.deepEqual(accepted([{ subject: "tags", action: "read", conditions: null, inverted: null }]), [
      { subject: "tags", action: "read" },
    ]);
  });

  test("every operator of the wire shapes is taken", () => {
    const conditions = {
      environment: { $eq: "dev", $ne: "prod", $in: ["dev", "test"], $nin: ["x"], $glob: "d*" },
      secretPath: { $glob: "/app/**" },
      secretName: "DB_URL",
      secretTags: { $in: ["a"], $all: ["b"] },
      eventType: { $ne: "x" },
    };
    assert.deepEqual(
      accepted([{ subject: "secrets", action: "read", conditions }])[0]?.conditions,
      conditions,
    );
    const metadata = { $elemMatch: { key: { $eq: "team" }, value: { $in: ["a", "b"] } } };
    assert.deepEqual(
      accepted([{ subject: "dynamic-secrets", action: "lease", conditions: { metadata } }])[0]?.conditions,
      { metadata },
    );
  });

  test("secret paths become canonical, in values and in patterns", () => {
    const paths = { $eq: "app/", $ne: "/", $in: ["a/b", "/c/"], $glob: "x/**/" };
    assert.deepEqual(accepted(on("secretPath", paths))[0]?.conditions, {
      secretPath: { $eq: "/app", $ne: "/", $in: ["/a/b", "/c"], $glob: "/x/**" },
    });
    assert.deepEqual(accepted(on("secretPath", "a/"))[0]?.conditions, { secretPath: "/a" });
    assert.deepEqual(accepted(on("secretPath", { $glob: "**" }))[0]?.conditions, {
      secretPath: { $glob: "/**" },
    });
  });

  test("every mistake is reported with its place, not only the first", () => {
    assert.deepEqual(
      issues([
        { subject: "secret", action: "read" },
        { subject: ["tags", "nope"], action: ["read", "raed"] },
        {
          subject: "secrets",
          action: "readValue",
          conditions: { enviroment: "dev", secretPath: { $glob: "/a\\b" } },
        },
        { action: 7, inverted: "yes" },
        "rule",
      ]),
      [
        ["0.subject", 'unknown subject "secret"'],
        ["1.subject.1", 'unknown subject "nope"'],
        ["1.action.1", 'unknown action "raed" for subject "tags"'],
        ["2.conditions.enviroment", 'unknown attribute "enviroment" for subject "secrets"'],
        ["2.conditions.secretPath.$glob", "the pattern must not contain a backslash"],
        ["3.subject", "must be a string"],
        ["3.action", "must be a string"],
        ["3.inverted", "must be true or false"],
        ["4", "must be an object"],
      ],
    );
  });

  test("the wildcards of the built-in administrators cannot be written into a custom role", () => {
    assert.equal(issues([{ subject: "all", action: "manage" }]).length, 1);
    assert.equal(issues([{ subject: "secrets", action: "manage" }]).length, 1);
  });

  const bad: readonly (readonly [string, unknown])[] = [
    ["no array", { subject: "tags", action: "read" }],
    ["empty subject list", [{ subject: [], action: "read" }]],
    ["empty action list", [{ subject: "tags", action: [] }]],
    ["conditions as a list", [{ subject: "tags", action: "read", conditions: [] }]],
    ["conditions on a subject without attributes", on("environment", "dev", "tags")],
    ["an unknown operator", on("environment", { $regex: ".*" })],
    ["no operator", on("environment", {})],
    ["a number", on("environment", 7)],
    ["an empty string", on("environment", "")],
    ["an empty $in", on("environment", { $in: [] })],
    ["$in with a number", on("environment", { $in: ["a", 1] })],
    ["$in that is no list", on("environment", { $in: "a" })],
    ["too many values", on("environment", { $in: Array.from({ length: 101 }, (_, i) => `e${i}`) })],
    ["a long string", on("environment", "x".repeat(1025))],
    ["$glob on tags", on("secretTags", { $glob: "*" })],
    ["a plain string on tags", on("secretTags", "a")],
    ["$all on text", on("environment", { $all: ["a"] })],
    ["a dotted path", on("secretPath", "/a/../b")],
    ["a doubled slash", on("secretPath", { $eq: "/a//b" })],
    ["a template in a value", on("secretPath", { $eq: "/{{identity.name}}" })],
    ["a template in a pattern", on("secretPath", { $glob: "/{{identity.name}}/**" })],
    ["a pattern that can match nothing", on("secretPath", { $glob: "{/a,/b}" })],
    ["an extended pattern", on("environment", { $glob: "!(prod)" })],
    [
      "an unknown side of metadata",
      [
        {
          subject: "dynamic-secrets",
          action: "lease",
          conditions: { metadata: { $elemMatch: { name: "x" } } },
        },
      ],
    ],
    [
      "an empty metadata match",
      [{ subject: "dynamic-secrets", action: "lease", conditions: { metadata: { $elemMatch: {} } } }],
    ],
    ["an inherited name as attribute", on("constructor", "x")],
    ["a prototype key", JSON.parse('[{"subject":"secrets","action":"read","conditions":{"__proto__":"x"}}]')],
    [
      "an attribute only one subject has",
      [{ subject: ["secrets", "tags"], action: "create", conditions: { environment: "dev" } }],
    ],
    ["a project subject in an organisation role", null],
  ];
  for (const [what, input] of bad) {
    test(`refused: ${what}`, () => {
      if (input === null) issues([{ subject: "secrets", action: "read" }], "organization");
      else assert.ok(issues(input).length >= 1);
    });
  }

  test("bounds are inclusive", () => {
    const rule = { subject: "tags", action: "read" };
    assert.equal(accepted(Array.from({ length: RULE_LIMITS.rules }, () => rule)).length, 500);
    assert.deepEqual(issues(Array.from({ length: RULE_LIMITS.rules + 1 }, () => rule)), [
      ["", "must hold at most 500 rules"],
    ]);
    accepted(on("environment", { $in: Array.from({ length: 100 }, (_, i) => `e${i}`) }));
    accepted(on("environment", "x".repeat(1024)));
  });

  test("a role's wildcard patterns are bounded together, plain prefixes are not counted", () => {
    const rules = (pattern: string): unknown[] =>
      Array.from({ length: 100 }, () => ({
        subject: "secrets",
        action: "readValue",
        conditions: { secretPath: { $glob: pattern } },
      }));
    assert.equal(issues(rules(`/${"*a".repeat(100)}`)).length, 1);
    accepted(rules(`/${"aa".repeat(100)}/**`));
  });

  test("organisation roles are read against the organisation's catalogue", () => {
    accepted(
      [
        { subject: "workspace", action: "create" },
        { subject: "billing", action: "read" },
      ],
      "organization",
    );
  });

  test("any JSON at all is answered, never thrown at, and what is accepted is accepted again unchanged", () => {
    const keys = fc.constantFrom(
      "subject",
      "action",
      "conditions",
      "inverted",
      "environment",
      "secretPath",
      "$in",
      "$glob",
    );
    const scalars = fc.constantFrom<unknown>(
      "secrets",
      "readValue",
      "dev",
      "/a",
      "/**",
      "{",
      1,
      null,
      true,
      "",
    );
    const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
      tree: fc.oneof(
        { depthSize: "small", withCrossShrink: true },
        scalars,
        fc.array(tie("tree"), { maxLength: 3 }),
        fc.dictionary(keys, tie("tree"), { maxKeys: 4 }),
      ),
    }));
    fc.assert(
      fc.property(fc.array(tree, { maxLength: 3 }), (input) => {
        const checked = checkRules(input);
        if (checked.ok) assert.deepEqual(checkRules(checked.rules), checked);
        else assert.ok(checked.issues.length > 0);
      }),
      { numRuns: sized(200, 1000) },
    );
  });
});

describe("canonical paths", () => {
  test("are the only spelling of a folder", () => {
    for (const path of ["/", "/a", "/a/b", "/.env", "/a/..b", "/a.b/c"])
      assert.equal(isCanonicalPath(path), true, path);
    for (const path of ["", "a", "/a/", "//", "/a//b", "/.", "/..", "/a/../b", "/a/.", "/a\u0000"]) {
      assert.equal(isCanonicalPath(path), false, path);
    }
  });
});

test("fifty complaints are enough, and none repeats a long name", () => {
  const names = Array.from({ length: 80_000 }, (_, n) => `${n}`.padEnd(200, "x"));
  const conditions = Object.fromEntries(names.map((name) => [name, "x"]));
  const checked = checkRules([{ subject: "secrets", action: "readValue", conditions }]);
  assert.ok(!checked.ok);
  assert.equal(checked.issues.length, 50);
  assert.ok(JSON.stringify(checked.issues).length < 50 * 400);
});
