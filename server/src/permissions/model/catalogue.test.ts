import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  ALL_PAIRS,
  CATALOGUE,
  EVERY_ACTION,
  EVERY_SUBJECT,
  OPERATORS,
  findSubject,
  resolvePairs,
} from "./catalogue.ts";

describe("catalogue", () => {
  test("no name or alias is given twice within a scope, and none is a wildcard", () => {
    for (const entries of Object.values(CATALOGUE)) {
      const names = entries.flatMap((entry) => [entry.subject, ...(entry.aliases ?? [])]);
      assert.equal(new Set(names).size, names.length);
      assert.ok(!names.includes(EVERY_SUBJECT));
      for (const entry of entries) {
        const actions = [...entry.actions, ...Object.keys(entry.actionAliases ?? {})];
        assert.equal(new Set(actions).size, actions.length, entry.subject);
        assert.ok(!actions.includes(EVERY_ACTION));
      }
    }
  });

  test("action aliases stand for actions of the same subject", () => {
    for (const entry of Object.values(CATALOGUE).flat()) {
      for (const meaning of Object.values(entry.actionAliases ?? {})) {
        assert.ok(meaning.length > 0 && meaning.every((action) => entry.actions.includes(action)));
      }
    }
  });

  test("a subject of both scopes means the same attribute by the same name", () => {
    for (const entry of CATALOGUE.organization) {
      const twin = CATALOGUE.project.find((other) => other.subject === entry.subject);
      for (const [attribute, kind] of Object.entries(entry.attributes)) {
        assert.equal(twin?.attributes[attribute] ?? kind, kind, `${entry.subject}.${attribute}`);
      }
    }
  });

  test("aliases resolve to what they stand for", () => {
    assert.deepEqual(resolvePairs("secret-event-subscriptions", "subscribe-to-creation-events"), [
      { subject: "secret-events", action: "create" },
    ]);
    assert.deepEqual(resolvePairs("secret-events", "subscribe-to-update-events"), [
      { subject: "secret-events", action: "update" },
    ]);
    assert.deepEqual(resolvePairs("secret-event-subscriptions", "subscribe-to-deletion-events"), [
      { subject: "secret-events", action: "delete" },
    ]);
    assert.deepEqual(resolvePairs("secret-event-subscriptions", "subscribe-to-import-mutation-events"), [
      { subject: "secret-events", action: "read" },
    ]);
    assert.deepEqual(resolvePairs("secrets", "read"), [
      { subject: "secrets", action: "describeSecret" },
      { subject: "secrets", action: "readValue" },
    ]);
    assert.deepEqual(resolvePairs("workspace", "delete"), [{ subject: "project", action: "delete" }]);
  });

  test("names that merely exist in the language are no subjects or actions", () => {
    for (const name of ["constructor", "__proto__", "toString", "", "Secrets", " secrets", EVERY_SUBJECT]) {
      assert.equal(findSubject(name), null);
    }
    assert.equal(resolvePairs("secrets", "constructor"), null);
    assert.equal(resolvePairs("secrets", EVERY_ACTION), null);
  });

  test("scopes keep apart what only one of them knows", () => {
    assert.equal(findSubject("secrets", "organization"), null);
    assert.equal(findSubject("project-templates", "project"), null);
    assert.equal(findSubject("billing", "organization")?.name, "licence");
  });

  test("every pair can be asked under its own name, once", () => {
    const keys = ALL_PAIRS.map((pair) => `${pair.subject} ${pair.action}`);
    assert.equal(new Set(keys).size, keys.length);
    for (const pair of ALL_PAIRS) assert.deepEqual(resolvePairs(pair.subject, pair.action), [pair]);
    assert.ok(!keys.includes("secrets read"));
  });

  test("every kind of attribute has operators", () => {
    for (const entry of Object.values(CATALOGUE).flat()) {
      for (const kind of Object.values(entry.attributes)) assert.ok(OPERATORS[kind].length > 0);
    }
  });
});
