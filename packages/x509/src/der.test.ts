import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import * as der from "./der.ts";
import { readDer, type DerReader } from "./der-reader.ts";
import { assertCanonical, decodeTree, encodeTree, type DerTree } from "./der-tree.ts";

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(" ", ""), "hex");
const read = <T>(bytes: string, by: (reader: DerReader) => T): T => readDer(hex(bytes), by);

describe("the DER writer", () => {
  test("writes the published example encodings", () => {
    // X.690 8.19.5, RFC 5280 appendix C and the encodings every ASN.1 primer shows.
    assert.equal(der.oid("2.999.3").toString("hex"), "0603883703");
    assert.equal(der.oid("1.2.840.113549.1.1.11").toString("hex"), "06092a864886f70d01010b");
    assert.equal(der.integer(0).toString("hex"), "020100");
    assert.equal(der.integer(127).toString("hex"), "02017f");
    assert.equal(der.integer(128).toString("hex"), "02020080");
    assert.equal(der.integer(-128).toString("hex"), "020180");
    assert.equal(der.integer(-129).toString("hex"), "0202ff7f");
    assert.equal(der.boolean(true).toString("hex"), "0101ff");
    assert.equal(der.namedBits([5, 6]).toString("hex"), "03020106");
    assert.equal(der.namedBits([8]).toString("hex"), "0303070080");
    assert.equal(der.namedBits([]).toString("hex"), "030100");
    assert.equal(der.sequence().toString("hex"), "3000");
  });

  test("chooses the shortest length at every boundary", () => {
    const expected: readonly [number, string][] = [
      [0, "0400"],
      [0x7f, "047f"],
      [0x80, "048180"],
      [0xff, "0481ff"],
      [0x100, "04820100"],
      [0xffff, "0482ffff"],
      [0x10000, "0483010000"],
      [0x1000000, "048401000000"],
    ];
    for (const [length, head] of expected) {
      const encoded = der.octetString(Buffer.alloc(length));
      assert.equal(encoded.toString("hex", 0, encoded.length - length), head);
    }
  });

  test("orders the members of a set", () => {
    assert.equal(
      der.setOf([der.integer(9), der.integer(1), der.nullValue()]).toString("hex"),
      "31080201010201090500",
    );
  });

  test("writes UTCTime to 2049 and GeneralizedTime from 2050, cutting fractions", () => {
    assert.equal(der.time(new Date("2049-12-31T23:59:59.999Z")).toString("latin1", 2), "491231235959Z");
    assert.equal(der.time(new Date("2050-01-01T00:00:00Z")).toString("latin1", 2), "20500101000000Z");
    assert.equal(der.time(new Date("1950-01-01T00:00:00Z")).toString("latin1", 2), "500101000000Z");
    assert.equal(der.time(new Date("9999-12-31T23:59:59Z")).toString("latin1", 2), "99991231235959Z");
    assert.throws(() => der.time(new Date(Number.NaN)), der.DerError);
    assert.throws(() => der.time(new Date("+010000-01-01T00:00:00Z")), der.DerError);
  });

  test("refuses object identifiers that do not exist", () => {
    for (const bad of ["", "1", "3.1", "1.40", "1.2.03", "1.2.", "a.b"])
      assert.throws(() => der.oid(bad), der.DerError);
  });
});

describe("the DER reader refuses every second spelling", () => {
  const cases: Readonly<Record<string, [string, (reader: DerReader) => unknown]>> = {
    "long form where the short one fits": ["0481017f", (r) => r.octetString()],
    "a length with a leading zero": ["048200 80".concat("00".repeat(128)), (r) => r.octetString()],
    "an indefinite length": ["30800000", (r) => r.enter(0x30)],
    "a five-octet length": ["0485000000000100", (r) => r.octetString()],
    "a length beyond the end": ["040500", (r) => r.octetString()],
    "a length cut short": ["0482", (r) => r.octetString()],
    "a tag alone": ["04", (r) => r.octetString()],
    nothing: ["", (r) => r.octetString()],
    "trailing bytes": ["050000", (r) => r.null()],
    "a padded positive integer": ["0202007f", (r) => r.integer()],
    "a padded negative integer": ["0202ff80", (r) => r.integer()],
    "an integer without octets": ["0200", (r) => r.integer()],
    "TRUE as 01": ["010101", (r) => r.boolean()],
    "a two-octet boolean": ["0102ffff", (r) => r.boolean()],
    "a default FALSE written out": ["3003010100", (r) => r.sequence((s) => s.defaultFalse())],
    "a padded arc": ["06032a8001", (r) => r.oid()],
    "an arc cut short": ["06022a86", (r) => r.oid()],
    "an empty identifier": ["0600", (r) => r.oid()],
    "stray bits": ["03020107", (r) => r.bitString()],
    "eight unused bits": ["03020800", (r) => r.bitString()],
    "a bit string without its count": ["0300", (r) => r.bitString()],
    "unused bits of nothing": ["030101", (r) => r.bitString()],
    "a set out of order": ["3106020102020101", (r) => r.setOf((s) => s.integer())],
    "a time without seconds": ["170b32363031303130303030 5a", (r) => r.time()],
    "a time with an offset": ["1711" + Buffer.from("260101000000+0100").toString("hex"), (r) => r.time()],
    "a fraction of a second": ["1811" + Buffer.from("20260101000000.5Z").toString("hex"), (r) => r.time()],
    "the thirtieth of February": ["170d" + Buffer.from("260230000000Z").toString("hex"), (r) => r.time()],
    "hour 24": ["170d" + Buffer.from("260201240000Z").toString("hex"), (r) => r.time()],
    "UTF-8 that is not": ["0c02c328", (r) => r.utf8String()],
    "an overlong UTF-8 form": ["0c02c080", (r) => r.utf8String()],
    "IA5 beyond ASCII": ["1601e9", (r) => r.ia5String()],
    "a multi-octet tag": ["1f8101 00", (r) => r.element()],
  };
  for (const [name, [bytes, by]] of Object.entries(cases)) {
    test(name, () => assert.throws(() => read(bytes, by), der.DerError));
  }

  test("and says where", () => {
    assert.throws(
      () =>
        readDer(hex("3006020101020200ff".slice(0, 16)), (r) => r.sequence((s) => [s.integer(), s.integer()])),
      (error: unknown) => error instanceof der.DerError && error.offset === 5,
    );
  });
});

test("empty sequences and sets are values like any other", () => {
  assert.deepEqual(
    read("3000", (r) => r.list(0x30, (s) => s.element())),
    [],
  );
  assert.throws(() => read("3000", (r) => r.sequence((s) => s.integer())), der.DerError);
  assert.doesNotThrow(() => assertCanonical(hex("3000")));
  assert.doesNotThrow(() => assertCanonical(hex("3100")));
});

test("depth and size are bounded", () => {
  let nested = der.nullValue();
  for (let depth = 0; depth < 33; depth += 1) nested = der.sequence(nested);
  assert.throws(() => assertCanonical(nested), /nested too deeply/);
  assert.doesNotThrow(() => assertCanonical(nested.subarray(2)));
  assert.throws(() => assertCanonical(der.octetString(Buffer.alloc(1 << 20))), /longer than/);
});

const leaf: fc.Arbitrary<DerTree> = fc.oneof(
  fc.boolean().map((value): DerTree => ({ kind: "boolean", value })),
  fc.bigInt({ min: -(1n << 200n), max: 1n << 200n }).map((value): DerTree => ({ kind: "integer", value })),
  fc
    .uint8Array({ maxLength: 200 })
    .map((bytes): DerTree => ({ kind: "bits", unusedBits: 0, bytes: Buffer.from(bytes) })),
  fc.constant<DerTree>({ kind: "null" }),
  fc
    .tuple(fc.nat(2), fc.nat(39), fc.array(fc.bigInt({ min: 0n, max: (1n << 128n) - 1n }), { maxLength: 3 }))
    .map(([root, second, rest]): DerTree => ({ kind: "oid", value: [root, second, ...rest].join(".") })),
  fc.string({ unit: "grapheme" }).map((value): DerTree => ({ kind: "utf8", value })),
  fc
    .uint8Array({ maxLength: 200 })
    .map((b): DerTree => ({ kind: "primitive", tag: 0x04, content: Buffer.from(b) })),
  fc
    .date({ min: new Date("1950-01-01"), max: new Date("2049-12-31"), noInvalidDate: true })
    .map((at): DerTree => ({ kind: "utcTime", value: new Date(Math.floor(at.getTime() / 1000) * 1000) })),
);
const { tree } = fc.letrec<{ tree: DerTree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 5 },
    leaf,
    fc
      .array(tie("tree"), { maxLength: 5 })
      .map((members): DerTree => ({ kind: "constructed", tag: 0x30, members })),
    fc
      .array(tie("tree"), { maxLength: 5 })
      .map((members): DerTree => ({ kind: "constructed", tag: 0xa3, members })),
    fc.array(tie("tree"), { maxLength: 3 }).map((members): DerTree => ({ kind: "set", members })),
  ),
}));

test("property: every tree reads back as it was written", () => {
  fc.assert(
    fc.property(tree, (value) => {
      const bytes = encodeTree(value);
      assert.deepEqual(encodeTree(decodeTree(bytes)), bytes);
      if (value.kind !== "set" && value.kind !== "constructed") assert.deepEqual(decodeTree(bytes), value);
    }),
    { numRuns: 500 },
  );
});

test("property: a mutation is refused, or is itself canonical", () => {
  let refused = 0;
  fc.assert(
    fc.property(tree, fc.nat(), fc.nat(255), (value, position, octet) => {
      const bytes = Buffer.from(encodeTree(value));
      bytes[position % bytes.length] = octet;
      try {
        assert.deepEqual(encodeTree(decodeTree(bytes)), bytes);
      } catch (cause) {
        if (!(cause instanceof der.DerError)) throw cause;
        refused += 1;
      }
    }),
    { numRuns: 3000 },
  );
  assert.ok(refused > 100, "the mutations must bite");
});

test("property: arbitrary bytes never crash the reader", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      try {
        assert.deepEqual(encodeTree(decodeTree(Buffer.from(bytes))), Buffer.from(bytes));
      } catch (cause) {
        if (!(cause instanceof der.DerError)) throw cause;
      }
    }),
    { numRuns: 5000 },
  );
});

test("property: a time survives to the second, in the form its year demands", () => {
  const range = { min: new Date("1900-01-01"), max: new Date("9999-12-31"), noInvalidDate: true };
  fc.assert(
    fc.property(fc.date(range), (at) => {
      const { at: back, form } = readDer(der.time(at), (reader) => reader.time());
      assert.equal(back.getTime(), Math.floor(at.getTime() / 1000) * 1000);
      const year = at.getUTCFullYear();
      assert.equal(form, year >= 1950 && year <= 2049 ? "UTCTime" : "GeneralizedTime");
    }),
  );
});

test("property: integers agree with BigInt", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(1n << 300n), max: 1n << 300n }), (value) => {
      assert.equal(
        readDer(der.integer(value), (reader) => reader.integer()),
        value,
      );
    }),
  );
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 40 }), (bytes) => {
      const expected = BigInt(`0x${Buffer.from(bytes).toString("hex")}`);
      assert.equal(
        readDer(der.unsignedInteger(bytes), (reader) => reader.integer()),
        expected,
      );
    }),
  );
});
