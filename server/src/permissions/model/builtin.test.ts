import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { missingFrom } from "./boundary.ts";
import { builtinRules, builtinSlugs } from "./builtin.ts";
import { ALL_PAIRS, type RoleScopeKind } from "./catalogue.ts";
import { type Ability, compileRules } from "./evaluate.ts";
import { checkRules } from "./rules.ts";

function ability(slug: string, scope: RoleScopeKind = "project"): Ability {
  const rules = builtinRules(scope, slug);
  assert.ok(rules);
  return compileRules(rules);
}

describe("built-in roles", () => {
  test("are found by their exact slug and by nothing that looks like it", () => {
    assert.deepEqual(builtinSlugs("project"), ["admin", "member", "viewer", "no-access"]);
    assert.deepEqual(builtinSlugs("organization"), ["admin", "member", "no-access"]);
    const lookalikes = [
      "Admin",
      "ADMIN",
      " admin",
      "admin ",
      "ADMIN\u200b",
      "admin\u200b",
      "admin\u0000",
      "аdmin",
      "ａdmin",
      "Root",
      "root",
      "",
      "*",
      "__proto__",
      "constructor",
      "no_access",
    ];
    for (const slug of lookalikes) {
      assert.equal(builtinRules("project", slug), null, slug);
      assert.equal(builtinRules("organization", slug), null, slug);
    }
    assert.equal(builtinRules("organization", "viewer"), null);
  });

  test("admin may do everything there is, no-access nothing", () => {
    for (const scope of ["project", "organization"] as const) {
      for (const { action, subject } of ALL_PAIRS) {
        assert.equal(ability("admin", scope).can(action, subject, {}), true);
        assert.equal(ability("no-access", scope).can(action, subject), false);
      }
    }
  });

  test("the rules of the others are made of names the catalogue knows", () => {
    for (const scope of ["project", "organization"] as const) {
      for (const slug of builtinSlugs(scope).filter((one) => one !== "admin")) {
        const checked = checkRules(builtinRules(scope, slug), scope);
        // A rule may name an action only some of its subjects have; here none does.
        assert.deepEqual(checked.ok ? [] : checked.issues, []);
      }
    }
  });

  test("each holds what the smaller one holds, and not the other way round", () => {
    const order = ["no-access", "viewer", "member", "admin"];
    for (const [small, smaller] of order.entries()) {
      for (const [large, larger] of order.entries()) {
        const missing = missingFrom(ability(larger), builtinRules("project", smaller) ?? []);
        assert.equal(missing.length === 0, small <= large, `${smaller} within ${larger}`);
      }
    }
  });

  test("a member works with secrets and certificates but grants nothing", () => {
    const member = ability("member");
    const may = [
      "read secrets",
      "create secrets",
      "delete secrets",
      "edit secret-folders",
      "delete secret-imports",
      "create tags",
      "read environments",
      "read identity",
      "create certificates",
      "read-private-key certificates",
      "issue-cert certificate-profiles",
      "create pki-alerts",
      "update secret-events",
    ];
    const mayNot = [
      "edit environments",
      "create role",
      "edit role",
      "create member",
      "assign-role member",
      "create identity",
      "assign-role identity",
      "edit settings",
      "edit project",
      "delete project",
      "create certificate-authorities",
      "edit certificate-profiles",
      "export-private-key cmek",
      "edit kms",
      "create service-tokens",
    ];
    for (const pair of may) {
      const [action = "", subject = ""] = pair.split(" ");
      assert.equal(member.can(action, subject, {}), true, pair);
    }
    for (const pair of mayNot) {
      const [action = "", subject = ""] = pair.split(" ");
      assert.equal(member.can(action, subject), false, pair);
    }
  });

  test("a viewer reads secret values but no private keys, and changes nothing", () => {
    const viewer = ability("viewer");
    assert.equal(viewer.can("read", "secrets", {}), true);
    assert.equal(viewer.can("read-private-key", "certificates"), false);
    assert.equal(viewer.can("lease", "dynamic-secrets"), false);
    const looks = new Set(["read", "describeSecret", "readValue", "list-certs"]);
    for (const { action, subject } of ALL_PAIRS) {
      if (looks.has(action) || subject === "secret-events") continue;
      assert.equal(viewer.can(action, subject), false, `${action} ${subject}`);
    }
  });

  test("an organisation member may start projects and look around", () => {
    const member = ability("member", "organization");
    assert.equal(member.can("create", "workspace"), true);
    assert.equal(member.can("read", "identity"), true);
    assert.equal(member.can("create", "identity"), false);
    assert.equal(member.can("read", "audit-logs"), false);
    assert.equal(member.can("edit", "licence"), false);
  });
});
