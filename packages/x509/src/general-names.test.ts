import assert from "node:assert/strict";
import { isIPv4, isIPv6 } from "node:net";
import { describe, test } from "node:test";
import fc from "fast-check";
import { readDer } from "./der-reader.ts";
import {
  encodeGeneralName,
  normaliseGeneralName,
  readGeneralName,
  type GeneralName,
  type TextNameType,
} from "./general-names.ts";
import { formatIp, isInRange, parseCidr, parseIp } from "./ip-addresses.ts";
import { parseName } from "./name-text.ts";
import { X509Error } from "./x509-error.ts";

const normalised = (type: TextNameType, value: string): string => {
  const name = normaliseGeneralName(type, value);
  assert.equal(name.type, type);
  return String(name.value);
};

describe("a name is kept in one spelling", () => {
  const cases: readonly [TextNameType, string, string][] = [
    ["dns_name", "DB.Example.COM", "db.example.com"],
    ["dns_name", "localhost", "localhost"],
    ["dns_name", "*.example.com", "*.example.com"],
    ["dns_name", "bücher.example", "xn--bcher-kva.example"],
    ["dns_name", "*.bücher.example", "*.xn--bcher-kva.example"],
    ["dns_name", "xn--bcher-kva.example", "xn--bcher-kva.example"],
    ["ip_address", "192.0.2.1", "192.0.2.1"],
    ["ip_address", "2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
    ["ip_address", "::ffff:192.0.2.1", "::ffff:192.0.2.1"],
    ["email", "Jane.Doe@EXAMPLE.com", "Jane.Doe@example.com"],
    ["email", "jane@bücher.example", "jane@xn--bcher-kva.example"],
    ["uri", "spiffe://acme.example/ns/prod/sa/db", "spiffe://acme.example/ns/prod/sa/db"],
    ["uri", "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"],
    ["uri", "https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"],
    ["upn", "jane@CORP.EXAMPLE", "jane@CORP.EXAMPLE"],
  ];
  for (const [type, given, kept] of cases) {
    test(`${type} ${given}`, () => assert.equal(normalised(type, given), kept));
  }
});

describe("a bad name is refused with its reason", () => {
  const cases: readonly [TextNameType, string, string][] = [
    ["dns_name", "", "dns_name.empty"],
    ["dns_name", "a b.example.com", "dns_name.characters"],
    ["dns_name", "a\u0000.example.com", "dns_name.characters"],
    ["dns_name", "a_b.example.com", "dns_name.characters"],
    ["dns_name", "-a.example.com", "dns_name.characters"],
    ["dns_name", "a-.example.com", "dns_name.characters"],
    ["dns_name", "a..example.com", "dns_name.empty_label"],
    ["dns_name", ".example.com", "dns_name.empty_label"],
    ["dns_name", "example.com.", "dns_name.trailing_dot"],
    ["dns_name", `${"a".repeat(64)}.com`, "dns_name.label_too_long"],
    ["dns_name", `${"a.".repeat(127)}com`, "dns_name.too_long"],
    ["dns_name", "a.*.example.com", "dns_name.wildcard"],
    ["dns_name", "f*.example.com", "dns_name.wildcard"],
    ["dns_name", "*", "dns_name.wildcard"],
    ["dns_name", "*.*.example.com", "dns_name.wildcard"],
    ["dns_name", "192.0.2.1", "dns_name.address"],
    ["dns_name", "bü%41cher.example", "dns_name.characters"],
    ["dns_name", "xn--zzzzzzz99999.example", "dns_name.punycode"],
    ["ip_address", "192.0.2.256", "ip_address.syntax"],
    ["ip_address", "192.0.2.01", "ip_address.syntax"],
    ["ip_address", "fe80::1%eth0", "ip_address.syntax"],
    ["ip_address", "192.0.2.0/24", "ip_address.syntax"],
    ["email", "jane", "email.syntax"],
    ["email", "jane doe@example.com", "email.syntax"],
    ["email", "jürgen@example.com", "email.syntax"],
    ["email", "a@b@", "email.syntax"],
    ["email", "jane@exa mple.com", "email.domain"],
    ["email", "jane@*.example.com", "email.domain"],
    ["uri", "/relative", "uri.relative"],
    ["uri", "https://a b/", "uri.characters"],
    ["uri", "https:///path", "uri.host"],
    ["uri", "https://host/%zz", "uri.escape"],
    ["uri", "spiffe://host/ü", "uri.characters"],
    ["upn", "jane", "upn.syntax"],
    ["upn", "ja ne@corp", "upn.syntax"],
  ];
  for (const [type, value, code] of cases) {
    test(`${type} ${JSON.stringify(value).slice(0, 40)}`, () => {
      const isExpected = (error: unknown) => error instanceof X509Error && error.code === code;
      assert.throws(() => normaliseGeneralName(type, value), isExpected);
      assert.throws(() => encodeGeneralName({ type, value }), isExpected);
    });
  }

  test("and the message shows no raw control character", () => {
    assert.throws(() => normaliseGeneralName("dns_name", "a\u001b[31m"), /a\\x1b/);
  });
});

test("every kind reads back as it was written", () => {
  const names: readonly GeneralName[] = [
    { type: "dns_name", value: "*.example.com" },
    { type: "ip_address", value: "192.0.2.1" },
    { type: "ip_address", value: "2001:db8::1" },
    { type: "email", value: "jane@example.com" },
    { type: "uri", value: "https://example.com/x" },
    { type: "upn", value: "jäne@corp.example" },
    { type: "directory_name", value: parseName("CN=x,O=Acme") },
    { type: "registered_id", value: "1.2.3.4" },
  ];
  for (const name of names) assert.deepEqual(readDer(encodeGeneralName(name), readGeneralName), name);
});

describe("IP addresses", () => {
  const octets = fc.oneof(
    fc.uint8Array({ minLength: 4, maxLength: 4 }),
    fc.uint8Array({ minLength: 16, maxLength: 16 }),
    // Many zeros, for the "::" rules.
    fc
      .array(fc.constantFrom(0, 0, 0, 1, 255), { minLength: 16, maxLength: 16 })
      .map((list) => Uint8Array.from(list)),
  );

  test("property: octets to text and back, agreeing with the URL standard on IPv6", () => {
    fc.assert(
      fc.property(octets, (bytes) => {
        const text = formatIp(bytes);
        assert.deepEqual(parseIp(text), Buffer.from(bytes));
        assert.ok(bytes.length === 4 ? isIPv4(text) : isIPv6(text));
        if (bytes.length === 16 && !text.includes("."))
          assert.equal(new URL(`http://[${text}]/`).hostname, `[${text}]`);
      }),
      { numRuns: 1000 },
    );
  });

  test("property: accepts exactly what node:net calls an address, zones and leading zeros aside", () => {
    const soup = fc.string({
      unit: fc.constantFrom("0", "1", "f", "25", "::", ":", ".", "192.0.2.1"),
      maxLength: 12,
    });
    fc.assert(
      fc.property(soup, (text) => {
        assert.equal(parseIp(text) !== undefined, isIPv4(text) || isIPv6(text), text);
      }),
      { numRuns: 3000 },
    );
  });

  test("a range holds its addresses, and stray bits below the prefix are refused", () => {
    const range = parseCidr("10.2.0.0/15");
    assert.ok(range !== undefined);
    const holds = (text: string): boolean => isInRange(parseIp(text) ?? Buffer.alloc(0), range);
    assert.deepEqual(["10.2.0.0", "10.3.255.255", "10.4.0.0", "10.1.255.255", "::1"].map(holds), [
      true,
      true,
      false,
      false,
      false,
    ]);
    for (const bad of ["10.1.0.0/15", "10.0.0.0/33", "10.0.0.0", "10.0.0.0/8/8", "::/129", "10.0.0.0/08"]) {
      assert.equal(parseCidr(bad), undefined, bad);
    }
    assert.ok(parseCidr("0.0.0.0/0") !== undefined && parseCidr("::/0") !== undefined);
  });
});
