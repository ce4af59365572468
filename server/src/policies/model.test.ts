import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import type { CertificateTemplate } from "../signing/model.ts";
import type { PolicyRules } from "./contract.ts";
import { judge, usagesUnder } from "./model.ts";
import { couldStandFor, matchesPattern, matchesUri } from "./patterns.model.ts";
import { nameFrom, type GeneralName } from "@keyward/x509";
import { sized } from "../../test/full-size.ts";

const FROM = new Date("2026-01-01T00:00:00Z");
const templateOf = (more: Partial<CertificateTemplate> = {}): CertificateTemplate => ({
  subject: nameFrom({ commonName: "a.example.com" }),
  altNames: [{ type: "dns_name", value: "a.example.com" }],
  keyUsages: ["digital_signature"],
  extendedKeyUsages: ["server_auth"],
  isCa: false,
  pathLength: undefined,
  nameConstraints: undefined,
  notBefore: FROM,
  notAfter: new Date(FROM.getTime() + 30 * 86_400_000),
  signatureAlgorithm: undefined,
  ...more,
});
const codes = (rules: PolicyRules, more: Partial<CertificateTemplate> = {}, key = "EC_prime256v1") =>
  judge(rules, templateOf(more), { key, signature: "ECDSA-SHA256" }).map(
    ({ code, field }) => `${field} ${code}`,
  );
const altNames = (type: "dns_name" | "ip_address", value: string): GeneralName[] => [{ type, value }];

describe("M5 a wildcard and what is denied", () => {
  const rules: PolicyRules = {
    sans: [
      { type: "dns_name", allowed: ["*.example.com"], denied: ["admin.example.com", "*.secret.example.com"] },
    ],
  };
  const of = (value: string) => codes(rules, { altNames: altNames("dns_name", value) });

  test("is denied where it covers a denied name, and only there", () => {
    assert.deepEqual(of("*.example.com"), ["altNames.dns_name policy.denied"]);
    assert.deepEqual(of("*.secret.example.com"), ["altNames.dns_name policy.denied"]);
    assert.deepEqual(of("*.admin.example.com"), []);
    assert.deepEqual(of("*.public.example.com"), []);
    assert.deepEqual(of("other.example.com"), []);
  });

  test("counts in the common name, too", () => {
    const named: PolicyRules = { subject: [{ type: "common_name", denied: ["admin.example.com"] }] };
    assert.deepEqual(codes(named, { subject: nameFrom({ commonName: "*.example.com" }) }), [
      "common_name policy.denied",
    ]);
  });

  test("could stand for a name that matches just where one can be found", () => {
    const letters = ["a", "b", ".", "*"];
    const labels: string[] = [];
    for (const one of ["a", "b"])
      for (const two of ["", "a", "b"])
        for (const three of ["", "a", "b"])
          for (const four of ["", "a", "b"]) labels.push(one + two + three + four);
    const seen = { yes: 0, no: 0 };
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...letters), { minLength: 1, maxLength: 7 }),
        fc.constantFrom(".a", ".b", ".a.b", ".ab.a"),
        (pattern, rest) => {
          // Four letters are as many as the pattern could ask of a label before the three of the shortest rest.
          const expected = labels.some((label) => matchesPattern(pattern.join(""), label + rest));
          fc.pre(pattern.filter((letter) => letter === "a" || letter === "b").length <= 4 || expected);
          assert.equal(couldStandFor(`*${rest}`, pattern.join("")), expected, `${pattern.join("")} *${rest}`);
          seen[expected ? "yes" : "no"] += 1;
        },
      ),
      { numRuns: sized(600, 3000) },
    );
    assert.ok(seen.yes > sized(10, 100) && seen.no > sized(10, 100), JSON.stringify(seen));
  });
});

describe("patterns", () => {
  test("a star stands for any run of characters, and nothing else is special", () => {
    const piece = fc.constantFrom("*", "a", "b", ".", "?", "[", "+");
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 6 }),
        fc.array(fc.constantFrom("a", "B", ".", "?", "[", "+"), { maxLength: 8 }),
        (pattern, text) => {
          const slow = new RegExp(
            `^${pattern.map((each) => (each === "*" ? ".*" : each.replace(/[.?[+]/g, "\\$&"))).join("")}$`,
            "is",
          );
          assert.equal(matchesPattern(pattern.join(""), text.join("")), slow.test(text.join("")));
        },
      ),
      { numRuns: sized(400, 2000) },
    );
  });
});

describe("patterns for URIs", () => {
  test("a star in the host stays in the host: nothing passes the border to path, port or user", () => {
    for (const [pattern, uri, expected] of [
      ["https://*.example.com", "https://a.example.com", true],
      ["https://*.example.com", "https://evil.com/x.example.com", false],
      ["https://*.example.com", "http://a.example.com", false],
      ["http*://a.example.com", "https://a.example.com", true],
      ["spiffe://*", "https://example.com/ns/a", false],
      ["https://*.example.com", "https://evil.com?.example.com", false],
      ["https://*.example.com", "https://evil.com#.example.com", false],
      ["https://*.example.com", "https://evil.com\\.example.com", false],
      ["https://*.example.com", "https://evil.com:443.example.com", false],
      ["https://example.com*", "https://example.com@evil.com", false],
      ["https://*.example.com:*", "https://a.example.com:8443", true],
      ["https://*.example.com/*", "https://a.example.com/any/path?x=1", true],
      ["https://*.example.com/*", "https://evil.com/.example.com/", false],
      ["*://api.example.com/*", "https://api.example.com/v1", true],
      ["*://api.example.com/*", "https://evil.com/?://api.example.com/", false],
      ["*.example.com", "https://a.example.com", true],
      ["*.example.com", "https://evil.com/x.example.com", false],
      ["https:*.example.com", "https://evil.com/x.example.com", false],
      ["spiffe://example.com/*", "spiffe://example.com/ns/a", true],
      ["spiffe://*/web", "spiffe://example.com/ns/web", false],
      ["spiffe://*", "spiffe://example.com/ns/a", true],
      ["*", "https://a.example.com/x", true],
      ["urn:example:*", "urn:example:a/b", true],
    ] as const)
      assert.equal(matchesUri(pattern, uri), expected, `${pattern} ${uri}`);
  });

  test("agree with a slow model", () => {
    const SPECIAL = /[.?+@:#/\\]/g;
    const literal = (text: string) => text.replace(SPECIAL, "\\$&");
    const host = fc.constantFrom("*", "a", ".", "@", ":");
    const path = fc.constantFrom("*", "a", ".", "@", ":", "/", "?", "#");
    fc.assert(
      fc.property(
        fc.array(host, { maxLength: 5 }),
        fc.option(fc.tuple(fc.constantFrom("/", "?", "#"), fc.array(path, { maxLength: 4 }))),
        fc.array(fc.constantFrom("a", "A", ".", "@", ":", "/", "?", "#", "\\"), { maxLength: 8 }),
        (hosts, rest, text) => {
          fc.pre(rest !== null || hosts.join("") !== "*");
          const star = (run: string) => (each: string) => (each === "*" ? run : literal(each));
          const before = hosts.map(star("[^/?#@:\\\\]*")).join("");
          const after = rest === null ? "" : `${literal(rest[0])}${rest[1].map(star(".*")).join("")}`;
          const slow = new RegExp(`^x://${before}${after}$`, "is");
          const pattern = `x://${hosts.join("")}${rest === null ? "" : rest[0] + rest[1].join("")}`;
          const uri = `x://${text.join("")}`;
          assert.equal(matchesUri(pattern, uri), slow.test(uri), `${pattern} ${uri}`);
        },
      ),
      { numRuns: sized(1000, 5000) },
    );
  });

  test("are narrow where they allow and wide where they deny", () => {
    const verdict = (rule: Record<string, string[]>, value: string) =>
      codes({ sans: [{ type: "uri", ...rule }] }, { altNames: [{ type: "uri", value }] });
    const crossing = "https://evil.com/x.example.com";
    assert.deepEqual(verdict({ allowed: ["https://*.example.com"] }, crossing), [
      "altNames.uri policy.not_allowed",
    ]);
    assert.deepEqual(verdict({ required: ["https://*.example.com"] }, crossing), [
      "altNames.uri policy.required",
    ]);
    assert.deepEqual(verdict({ denied: ["https://*.example.com"] }, crossing), [
      "altNames.uri policy.denied",
    ]);
  });
});

describe("a policy", () => {
  test("lets nobody speak for the authority about revocation, unless it says so in words", () => {
    const template: Partial<CertificateTemplate> = { extendedKeyUsages: ["ocsp_signing"] };
    const refusal = ["extendedKeyUsages policy.ocsp_denied"];
    assert.deepEqual(codes({}, template), refusal);
    assert.deepEqual(codes({}, { extendedKeyUsages: ["server_auth", "1.3.6.1.5.5.7.3.9"] }), refusal);
    assert.deepEqual(codes({ extendedKeyUsages: { denied: ["client_auth"] } }, template), refusal);
    assert.deepEqual(codes({ extendedKeyUsages: { allowed: ["ocsp_signing"] } }, template), []);
    assert.deepEqual(codes({ extendedKeyUsages: { required: ["ocsp_signing"] } }, template), []);
    const byNumber: Partial<CertificateTemplate> = { extendedKeyUsages: ["1.3.6.1.5.5.7.3.2"] };
    assert.deepEqual(codes({ extendedKeyUsages: { denied: ["client_auth"] } }, byNumber), [
      "extendedKeyUsages policy.denied",
    ]);
    assert.deepEqual(codes({ extendedKeyUsages: { allowed: ["client_auth"] } }, byNumber), []);
  });

  test("that says nothing allows everything but authorities", () => {
    assert.deepEqual(codes({}), []);
    assert.deepEqual(codes({ subject: [], sans: null }), []);
    assert.deepEqual(codes({}, { isCa: true }), ["basicConstraints policy.ca_denied"]);
  });

  test("judges each part by allowed, required and denied", () => {
    const sans = (rule: Record<string, string[]>): PolicyRules => ({ sans: [{ type: "dns_name", ...rule }] });
    assert.deepEqual(codes(sans({ allowed: ["*.example.com"] })), []);
    assert.deepEqual(codes(sans({ allowed: ["*.example.org"] })), ["altNames.dns_name policy.not_allowed"]);
    assert.deepEqual(codes(sans({ denied: ["a.*"] })), ["altNames.dns_name policy.denied"]);
    assert.deepEqual(codes(sans({ required: ["b.*"] })), ["altNames.dns_name policy.required"]);
    assert.deepEqual(codes(sans({ allowed: ["b.*"], required: ["a.*"] })), [], "what is required is allowed");
    assert.deepEqual(
      codes(sans({ allowed: ["*"] }), { altNames: altNames("ip_address", "10.0.0.1") }),
      ["altNames.ip_address policy.not_listed"],
      "no other type slips by",
    );
    assert.deepEqual(codes({ subject: [{ type: "organization", required: ["Acme"] }] }), [
      "organization policy.required",
      "common_name policy.not_listed",
    ]);
  });

  test("knows address ranges", () => {
    const rules: PolicyRules = {
      sans: [{ type: "ip_address", allowed: ["10.0.0.0/8", "2001:db8::/32", "192.168.1.*"] }],
    };
    const verdict = (address: string) =>
      codes(rules, { altNames: altNames("ip_address", address) }).length === 0;
    assert.deepEqual(["10.255.0.1", "2001:db8::5", "192.168.1.7"].map(verdict), [true, true, true]);
    assert.deepEqual(["11.0.0.1", "2001:db9::5", "192.168.2.7"].map(verdict), [false, false, false]);
  });

  test("reads algorithm names in both spellings, and lifetimes to the second", () => {
    assert.deepEqual(
      codes({ algorithms: { keyAlgorithm: ["ECDSA-P256"], signature: ["SHA256-ECDSA"] } }),
      [],
    );
    assert.deepEqual(codes({ algorithms: { keyAlgorithm: ["RSA-2048"], signature: ["RSA-SHA256"] } }), [
      "keyAlgorithm policy.key_algorithm",
      "signatureAlgorithm policy.signature_algorithm",
    ]);
    assert.deepEqual(
      codes({ algorithms: { keyAlgorithm: ["ML-DSA-44", "EC_prime256v1"] } }),
      [],
      "an unknown name never matches and harms nobody",
    );
    assert.deepEqual(codes({ validity: { max: "30d" } }), []);
    assert.deepEqual(
      codes({ validity: { max: "30d" } }, { notAfter: new Date(FROM.getTime() + 30 * 86_400_000 + 1000) }),
      ["ttl policy.validity"],
    );
  });

  test("bounds authorities by path length", () => {
    const rules: PolicyRules = { basicConstraints: { isCA: "required", maxPathLength: 1 } };
    assert.deepEqual(codes(rules), ["basicConstraints policy.ca_required"]);
    assert.deepEqual(codes(rules, { isCa: true, pathLength: 1 }), []);
    for (const pathLength of [2, undefined])
      assert.deepEqual(codes(rules, { isCa: true, pathLength }), [
        "basicConstraints.pathLength policy.path_length",
      ]);
  });

  test("fills usages that nobody asked for within what it allows", () => {
    assert.deepEqual(usagesUnder({ allowed: ["b"], required: ["c"] }, undefined, ["a", "b"]), ["c", "b"]);
    assert.deepEqual(usagesUnder({ denied: ["a"] }, undefined, ["a", "b"]), ["b"]);
    assert.deepEqual(usagesUnder({ required: ["c"] }, ["a"], ["b"]), ["a", "c"]);
    assert.deepEqual(usagesUnder(null, undefined, ["a"]), ["a"]);
  });
});
