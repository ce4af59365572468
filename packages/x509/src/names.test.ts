import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { formatName, parseName } from "./name-text.ts";
import {
  encodeName,
  isWithinName,
  nameFrom,
  namesMatch,
  parseNameDer,
  type DistinguishedName,
} from "./names.ts";
import { OID } from "./oids.ts";
import { X509Error } from "./x509-error.ts";

const refusal = (code: string, field: string) => (error: unknown) =>
  error instanceof X509Error && error.code === code && error.field === field;

describe("writing a name", () => {
  test("orders general to particular and picks the string type of each attribute", () => {
    const name = nameFrom({
      commonName: "Zoë",
      country: "DE",
      organization: "Acme",
      domainComponents: ["com", "example"],
      emailAddress: "a@example.com",
      serialNumber: "42",
      state: "",
    });
    const parsed = parseNameDer(encodeName(name));
    assert.equal(
      formatName(parsed.rdns),
      "CN=Zoë,emailAddress=a@example.com,serialNumber=42,O=Acme,DC=example,DC=com,C=DE",
    );
    // SET, SEQUENCE, type, then the tag of the value: PrintableString, IA5String, UTF8String.
    const hex = parsed.der.toString("hex");
    assert.match(hex, /0603550406130244450*/);
    assert.match(hex, /060a0992268993f22c6401191603636f6d/);
    assert.match(hex, /0603550403 ?0c045a6fc3ab/);
  });

  test("keeps several values in the order given", () => {
    const name = nameFrom({ organizationalUnit: ["first", "second", "first"] });
    assert.deepEqual(parseNameDer(encodeName(name)).rdns, name);
  });

  const refused: readonly [Parameters<typeof nameFrom>[0], string, string][] = [
    [{ commonName: "x".repeat(65) }, "name.too_long", "common_name"],
    [{ organization: "x".repeat(65) }, "name.too_long", "organization"],
    [{ organizationalUnit: "x".repeat(65) }, "name.too_long", "organizational_unit"],
    [{ state: "x".repeat(129) }, "name.too_long", "state"],
    [{ locality: "x".repeat(129) }, "name.too_long", "locality"],
    [{ country: "GERMANY" }, "name.country", "country"],
    [{ country: "de" }, "name.country", "country"],
    [{ commonName: "a\u0000b" }, "name.control", "common_name"],
    [{ commonName: "a\ud800" }, "name.unicode", "common_name"],
    [{ serialNumber: "a_b" }, "name.characters", "serial_number"],
    [{ emailAddress: "ä@example.com" }, "name.characters", "email"],
  ];
  for (const [fields, code, field] of refused) {
    test(`refuses ${JSON.stringify(fields).slice(0, 40)}`, () => {
      assert.throws(() => encodeName(nameFrom(fields)), refusal(code, field));
    });
  }

  test("bounds count characters, not octets or UTF-16 units", () => {
    assert.doesNotThrow(() => encodeName(nameFrom({ commonName: "😀".repeat(64) })));
    assert.throws(
      () => encodeName(nameFrom({ commonName: "😀".repeat(65) })),
      refusal("name.too_long", "common_name"),
    );
  });
});

describe("RFC 4514 text", () => {
  // Section 4 of the RFC, where our attribute table knows the types.
  const examples: readonly [string, DistinguishedName][] = [
    [
      "OU=Sales+CN=J.  Smith,DC=example,DC=net",
      [
        [{ type: OID.domainComponent, value: "net" }],
        [{ type: OID.domainComponent, value: "example" }],
        [
          { type: OID.organizationalUnit, value: "Sales" },
          { type: OID.commonName, value: "J.  Smith" },
        ],
      ],
    ],
    [
      'CN=James \\"Jim\\" Smith\\, III,DC=example,DC=net',
      [
        [{ type: OID.domainComponent, value: "net" }],
        [{ type: OID.domainComponent, value: "example" }],
        [{ type: OID.commonName, value: 'James "Jim" Smith, III' }],
      ],
    ],
    ["CN=Lu\\C4\\8Di\\C4\\87", [[{ type: OID.commonName, value: "Lučić" }]]],
    [
      "CN=Before\\0dAfter,DC=example",
      [[{ type: OID.domainComponent, value: "example" }], [{ type: OID.commonName, value: "Before\rAfter" }]],
    ],
  ];
  for (const [text, name] of examples) {
    test(`reads ${text}`, () => assert.deepEqual(parseName(text), name));
  }

  test("layout spaces do not count, escaped ones do", () => {
    assert.deepEqual(parseName("CN = a , O=b\\ "), [
      [{ type: OID.organization, value: "b " }],
      [{ type: OID.commonName, value: "a" }],
    ]);
    assert.equal(formatName([[{ type: OID.commonName, value: " #a " }]]), "CN=\\ #a\\ ");
    assert.equal(formatName([[{ type: OID.commonName, value: "#a" }]]), "CN=\\#a");
    // A no-break space is a character like any other.
    assert.deepEqual(parseName("CN=\u00a0 ,O=x"), [
      [{ type: OID.organization, value: "x" }],
      [{ type: OID.commonName, value: "\u00a0" }],
    ]);
  });

  for (const bad of ["CN", "=x", "XX=1", "CN=a,", "CN=a\\", "CN=\\C4", 'CN="a"', "CN=#0401", "CN=a,,O=b"]) {
    test(`refuses ${bad}`, () => assert.throws(() => parseName(bad), refusal("name.text", "subject")));
  }

  const value = fc
    .string({ unit: "grapheme", minLength: 1, maxLength: 30 })
    .filter((text) => !/\p{Cc}|\p{Surrogate}/u.test(text));
  const type = fc.constantFrom(
    OID.commonName,
    OID.organization,
    OID.organizationalUnit,
    OID.locality,
    "1.3.6.1.4.1.99999.1",
  );
  const name = fc.array(
    fc.array(fc.record({ type, value }, { noNullPrototype: true }), { minLength: 1, maxLength: 1 }),
    { maxLength: 5 },
  );

  test("property: text and DER both give the name back", () => {
    fc.assert(
      fc.property(name, (rdns) => {
        assert.deepEqual(parseName(formatName(rdns)), rdns);
        assert.deepEqual(parseNameDer(encodeName(rdns)).rdns, rdns);
      }),
      { numRuns: 500 },
    );
  });
});

test("names compare without regard to case, spaces and string type", () => {
  assert.ok(namesMatch(parseName("CN=The  Root,O=ACME"), parseName("CN=the root,O=Acme")));
  assert.ok(!namesMatch(parseName("CN=a,O=b"), parseName("O=b,CN=a")));
  assert.ok(isWithinName(parseName("CN=x,O=Acme,C=DE"), parseName("O=acme,C=DE")));
  assert.ok(!isWithinName(parseName("CN=x,O=Other,C=DE"), parseName("O=Acme,C=DE")));
  assert.ok(!isWithinName(parseName("C=DE"), parseName("O=Acme,C=DE")));
});
