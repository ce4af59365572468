import { MAINTENANCE_TURN } from "../../platform/db/index.ts";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";
import { findMatches } from "../matches.store.ts";
import { inventory } from "../../../test/alert-receiver.ts";
import type { CertificateFilter } from "./contract.ts";
import {
  compileFilters,
  compileWildcard,
  prepare,
  type FilterCandidate,
  type Prepared,
  type Steps,
} from "./model.ts";
import { shortlistOf } from "./shortlist.model.ts";
import { sized } from "../../../test/full-size.ts";

const wildcardMatches = (pattern: string, text: string): boolean => compileWildcard(pattern)(text);
function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}
const prepared = (candidate: FilterCandidate): Prepared => atOnce(prepare(candidate));

const WORDS = [
  "",
  "a",
  "A",
  "b",
  "ab",
  "aB",
  "%",
  "_",
  "\\",
  "a%",
  "a_b",
  "*",
  "?",
  "a*b",
  "a?b",
  "É",
  "é",
  "a\\b",
  "AB.example",
  "'",
];
const word = fc.constantFrom(...WORDS);
const filter: fc.Arbitrary<CertificateFilter> = fc.oneof(
  fc.record({
    field: fc.constantFrom("any" as const, "profile_name" as const, "common_name" as const, "san" as const),
    operator: fc.constantFrom(
      "contains" as const,
      "equals" as const,
      "matches" as const,
      "starts_with" as const,
      "ends_with" as const,
    ),
    value: fc.oneof(word, fc.array(word, { minLength: 1, maxLength: 3 })),
  }),
  fc.record({
    field: fc.constant("include_cas" as const),
    operator: fc.constant("equals" as const),
    value: fc.boolean(),
  }),
);

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

/** Slow and obvious: every way to cut the text. */
function matchesObviously(pattern: string, text: string): boolean {
  if (pattern === "") return text === "";
  const rest = pattern.slice(1);
  if (pattern.startsWith("*"))
    return Array.from({ length: text.length + 1 }, (_, cut) => cut).some((cut) =>
      matchesObviously(rest, text.slice(cut)),
    );
  return (
    text !== "" &&
    (pattern.startsWith("?") || pattern[0] === text[0]) &&
    matchesObviously(rest, text.slice(1))
  );
}

test("wildcards match what the obvious definition matches", () => {
  const letters = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 8 });
  const pattern = fc.string({ unit: fc.constantFrom("a", "b", "*", "?"), maxLength: 6 });
  fc.assert(
    fc.property(pattern, letters, (p, t) => assert.equal(wildcardMatches(p, t), matchesObviously(p, t))),
    { numRuns: sized(400, 2000) },
  );
});

test("a pattern made to be slow is not", () => {
  assert.equal(wildcardMatches(`${"*a".repeat(500)}b`, "a".repeat(20_000)), false);
});

test("SQL and code agree on which certificates a filter means", async () => {
  const projectId = randomUUID();
  const now = house.clock.now();
  const { database } = house.house;
  const candidates: (FilterCandidate & { id: string })[] = [];
  const store = inventory(database, house.owner.orgId);
  for (const [index, commonName] of WORDS.entries()) {
    for (const isCa of [false, true]) {
      const san = [
        WORDS[(index * 7) % WORDS.length] ?? "",
        WORDS[(index * 3 + 1) % WORDS.length] ?? "",
      ].slice(0, index % 3);
      const [id = ""] = await store.seed([
        { projectId, commonName, san, isCa, notBefore: now, notAfter: new Date(now.getTime() + 86_400_000) },
      ]);
      candidates.push({ id, commonName, san, profileName: null, isCa });
    }
  }
  await fc.assert(
    fc.asyncProperty(fc.array(filter, { maxLength: 3 }), async (filters) => {
      const matches = compileFilters(filters);
      const expected = candidates
        .filter((candidate) => atOnce(matches(prepared(candidate))))
        .map((candidate) => candidate.id);
      const found = await database.read(
        (q) =>
          findMatches(q, {
            projectId,
            applicationId: null,
            filters,
            window: undefined,
            months: 0,
            now,
            limit: 100,
            offset: 0,
          }),
        MAINTENANCE_TURN,
      );
      assert.deepEqual(found.certificates.map((row) => row.id).sort(), expected.sort());
      assert.equal(found.total, expected.length);
    }),
    { numRuns: sized(75, 300) },
  );
});

test("the profile's name counts where there is one", () => {
  const matches = compileFilters([{ field: "profile_name", operator: "starts_with", value: "WEB" }]);
  const candidate = { commonName: "x", san: [], isCa: false };
  assert.equal(atOnce(matches(prepared({ ...candidate, profileName: "web-servers" }))), true);
  assert.equal(atOnce(matches(prepared({ ...candidate, profileName: null }))), false);
});

test("a shortlist leaves out no alert that matches, and most that do not", () => {
  const text = fc.oneof(
    word,
    fc.string({ unit: fc.constantFrom("a", "B", "c", "É", "*", "?"), maxLength: 8 }),
  );
  const longer = fc.record({
    field: fc.constantFrom("any" as const, "profile_name" as const, "common_name" as const, "san" as const),
    operator: fc.constantFrom(
      "contains" as const,
      "equals" as const,
      "matches" as const,
      "ends_with" as const,
    ),
    value: fc.oneof(text, fc.array(text, { minLength: 1, maxLength: 3 })),
  });
  const candidate = fc.record({
    commonName: text,
    san: fc.array(text, { maxLength: 3 }),
    profileName: fc.option(text),
    isCa: fc.boolean(),
  });
  const alerts = fc.array(fc.array(fc.oneof(filter, longer), { maxLength: 3 }), { maxLength: 12 });
  fc.assert(
    fc.property(alerts, candidate, (all, certificate) => {
      const ready = prepared(certificate);
      const named = new Set(atOnce(atOnce(shortlistOf(all, (filters) => filters))(ready)));
      for (const filters of all)
        if (atOnce(compileFilters(filters)(ready))) assert.ok(named.has(filters), JSON.stringify(filters));
    }),
    { numRuns: sized(600, 3000) },
  );
  const thousand = Array.from({ length: 1000 }, (_, index): CertificateFilter[] => [
    { field: "any", operator: "contains", value: `team-${index}.internal.example.com` },
  ]);
  const ready = prepared({
    commonName: "team-417.internal.example.com",
    san: ["www.example.com"],
    profileName: "web",
    isCa: false,
  });
  const named = [...atOnce(atOnce(shortlistOf(thousand, (filters) => filters))(ready))];
  assert.ok(named.includes(thousand[417] ?? []));
  assert.ok(named.length < 100, `${named.length} of 1000`);
});
