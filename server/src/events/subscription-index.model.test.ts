import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { compileGlob, type Glob } from "../platform/glob.ts";
import { EVENT_TYPES } from "./contract.ts";
import type { EventGlobFilter } from "./model.ts";
import { SubscriptionIndex } from "./subscription-index.model.ts";
import { sized } from "../../test/full-size.ts";

const glob = (pattern: string): Glob => {
  const compiled = compileGlob(pattern);
  if (!compiled.ok) throw new Error(compiled.reason);
  return compiled.glob;
};

const PATTERNS = [
  "/",
  "/**",
  "/*",
  "/a",
  "/a/",
  "/a/**",
  "/a/b",
  "/a/b/**",
  "/a*",
  "/a/*",
  "/a*/**",
  "/**/b",
  "/a/**/b",
  "/?",
  "/[ab]",
  "/{a,b}",
  "/{a,b}/**",
  "/a/b*/c",
  "/ab/**",
];
const PATHS = ["/", "/a", "/b", "/ab", "/a/b", "/a/c", "/b/b", "/a/b/c", "/ab/b", "/a/x/b", "/a/bb/c", "/c"];
const ENVIRONMENTS = ["dev", "prod"];

const filter: fc.Arbitrary<EventGlobFilter> = fc.record({
  event: fc.constantFrom(...EVENT_TYPES),
  environment: fc.constantFrom(null, ...ENVIRONMENTS),
  glob: fc.constantFrom(null, ...PATTERNS).map((pattern) => (pattern === null ? null : glob(pattern))),
});
const event = fc.record({
  type: fc.constantFrom(...EVENT_TYPES),
  environment: fc.constantFrom(...ENVIRONMENTS),
  path: fc.constantFrom(...PATHS),
});

interface Member {
  readonly filters: readonly EventGlobFilter[];
}
type Heard = { readonly type: string; readonly environment: string; readonly path: string };
const wants = ({ filters }: Member, { type, environment, path }: Heard): boolean =>
  filters.some(
    (f) =>
      f.event === type &&
      (f.environment === null || f.environment === environment) &&
      (f.glob === null || f.glob.matches(path)),
  );

describe("finding the subscriptions of an event", () => {
  it("finds exactly those that asking everyone would find, also after some have left", () => {
    const members = fc.array(
      fc.record({ filters: fc.array(filter, { minLength: 1, maxLength: 4 }), stays: fc.boolean() }),
      { maxLength: 12 },
    );
    fc.assert(
      fc.property(members, fc.array(event, { minLength: 1, maxLength: 8 }), (all, events) => {
        const index = new SubscriptionIndex<Member>();
        for (const member of all) for (const wish of member.filters) index.add(member, wish);
        for (const member of all)
          if (!member.stays) for (const wish of member.filters) index.remove(member, wish);
        for (const one of events) {
          const found = new Set([...index.matching(one)].flatMap((members) => [...members]));
          const expected = new Set(all.filter((member) => member.stays && wants(member, one)));
          assert.deepEqual(found, expected, JSON.stringify(one));
        }
      }),
      { numRuns: sized(400, 2000) },
    );
  });

  it("does not look at those that do not match, however many they are", () => {
    const index = new SubscriptionIndex<Member>();
    let asked = 0;
    const count = (pattern: string): Glob => {
      const compiled = glob(pattern);
      const original = compiled.matchesCanonical.bind(compiled);
      compiled.matchesCanonical = (text) => ((asked += 1), original(text));
      return compiled;
    };
    const join = (pattern: string) => {
      const filters: EventGlobFilter[] = [
        { event: "secret:create", environment: null, glob: count(pattern) },
      ];
      const member = { filters };
      for (const wish of filters) index.add(member, wish);
    };
    for (let n = 0; n < 5000; n += 1) {
      join(`/team-${n}/**`);
      join(`/team-${n}/app-*`);
    }
    const found = [
      ...index.matching({ type: "secret:create", environment: "dev", path: "/team-7/app-1" }),
    ].flatMap((members) => [...members]);
    assert.equal(found.length, 2);
    assert.ok(asked <= 1, `${asked} globs were asked`);
  });

  it("matches an equal glob once for all who share it", () => {
    const index = new SubscriptionIndex<Member>();
    let asked = 0;
    for (let n = 0; n < 1000; n += 1) {
      const compiled = glob("/a*/**");
      const original = compiled.matchesCanonical.bind(compiled);
      compiled.matchesCanonical = (text) => ((asked += 1), original(text));
      const filters: EventGlobFilter[] = [{ event: "secret:create", environment: null, glob: compiled }];
      for (const wish of filters) index.add({ filters }, wish);
    }
    const found = [...index.matching({ type: "secret:create", environment: "dev", path: "/ab/c" })].flatMap(
      (members) => [...members],
    );
    assert.equal(found.length, 1000);
    assert.equal(asked, 1);
  });
});
