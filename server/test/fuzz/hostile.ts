/**
 * What nobody means to send and somebody always does. Values stand in for any field; bodies replace the whole text of
 * a request, because some of them (a depth of ten thousand, the same key twice) cannot come out of a serialiser.
 */

const LONE_SURROGATE = "a\ud800b";

/** JSON values that belong in no field. */
export const HOSTILE_VALUES: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  -1e308,
  9007199254740993,
  Number.MIN_VALUE,
  2147483648,
  -2147483649,
  9223372036854775807,
  "",
  " ",
  "\0",
  "a\0b",
  LONE_SURROGATE,
  "\udfff",
  "\r\nset-cookie: a=b",
  "line\nbreak",
  "\u2028\u2029",
  "\u202e\u200b\ufeff",
  "\u001b[31mred",
  '{"level":60,"msg":"forged"}',
  "../../etc/passwd",
  "..",
  ".",
  "/",
  "//",
  "/../..//./",
  "/a/../b",
  "%2e%2e%2f",
  "%00",
  "%",
  "\\",
  "'; DROP TABLE secrets; --",
  '"',
  "%_\\%",
  "${jndi:ldap://127.0.0.1/a}",
  "{{7*7}}",
  "=cmd|' /C calc'!A0",
  "<script>alert(1)</script>",
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "NaN",
  "Infinity",
  "1e9",
  "0x10",
  "undefined",
  "2026-02-30T00:00:00.000Z",
  "+275760-09-13T00:00:00.001Z",
  "-000001-01-01T00:00:00.000Z",
  "9999-12-31T23:59:59.999Z",
  "*",
  "**",
  "+(a|aa)+(a|aa)+(a|aa)",
  "{1..9999}",
  "[".repeat(200),
  "(".repeat(200),
  "a".repeat(300),
  "a".repeat(70_000),
  "😀".repeat(300),
  [],
  [null],
  [[]],
  ["a", 1, {}],
  Array.from({ length: 2000 }, (_, n) => n),
  {},
  { $ne: null },
  { toString: null },
  { length: -1 },
  { "": "" },
  { "a\0b": "a\0b" },
  { [LONE_SURROGATE]: LONE_SURROGATE },
  JSON.parse('{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}}}'),
];

/** Fields that no caller may set, offered everywhere (S-31). */
export const EXTRA_FIELDS: Readonly<Record<string, unknown>> = JSON.parse(
  '{"__proto__":{"isAdmin":true},"constructor":{},"orgId":"x","org_id":"x","isAdmin":true,"isInstanceAdmin":true,"version":-1,"createdAt":1}',
) as Record<string, unknown>;

export interface HostileBody {
  readonly what: string;
  readonly text: string | Buffer;
  readonly type?: string;
}

const deep = (open: string, close: string, depth: number): string =>
  open.repeat(depth) + "1" + close.repeat(depth);

const keys = (count: number): string => Array.from({ length: count }, (_, n) => `"k${n}":0`).join(",");
/** Eleven megabytes, made once. */
const MILLION_KEYS = `{${keys(1_000_000)}}`;

/** Whole bodies. `field` is a name that the endpoint knows, so that the bomb also lands where somebody looks. */
export function hostileBodies(field: string): HostileBody[] {
  const name = JSON.stringify(field);
  // As many as the door lets in, for the million is turned away at it.
  const manyKeys = `{${keys(100_000)}}`.slice(0, 1_000_000);
  return [
    { what: "a list ten thousand deep", text: deep("[", "]", 10_000) },
    { what: "an object ten thousand deep", text: deep('{"a":', "}", 10_000) },
    { what: "a field ten thousand deep", text: `{${name}:${deep("[", "]", 10_000)}}` },
    { what: "a field a hundred thousand deep", text: `{${name}:${deep("[", "]", 100_000)}}` },
    { what: "almost a hundred thousand keys", text: manyKeys.replace(/,[^,]*$/, "}") },
    { what: "a million keys", text: MILLION_KEYS },
    {
      what: "a field with fifty thousand keys",
      text: `{${name}:{${keys(50_000)}}}`,
    },
    { what: "a field with a hundred thousand items", text: `{${name}:[${"1,".repeat(99_999)}1]}` },
    { what: "a field with fifty thousand wrong objects", text: `{${name}:[${"{},".repeat(49_999)}{}]}` },
    { what: "a string of almost a megabyte", text: `{${name}:"${"x".repeat(1_000_000)}"}` },
    { what: "a string of two megabytes", text: `{${name}:"${"x".repeat(2_000_000)}"}` },
    { what: "a number of a hundred thousand digits", text: `{${name}:${"9".repeat(100_000)}}` },
    { what: "the number 1e400", text: `{${name}:1e400}` },
    { what: "the same key twice", text: `{${name}:"a",${name}:["b"]}` },
    {
      what: "prototype keys",
      text: `{"__proto__":{"isAdmin":true},"constructor":{"prototype":{}},${name}:{}}`,
    },
    {
      what: "bytes that are not UTF-8",
      text: Buffer.concat([
        Buffer.from(`{${name}:"`),
        Buffer.from([0xff, 0xc0, 0x80, 0xed, 0xa0, 0x80]),
        Buffer.from('"}'),
      ]),
    },
    { what: "escaped lone surrogates", text: `{${name}:"\\ud800","\\udc00":"\\udfff\\ud83d"}` },
    { what: "escaped NUL in a value and a key", text: `{${name}:"a\\u0000b","a\\u0000b":1}` },
    { what: "half a body", text: `{${name}:"` },
    { what: "nothing but a space", text: " " },
    { what: "a bare null", text: "null" },
    { what: "a bare string", text: '"text"' },
    { what: "a bare list", text: "[]" },
    { what: "a byte-order mark", text: "\ufeff{}" },
    {
      what: "a form",
      text: `${encodeURIComponent(field)}=a%00b&__proto__=1`,
      type: "application/x-www-form-urlencoded",
    },
    { what: "XML", text: "<a/>", type: "text/xml" },
    { what: "no type that anybody knows", text: "{}", type: "application/json; charset=utf-16" },
  ];
}

/** Parameters as they stand in a path, already encoded: the router is part of what is tested. */
export const HOSTILE_SEGMENTS: readonly string[] = [
  "..",
  ".",
  "%2e%2e",
  "%2e%2e%2f%2e%2e",
  "%252e%252e",
  "..%5c..",
  "%00",
  "a%00b",
  "%ff",
  "%c0%ae",
  "%ed%a0%80",
  "%",
  "%zz",
  "%0d%0aset-cookie:a=b",
  "%E2%80%A8",
  "%27%20OR%201=1--",
  "*",
  "__proto__",
  "constructor",
  ";a=b",
  "a".repeat(1000),
  "a".repeat(1025),
  "%F0%9F%98%80".repeat(100),
  "00000000-0000-0000-0000-000000000000",
  "00000000-0000-7000-8000-00000000000g",
  "-1",
  "1e9",
];

/** Queries as they stand after the question mark. */
export const hostileQueries = (field: string): string[] => [
  `${field}=1&${field}=2`,
  `${field}[]=1`,
  `${field}[a]=1`,
  `${field}=%ff`,
  `${field}=%00`,
  `${field}=%`,
  `${field}=${"a".repeat(8000)}`,
  `${field}=%ED%A0%80`,
  "__proto__=1&constructor=2&toString=3",
  `${"a=1&".repeat(2000)}`,
  `limit=-1&offset=-1&${field}=`,
  "limit=1e9&offset=99999999999999999999",
  "limit=0&page=0&orderBy=__proto__",
  "&&&===&?&#",
];
