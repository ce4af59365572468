import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { type GlobPart, parseGlob } from "./glob-syntax.ts";
import { Glob, type GlobMode, compileGlob, globContains, globsMeet } from "./glob.ts";
import { sized } from "../../test/full-size.ts";

function glob(pattern: string, mode: GlobMode = "path"): Glob {
  const compiled = compileGlob(pattern, mode);
  assert.ok(compiled.ok, `${pattern} should compile: ${compiled.ok ? "" : compiled.reason}`);
  return compiled.glob;
}

function reasonFor(pattern: string, mode: GlobMode = "path"): string {
  const compiled = compileGlob(pattern, mode);
  assert.ok(!compiled.ok, `${pattern} should be refused`);
  return compiled.reason;
}

describe("path globs", () => {
  const table: readonly (readonly [string, readonly string[], readonly string[]])[] = [
    ["/", ["/"], ["/a"]],
    ["/a", ["/a", "/a/"], ["/", "/ab", "/a/b", "a", "//a", ""]],
    ["/a/", ["/a"], ["/a/b", "/"]],
    ["/*", ["/a", "/abc"], ["/", "/a/b"]],
    ["/a*c", ["/ac", "/abbc"], ["/a/c", "/ab"]],
    ["/?", ["/a", "/😀"], ["/", "/ab"]],
    ["/**", ["/", "/a", "/a/b/c", "/a/"], ["", "a", "//", "/a//b"]],
    ["/a/**", ["/a", "/a/b", "/a/b/c"], ["/", "/ab", "/b/a"]],
    ["/a/**/b", ["/a/b", "/a/x/b", "/a/x/y/b"], ["/a", "/ab", "/a/xb", "/b"]],
    ["/**/b", ["/b", "/a/b", "/a/a/b"], ["/", "/ab", "/b/a"]],
    ["/**/**", ["/", "/a/b"], []],
    ["/**/*", ["/a", "/a/b"], ["/"]],
    ["/a/*/c", ["/a/b/c"], ["/a/c", "/a/b/b/c", "/a//c"]],
    ["/[abc]", ["/a", "/c"], ["/d", "/", "/ab"]],
    ["/[a-c]x", ["/bx"], ["/dx", "/x"]],
    ["/[!a]", ["/b", "/!"], ["/a", "/"]],
    ["/[^a]", ["/b"], ["/a"]],
    ["/a[!b]c", ["/axc"], ["/a/c"]],
    ["/a[+-9]c", ["/a0c"], ["/a/c"]],
    ["/[*]", ["/*"], ["/a"]],
    ["/[{},!-]", ["/{", "/}", "/,", "/!", "/-"], ["/a"]],
    ["/{a,b}/c", ["/a/c", "/b/c"], ["/c", "/a", "/ab/c"]],
    ["/x{,y}", ["/x", "/xy"], ["/xx"]],
    ["/{a,b{c,d{e,f}}}", ["/a", "/bc", "/bde", "/bdf"], ["/b", "/bd"]],
    ["/{a/**,b}", ["/a", "/a/x/y", "/b"], ["/b/x", "/"]],
    ["/{a/**,b}/c", ["/a/c", "/a/x/c", "/b/c"], ["/ac", "/b/x/c"]],
    ["/a,b", ["/a,b"], ["/a"]],
    ["/a(b)", ["/a(b)"], ["/ab"]],
    ["/.*", ["/.env"], ["/env"]],
  ];
  for (const [pattern, yes, no] of table) {
    test(`${pattern} matches what the grammar says and nothing else`, () => {
      for (const text of yes) assert.equal(glob(pattern).matches(text), true, `${pattern} ~ ${text}`);
      for (const text of no) assert.equal(glob(pattern).matches(text), false, `${pattern} !~ ${text}`);
    });
  }

  const refused: readonly (readonly [string, RegExp])[] = [
    ["", /empty/],
    ["a", /start with/],
    ["**", /start with/],
    ["{/a,/b}", /start with/],
    [`/${"a".repeat(512)}`, /512/],
    ["/a\\*", /backslash/],
    ["/!(a)", /!\(/],
    ["/+(a|aa)", /\+\(/],
    ["/@(a)", /@\(/],
    ["/?(a)", /\?\(/],
    ["/*(+(a))", /\*\(/],
    ["/**(a)", /\*\(/],
    ["/[a", /\[/],
    ["/a]", /\]/],
    ["/[]", /empty \[\]/],
    ["/[!]", /empty \[\]/],
    ["/[[:alpha:]]", /\[/],
    ["/[a/b]", /\/ inside/],
    ["/[z-a]", /backwards/],
    ["/{a,b", /\{/],
    ["/a}", /\}/],
    ["/{a,{b,c}", /\{/],
    ["/{a}", /single/],
    ["/{1..9999}", /single/],
    ["/{{identity.name}}", /single/],
    [`/${"{a,".repeat(9)}b${"}".repeat(9)}`, /deeper/],
    ["/a**", /whole segment/],
    ["/**a", /whole segment/],
    ["/***", /whole segment/],
    ["/{**,a}", /whole segment/],
    ["/{a/**,b}c", /whole segment/],
    ["/{x{a/**,b},y}c", /whole segment/],
    ["//a", /empty segment/],
    ["/a/../b", /segments/],
    ["/./a", /segments/],
    ["/a\u0000", /control/],
    ["/a{/,/}/b", /never/],
  ];
  for (const [pattern, reason] of refused) {
    test(`${JSON.stringify(pattern.slice(0, 40))} is refused with a reason`, () => {
      assert.match(reasonFor(pattern), reason);
    });
  }

  test("braces eight deep are accepted", () => {
    const pattern = `/${"{a,".repeat(8)}b${"}".repeat(8)}`;
    assert.deepEqual(
      ["/a", "/b", "/c"].map((path) => glob(pattern).matches(path)),
      [true, true, false],
    );
  });

  test("a pattern of exactly 512 characters is accepted", () => {
    assert.equal(glob(`/${"a".repeat(511)}`).matches(`/${"a".repeat(511)}`), true);
  });
});

describe("text globs", () => {
  test("a star takes any characters, slashes included, and needs no leading slash", () => {
    assert.equal(glob("*", "text").matches("anything/at all"), true);
    assert.equal(glob("*", "text").matches(""), true);
    assert.equal(glob("prod-*", "text").matches("prod-eu/1"), true);
    assert.equal(glob("prod-*", "text").matches("xprod-eu"), false);
    assert.equal(glob("**.example.com", "text").matches("a.b.example.com"), true);
    assert.equal(glob("db_[!p]*", "text").matches("db_/x"), true);
    assert.equal(glob("a/", "text").matches("a"), false);
    assert.equal(glob("{dev,stag?}", "text").matches("stage"), true);
  });

  test("the same foreign syntax is refused", () => {
    for (const pattern of ["", "!(a)", "a\\b", "{a", "[a", "{a}", "a".repeat(513)])
      reasonFor(pattern, "text");
  });
});

// ---- against a slow, obvious matcher ---------------------------------------------------------------------

/** Every way to split the text, tried in full: exponential, and plainly right. `rest` decides about the tail. */
function naive(
  parts: readonly GlobPart[],
  text: string,
  mode: GlobMode,
  rest: (tail: string) => boolean,
): boolean {
  const [part, ...others] = parts;
  if (part === undefined) return rest(text);
  const then = (tail: string): boolean => naive(others, tail, mode, rest);
  const [head, tail] = [text.slice(0, 1), text.slice(1)];
  switch (part.kind) {
    case "char":
      return head === String.fromCodePoint(part.code) && then(tail);
    case "one":
      return head !== "" && (mode === "text" || head !== "/") && then(tail);
    case "class": {
      const code = head.charCodeAt(0);
      const listed = part.ranges.some((range) => code >= range.low && code <= range.high);
      return head !== "" && (mode === "text" || head !== "/") && listed !== part.negated && then(tail);
    }
    case "many":
      return tails(text).some((end) => {
        const taken = text.slice(0, text.length - end.length);
        return (mode === "text" || !taken.includes("/")) && then(end);
      });
    case "deep":
      return tails(text).some((end) => (end === text || head === "/") && then(end));
    case "either":
      return part.options.some((option) => naive(option, text, mode, then));
  }
}

function tails(text: string): string[] {
  return Array.from({ length: text.length + 1 }, (_, from) => text.slice(from));
}

function naiveMatches(pattern: string, text: string, mode: GlobMode): boolean {
  const parsed = parseGlob(pattern, mode);
  assert.ok(parsed.ok);
  const body = mode === "path" && text === "/" ? "" : text;
  return naive(parsed.parts, body, mode, (tail) => tail === "");
}

const atom = fc.constantFrom(
  "a",
  "b",
  "?",
  "*",
  "[ab]",
  "[!a]",
  "[^b]",
  "{a,b}",
  "{,a}",
  "{a,b*}",
  "{?b,{a,}}",
);
const segment = fc.oneof(
  { weight: 3, arbitrary: fc.array(atom, { minLength: 1, maxLength: 3 }).map((atoms) => atoms.join("")) },
  { weight: 1, arbitrary: fc.constantFrom("**", "{a/b,b}", "{a/**,b}") },
);
const pathPattern = fc
  .array(segment, { maxLength: 3 })
  .map((segments) => `/${segments.join("/")}`)
  .filter((pattern) => compileGlob(pattern).ok);
const textPattern = fc
  .array(fc.oneof(atom, fc.constantFrom("**", "/")), { minLength: 1, maxLength: 4 })
  .map((atoms) => atoms.join(""));

/** All texts up to this length; a letter that no pattern mentions stands for "any other character". */
function allTexts(letters: string, maxLength: number): string[] {
  let layer = [""];
  const texts = [...layer];
  for (let length = 1; length <= maxLength; length += 1) {
    layer = layer.flatMap((text) => [...letters].map((letter) => text + letter));
    texts.push(...layer);
  }
  return texts;
}
function isPath(text: string): boolean {
  return text === "/" || (text.startsWith("/") && !text.includes("//") && !text.endsWith("/"));
}
const paths = allTexts("abc/", 6).filter(isPath);
const texts = allTexts("abc/", 4);

describe("against brute force", () => {
  test("matching agrees with a matcher that tries every split", () => {
    fc.assert(
      fc.property(pathPattern, fc.constantFrom(...paths), (pattern, text) => {
        assert.equal(glob(pattern).matches(text), naiveMatches(pattern, text, "path"));
      }),
      { numRuns: sized(800, 4000) },
    );
    fc.assert(
      fc.property(textPattern, fc.constantFrom(...texts), (pattern, text) => {
        assert.equal(glob(pattern, "text").matches(text), naiveMatches(pattern, text, "text"));
      }),
      { numRuns: sized(400, 2000) },
    );
  });

  test("the shortcuts for plain patterns and prefix/** agree with the automaton", () => {
    for (const pattern of ["/", "/a", "/a/b", "/**", "/a/**", "/a/b/**"]) {
      assert.notEqual(glob(pattern).shape.kind, "general");
      for (const text of paths) {
        assert.equal(glob(pattern).matches(text), glob(pattern).trace(text === "/" ? "" : text).matched);
        assert.equal(glob(pattern).matchesCanonical(text), glob(pattern).matches(text));
      }
    }
  });

  const relations: readonly (readonly [GlobMode, fc.Arbitrary<string>, readonly string[]])[] = [
    ["path", pathPattern, paths],
    ["text", textPattern, texts],
  ];
  for (const [mode, arbitrary, words] of relations) {
    test(`what is said about two ${mode} globs is never refuted by a short word`, () => {
      fc.assert(
        fc.property(arbitrary, arbitrary, (first, second) => {
          const [outer, inner] = [glob(first, mode), glob(second, mode)];
          const contains = globContains(outer, inner);
          const meet = globsMeet(outer, inner);
          for (const word of words) {
            if (!inner.matches(word)) continue;
            if (contains) assert.ok(outer.matches(word), `${first} contains ${second}, but ${word}`);
            if (!meet) assert.ok(!outer.matches(word), `${first} is apart from ${second}, but ${word}`);
          }
        }),
        { numRuns: sized(200, 600) },
      );
    });
  }

  // Small patterns and longer words: every witness then is among the words, so both answers are checked.
  const smallAtom = fc.constantFrom("a", "?", "*", "[!a]", "{a,}", "{a,?a}");
  const smallSegment = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.array(smallAtom, { minLength: 1, maxLength: 2 }).map((atoms) => atoms.join("")),
    },
    { weight: 1, arbitrary: fc.constant("**") },
  );
  const smallPath = fc
    .array(smallSegment, { maxLength: 2 })
    .map((segments) => `/${segments.join("/")}`)
    .filter((pattern) => compileGlob(pattern).ok);
  const smallText = fc.array(smallAtom, { minLength: 1, maxLength: 3 }).map((atoms) => atoms.join(""));
  const exact: readonly (readonly [GlobMode, fc.Arbitrary<string>, readonly string[]])[] = [
    ["path", smallPath, allTexts("ab/", 9).filter(isPath)],
    ["text", smallText, allTexts("ab/", 7)],
  ];
  for (const [mode, arbitrary, words] of exact) {
    test(`containment and overlap of small ${mode} globs are exactly what enumeration says`, () => {
      const seen = { contained: 0, apart: 0, total: 0 };
      fc.assert(
        fc.property(arbitrary, arbitrary, (first, second) => {
          const [outer, inner] = [glob(first, mode), glob(second, mode)];
          const counter = words.find((word) => inner.matches(word) && !outer.matches(word));
          const shared = words.find((word) => inner.matches(word) && outer.matches(word));
          const [contains, meet] = [globContains(outer, inner), globsMeet(outer, inner)];
          assert.equal(contains, counter === undefined, `${first} contains ${second}? ${counter ?? ""}`);
          assert.equal(meet, shared !== undefined, `${first} meets ${second}? ${shared ?? ""}`);
          seen.total += 1;
          if (contains) seen.contained += 1;
          if (!meet) seen.apart += 1;
        }),
        { numRuns: sized(200, 500) },
      );
      assert.ok(seen.contained > seen.total / 30, `contained ${seen.contained} of ${seen.total}`);
      assert.ok(seen.apart > seen.total / 100, `apart ${seen.apart} of ${seen.total}`);
    });
  }

  test("every glob contains itself and lies within /**", () => {
    fc.assert(
      fc.property(pathPattern, (pattern) => {
        const copy = glob(`${pattern}${pattern === "/" ? "" : "/"}`);
        assert.equal(globContains(glob(pattern), copy), true);
        assert.equal(globContains(glob("/**"), glob(pattern)), true);
      }),
    );
  });
});

describe("containment", () => {
  const cases: readonly (readonly [string, string, boolean])[] = [
    ["/a/**", "/a", true],
    ["/a/**", "/a/*/b", true],
    ["/a/*", "/a/**", false],
    ["/**/b", "/a/b", true],
    ["/?*", "/*", true],
    ["/**", "/{a,b}/**", true],
    ["/{a,b}/**", "/a/x/**", true],
    ["/{a,b}", "/[ab]", true],
    ["/[!a]*", "/b*", true],
    ["/[!a]*", "/*", false],
    ["/[a-z]", "/[b-y]", true],
    ["/[b-y]", "/[a-z]", false],
    ["/[a-b]", "/[a-d]", false],
    ["/{[a-b],[!a-b]}", "/?", true],
    ["/**", "/**/*", true],
    ["/**/*", "/**", false],
    ["/ab", "/a?", false],
  ];
  for (const [outer, inner, expected] of cases) {
    test(`${inner} is ${expected ? "" : "not "}within ${outer}`, () => {
      assert.equal(globContains(glob(outer), glob(inner)), expected);
    });
  }

  test("globs of different modes contain nothing of each other and may always overlap", () => {
    assert.equal(globContains(glob("*", "text"), glob("/a")), false);
    assert.equal(globsMeet(glob("/a"), glob("b", "text")), true);
  });

  test("a comparison that runs out of budget answers no to containment and yes to overlap", () => {
    const outer = glob(`/${"{a,b}*".repeat(80)}`);
    const inner = glob(`/${"*a?".repeat(80)}`);
    const budget = { left: 5_000 };
    assert.equal(globContains(outer, inner, budget), false);
    assert.ok(budget.left < 0, "the budget was the reason");
    assert.equal(globsMeet(glob("/a*"), glob("/b*"), { left: 0 }), true);
    assert.equal(globContains(glob("/a*"), glob("/ab*"), { left: 0 }), false);
  });
});

describe("hostile patterns", () => {
  const patterns: readonly string[] = [
    `/${"*a".repeat(255)}`,
    `/${"{a,a}".repeat(102)}`,
    `/${"{a*,*a}".repeat(73)}`,
    `/${"{a,{a,{a,{a,a}}}}".repeat(30)}`,
    `/${"{,a}".repeat(127)}`,
    `/${"?*".repeat(255)}`,
    `/${"[!b]*".repeat(100)}`,
    `/**${"/**/a".repeat(100)}`,
    `/${"{*,*,*,*}".repeat(56)}`,
  ];
  const inputs: readonly string[] = [
    `/${"a".repeat(4095)}`,
    `/${"a".repeat(4094)}b`,
    "/a".repeat(2048),
    `${"/a".repeat(2047)}/b`,
  ];
  test("work is at most text length times states, and states are linear in the pattern", () => {
    for (const pattern of patterns) {
      assert.ok(pattern.length <= 512);
      const compiled = glob(pattern);
      const states = compiled.automaton.size;
      assert.ok(states <= 4 * pattern.length + 8, `${pattern.slice(0, 20)}: ${states} states`);
      for (const text of inputs) {
        const { steps, matched } = compiled.trace(text);
        // Each character looks at the set it comes from and the set it leads to, and once into the table.
        assert.ok(steps <= (text.length + 1) * (2 * states + 1), `${pattern.slice(0, 20)}: ${steps} steps`);
        assert.equal(matched, compiled.matches(text));
      }
    }
  });

  test("a second text costs one look-up per character where the pattern has few sets of states", () => {
    const compiled = glob("/app/*/{db,cache}*/**");
    const text = `/app/${"x".repeat(1000)}/db/y`;
    compiled.trace(text);
    assert.deepEqual(compiled.trace(text), { matched: true, steps: text.length });
  });

  test("a pattern with too many sets of states to remember still answers rightly", () => {
    // Where the last "a" may have been needs a set of its own for each combination of places.
    const compiled = glob("/*a????????????");
    fc.assert(
      fc.property(fc.array(fc.constantFrom("a", "b", "é"), { minLength: 13, maxLength: 40 }), (letters) => {
        const text = `/${letters.join("")}`;
        assert.equal(compiled.matches(text), letters.at(-13) === "a");
      }),
      { numRuns: sized(200, 1000) },
    );
  });

  test("comparing any two of them stops at its budget, give or take one step", () => {
    for (const outer of patterns) {
      for (const inner of patterns) {
        const [one, other] = [glob(outer), glob(inner)];
        const oneStep = (one.automaton.size + 1) * (other.automaton.size + 1);
        const budget = { left: 20_000 };
        globContains(one, other, budget);
        assert.ok(budget.left >= -oneStep, `containment of ${inner} in ${outer}: ${budget.left}`);
        budget.left = 20_000;
        globsMeet(one, other, budget);
        assert.ok(budget.left >= -oneStep, `overlap of ${inner} and ${outer}: ${budget.left}`);
      }
    }
  });

  test("patterns beyond the grammar's bounds are refused before any work", () => {
    reasonFor(`/${"a".repeat(65_536)}`);
    reasonFor("/{1..9999}");
    reasonFor("/+(a|aa)");
    reasonFor("/*(+(a))");
  });
});
