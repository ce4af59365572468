import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { readDer } from "./der-reader.ts";
import type { GeneralName } from "./general-names.ts";
import {
  nameConstraints,
  readNameConstraints,
  violatesNameConstraints,
  type NameConstraints,
  type Subtree,
} from "./name-constraints.ts";
import { parseName } from "./name-text.ts";
import { X509Error } from "./x509-error.ts";

const roundTrip = (constraints: NameConstraints): NameConstraints =>
  readDer(nameConstraints(constraints).value, readNameConstraints);

/** Whether a name passes one permitted and, reversed, whether one excluded subtree catches it. */
function judged(subtree: Subtree, name: GeneralName): { isPermitted: boolean; isExcluded: boolean } {
  const names = { subject: [], altNames: [name], isCa: false };
  const permitted = roundTrip({ permitted: [subtree], excluded: [] });
  const excluded = roundTrip({ permitted: [], excluded: [subtree] });
  return {
    isPermitted: violatesNameConstraints(names, [permitted]) === undefined,
    isExcluded: violatesNameConstraints(names, [excluded]) !== undefined,
  };
}

type Kind = "dns_name" | "email" | "uri" | "ip_address";

describe("RFC 5280 4.2.1.10: which names a subtree covers", () => {
  const cases: readonly [Kind, string, string, boolean][] = [
    ["dns_name", "example.com", "example.com", true],
    ["dns_name", "example.com", "a.b.example.com", true],
    ["dns_name", "example.com", "EXAMPLE.COM", true],
    ["dns_name", "example.com", "notexample.com", false],
    ["dns_name", "example.com", "example.com.evil.org", false],
    ["dns_name", "example.com", "*.example.com", true],
    ["dns_name", ".example.com", "a.example.com", true],
    ["dns_name", ".example.com", "example.com", false],
    ["dns_name", "", "anything.test", true],
    ["email", "jane@example.com", "jane@EXAMPLE.com", true],
    ["email", "jane@example.com", "Jane@example.com", false],
    ["email", "example.com", "jane@example.com", true],
    ["email", "example.com", "jane@mail.example.com", false],
    ["email", ".example.com", "jane@mail.example.com", true],
    ["email", ".example.com", "jane@example.com", false],
    ["uri", "example.com", "https://example.com:8443/x", true],
    ["uri", "example.com", "https://user@example.com/x", true],
    ["uri", "example.com", "https://a.example.com/", false],
    ["uri", ".example.com", "https://a.example.com/", true],
    ["uri", ".example.com", "https://example.com/", false],
    ["uri", "example.com", "https://example.com.evil.org/", false],
    ["ip_address", "10.0.0.0/8", "10.255.0.1", true],
    ["ip_address", "10.0.0.0/8", "11.0.0.1", false],
    ["ip_address", "10.0.0.0/8", "::ffff:10.0.0.1", false],
    ["ip_address", "2001:db8::/32", "2001:db8:1::5", true],
    ["ip_address", "2001:db8::/33", "2001:db8:8000::5", false],
  ];
  for (const [type, base, value, isCovered] of cases) {
    test(`${type}: "${base}" ${isCovered ? "covers" : "does not cover"} ${value}`, () => {
      assert.deepEqual(judged({ type, value: base }, { type, value }), {
        isPermitted: isCovered,
        isExcluded: isCovered,
      });
    });
  }

  test("directory names: the base is a prefix", () => {
    const base = { type: "directory_name", value: parseName("O=Acme,C=DE") } as const;
    const at = (text: string) => judged(base, { type: "directory_name", value: parseName(text) });
    assert.deepEqual(at("CN=x,O=acme,C=DE"), { isPermitted: true, isExcluded: true });
    assert.deepEqual(at("CN=x,O=Other,C=DE"), { isPermitted: false, isExcluded: false });
  });
});

describe("when in doubt, no", () => {
  test("a wildcard that could stand for an excluded host is caught, and is not thereby permitted", () => {
    const subtree: Subtree = { type: "dns_name", value: "secret.example.com" };
    const name: GeneralName = { type: "dns_name", value: "*.example.com" };
    assert.deepEqual(judged(subtree, name), { isPermitted: false, isExcluded: true });
    // One label only: *.example.com never stands for a.secret.example.com.
    assert.equal(judged({ type: "dns_name", value: "a.secret.example.com" }, name).isExcluded, false);
  });

  test("a URI without a host name satisfies nothing and is caught by everything", () => {
    const unclear = [
      "urn:uuid:1",
      "https://192.0.2.1/",
      "https://[2001:db8::1]/",
      "https://ex%61mple.com/",
      "https://example.com./",
    ];
    for (const value of unclear) {
      assert.deepEqual(judged({ type: "uri", value: "example.com" }, { type: "uri", value }), {
        isPermitted: false,
        isExcluded: true,
      });
    }
  });

  test("a final dot does not lead out of an excluded zone", () => {
    const check = (type: "dns_name" | "email", value: string): boolean =>
      judged({ type, value: "evil.org" }, { type, value }).isExcluded;
    assert.ok(check("dns_name", "www.evil.org.") && check("email", "jane@evil.org."));
  });

  test("a kind of constraint we cannot judge refuses names of that kind and no others", () => {
    // permitted: otherName of some private type.
    const bytes = Buffer.from("3010a00e300ca00a06032a0304a003020101".replaceAll(" ", ""), "hex");
    const constraints = readDer(bytes, readNameConstraints);
    const check = (name: GeneralName) =>
      violatesNameConstraints({ subject: [], altNames: [name], isCa: false }, [constraints]);
    assert.ok(check({ type: "upn", value: "jane@corp" }) !== undefined);
    assert.equal(check({ type: "dns_name", value: "a.example" }), undefined);
  });
});

describe("violatesNameConstraints", () => {
  const permitted = (value: string): NameConstraints => ({
    permitted: [{ type: "dns_name", value }],
    excluded: [],
  });
  const dnsOnly = { subject: [], isCa: false };

  test("asks every authority above: the intersection counts", () => {
    const above = [permitted("example.com"), permitted("a.example.com")];
    const check = (value: string) =>
      violatesNameConstraints({ ...dnsOnly, altNames: [{ type: "dns_name", value }] }, above);
    assert.equal(check("x.a.example.com"), undefined);
    assert.equal(check("x.b.example.com")?.rule, "permitted");
  });

  test("one bad name among good ones is enough, and is named", () => {
    const altNames: GeneralName[] = [
      { type: "dns_name", value: "ok.example.com" },
      { type: "dns_name", value: "evil.org" },
    ];
    const violation = violatesNameConstraints({ ...dnsOnly, altNames }, [permitted("example.com")]);
    assert.equal(violation?.name, "evil.org");
    assert.match(violation.message, /outside the permitted dns_name example\.com/);
  });

  test("kinds without a constraint are free", () => {
    const altNames: GeneralName[] = [{ type: "ip_address", value: "192.0.2.1" }];
    assert.equal(violatesNameConstraints({ ...dnsOnly, altNames }, [permitted("example.com")]), undefined);
  });

  test("an email in the subject and a host in the common name do not slip through", () => {
    const email: NameConstraints = { permitted: [{ type: "email", value: "example.com" }], excluded: [] };
    const byEmail = { subject: parseName("emailAddress=a@evil.org"), altNames: [], isCa: false };
    assert.ok(violatesNameConstraints(byEmail, [email]) !== undefined);
    const besides: GeneralName[] = [{ type: "email", value: "a@example.com" }];
    assert.ok(violatesNameConstraints({ ...byEmail, altNames: besides }, [email]) !== undefined);
    const byCommonName = { subject: parseName("CN=www.evil.org"), altNames: [], isCa: false };
    assert.ok(violatesNameConstraints(byCommonName, [permitted("example.com")]) !== undefined);
    const person = { subject: parseName("CN=Jane Doe"), altNames: [], isCa: false };
    assert.equal(violatesNameConstraints(person, [permitted("example.com")]), undefined);
  });
});

test("constraints that cannot be meant are refused", () => {
  const build = (subtree: Subtree) => () => nameConstraints({ permitted: [subtree], excluded: [] });
  assert.throws(build({ type: "ip_address", value: "10.0.0.1/8" }), X509Error);
  assert.throws(build({ type: "dns_name", value: "*.example.com" }), X509Error);
  assert.throws(build({ type: "dns_name", value: "exa mple.com" }), X509Error);
  assert.throws(() => nameConstraints({ permitted: [], excluded: [] }), X509Error);
});

describe("H6 names times constraints", () => {
  const many = (count: number): NameConstraints => ({
    permitted: Array.from({ length: count }, (_, n) => ({
      type: "ip_address" as const,
      value: `10.${n >> 8}.${n & 255}.0/24`,
    })),
    excluded: [],
  });
  const names = (count: number) => ({
    subject: [],
    altNames: Array.from({ length: count }, (_, n) => ({
      type: "ip_address" as const,
      value: `10.${n >> 8}.${n & 255}.1`,
    })),
    isCa: false,
  });

  test("are compared as far as honest certificates go", () => {
    assert.equal(violatesNameConstraints(names(100), [many(200), many(200)]), undefined);
  });

  test("are refused unseen beyond, in all authorities together", () => {
    assert.equal(violatesNameConstraints(names(4000), [many(4000)])?.rule, "too_many");
    const hundred = Array.from({ length: 100 }, () => many(100));
    assert.equal(violatesNameConstraints(names(100), hundred)?.rule, "too_many");
  });

  test("are not all told of in a refusal", () => {
    const violation = violatesNameConstraints(
      { subject: [], altNames: [{ type: "ip_address", value: "11.0.0.1" }], isCa: false },
      [many(1000)],
    );
    assert.equal(violation?.rule, "permitted");
    assert.ok((violation?.message.length ?? 0) < 1000, violation?.message);
  });
});
