import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import fc from "fast-check";
import { networkOf, regionOf } from "../http/client-address.ts";
import { redact } from "../redacted.ts";
import { contextOf, decrypt, encrypt } from "./aead.ts";
import { checkPassword, hashPassword, weakenPasswordsForTests, type Guesser } from "./passwords.ts";
import { openToken, signToken } from "./tokens.ts";

const key = randomBytes(32);
const from = (ip: string): Guesser => ({ account: "owner", network: networkOf(ip), region: regionOf(ip) });
const A = from("127.0.0.1");

describe("encryption at rest", () => {
  it("decrypts what was encrypted, for any text and context", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.array(fc.string(), { maxLength: 5 }), (text, place) => {
        assert.equal(decrypt(key, encrypt(key, text, place), place).toString(), Buffer.from(text).toString());
      }),
    );
  });

  it("S-57 does not decrypt in another context, under another key, or altered by one bit", () => {
    const box = encrypt(key, "value", ["secrets", "row-1", "value"]);
    assert.throws(() => decrypt(key, box, ["secrets", "row-2", "value"]));
    assert.throws(() => decrypt(randomBytes(32), box, ["secrets", "row-1", "value"]));
    for (let index = 0; index < box.length; index += 1) {
      const bent = Buffer.from(box);
      bent[index] = (bent[index] ?? 0) ^ 1;
      assert.throws(() => decrypt(key, bent, ["secrets", "row-1", "value"]), `bit in byte ${index}`);
    }
    assert.throws(() => decrypt(key, box.subarray(0, 10), []));
  });

  it("keeps contexts apart whose parts would join to the same text", () => {
    assert.notDeepEqual(contextOf(["ab", "c"]), contextOf(["a", "bc"]));
    assert.notDeepEqual(contextOf(["a|1:b"]), contextOf(["a", "b"]));
    assert.notDeepEqual(contextOf(["a|b"]), contextOf(["a", "b"]));
    const parts = fc.array(fc.string({ unit: fc.constantFrom("a", "|", ":", "1", "é") }), { maxLength: 4 });
    fc.assert(
      fc.property(parts, fc.nat(), (place, at) => {
        // The same text, parted elsewhere.
        const text = place.join("|");
        const cut = text.length === 0 ? 0 : at % text.length;
        const other = [text.slice(0, cut), text.slice(cut)];
        for (const one of [other, [text], text.split("|")])
          if (JSON.stringify(one) !== JSON.stringify(place))
            assert.notDeepEqual(contextOf(one), contextOf(place));
      }),
    );
  });

  it("never uses a nonce twice", () => {
    const nonces = new Set(
      Array.from({ length: 2000 }, () => encrypt(key, "", []).subarray(1, 13).toString("hex")),
    );
    assert.equal(nonces.size, 2000);
  });
});

describe("passwords", () => {
  it("accept the right one, refuse a wrong one, and an unknown account is a no", async () => {
    const hash = await hashPassword(redact("correct horse"), "a");
    assert.ok(await checkPassword(redact("correct horse"), hash, A));
    assert.ok(!(await checkPassword(redact("correct horsf"), hash, A)));
    assert.ok(!(await checkPassword(redact("correct horse"), undefined, A)));
    assert.ok(!hash.includes("correct"));
  });

  it("are one password however their letters are composed", async () => {
    assert.ok(await checkPassword(redact("cafe\u0301"), await hashPassword(redact("caf\u00e9"), "a"), A));
  });
});

describe("H9 the queue of password checks", () => {
  it("guesses from a hundred addresses do not keep a right password from elsewhere out", async () => {
    weakenPasswordsForTests();
    const hash = await hashPassword(redact("right"), "owner");
    const guess = (n: number) =>
      checkPassword(redact("wrong"), hash, from(`198.51.100.${n}`)).then(
        () => order.push("guess"),
        () => undefined,
      );
    const order: string[] = [];
    // Known for their guesses by now.
    for (let n = 0; n < 100; n += 1) for (let times = 0; times < 3; times += 1) await guess(n);
    order.length = 0;
    const guesses = Array.from({ length: 200 }, (_none, n) => guess(n % 100));
    assert.ok(await checkPassword(redact("right"), hash, from("203.0.113.7")));
    assert.ok(order.length <= 6, `${order.length} guesses came first`);
    await Promise.all(guesses);
  });

  /** All at once, each of them twice and none of them ever before; in which order they and another are served. */
  const beside = async (froms: readonly string[], other: () => Promise<boolean>): Promise<number> => {
    let served = 0;
    const guesses = [...froms, ...froms].map((from) =>
      guessed("wrong", from).then(
        () => (served += 1),
        () => undefined,
      ),
    );
    assert.ok(await other());
    const before = served;
    await Promise.all(guesses);
    return before;
  };
  const guessed = async (password: string, ip: string) =>
    checkPassword(redact(password), await (hash ??= hashPassword(redact("right"), "owner")), from(ip));
  let hash: Promise<string> | undefined;

  it("H-D fresh addresses of one provider share a turn: somebody from elsewhere hardly waits", async () => {
    const v4 = Array.from({ length: 100 }, (_none, n) => `192.0.2.${n}`);
    assert.ok((await beside(v4, () => guessed("right", "203.0.113.8"))) <= 6);
    const v6 = Array.from({ length: 100 }, (_none, n) => `2001:db8:7:${n}::1`);
    assert.ok((await beside(v6, () => guessed("right", "2001:db8:8::1"))) <= 6);
  });

  it("H-D fresh addresses of a hundred providers wait behind somebody who logged in from the same network before", async () => {
    const ours = "203.0.113.9";
    assert.ok(await guessed("right", ours));
    const v4 = Array.from({ length: 100 }, (_none, n) => `100.${n}.2.1`);
    assert.ok((await beside(v4, () => guessed("right", ours))) <= 6);
    const v6 = Array.from({ length: 100 }, (_none, n) => `2001:db9:${n}::1`);
    assert.ok((await beside(v6, () => guessed("right", ours))) <= 6);
  });

  const accountOf = (account: string, ip: string): Guesser => ({ ...from(ip), account });
  const heldBack = (error: unknown) => (error as { status?: number }).status;
  /** Wrong passwords that take long to check, all from one address; queued when this has answered. */
  const crowdOf = async (ip: string) => {
    const dear = `scrypt$${2 ** 14}$8$1$${Buffer.alloc(16).toString("base64")}$${Buffer.alloc(32).toString("base64")}`;
    for (let n = 0; n < 3; n += 1) await guessed("wrong", ip);
    const guesses = Array.from({ length: 40 }, () =>
      checkPassword(redact("wrong"), dear, from(ip)).catch(heldBack),
    );
    await new Promise((resolve) => setImmediate(resolve));
    return { answers: () => Promise.all(guesses) };
  };

  it("typing errors of people who then log in make nobody of their range a suspect", async () => {
    const stored = await hashPassword(redact("right"), "owner");
    for (const account of ["anna", "ben", "cleo", "dora"])
      for (const password of ["typo", "right"])
        await checkPassword(redact(password), stored, accountOf(account, "172.16.0.7"));
    const crowd = await crowdOf("172.30.0.1");
    assert.ok(await checkPassword(redact("right"), stored, accountOf("emil", "172.16.0.200")));
    await crowd.answers();
  });

  it("a range that guesses leaves room to wait for the other suspects", async () => {
    const stored = await hashPassword(redact("right"), "owner");
    for (let n = 0; n < 3; n += 1) await guessed("wrong", "172.29.0.1");
    const crowd = await crowdOf("172.31.0.1");
    assert.ok(await checkPassword(redact("right"), stored, accountOf("fred", "172.29.0.9")));
    assert.ok((await crowd.answers()).includes(429));
  });

  it("who is known from elsewhere, as after a restart, comes before strangers", async () => {
    const stored = await hashPassword(redact("right"), "owner");
    const strangers = Array.from({ length: 100 }, (_none, n) => `101.${n}.2.1`);
    const home = { ...accountOf("gina", "203.0.114.9"), isKnown: true };
    const other = async () => {
      await new Promise((resolve) => setImmediate(resolve));
      return checkPassword(redact("right"), stored, home);
    };
    assert.ok((await beside(strangers, other)) <= 12);
  });
});

describe("S-08 tokens", () => {
  const token = signToken(key, { sub: "x", exp: 1 });
  const [head = "", body = "", signature = ""] = token.split(".");
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

  it("verify when they are ours", () => assert.deepEqual(openToken(key, token), { sub: "x", exp: 1 }));

  for (const [what, hostile] of [
    ["alg none", `${encode({ alg: "none", typ: "JWT" })}.${body}.`],
    ["alg none with our signature", `${encode({ alg: "none", typ: "JWT" })}.${body}.${signature}`],
    ["another header order", `${encode({ typ: "JWT", alg: "HS256" })}.${body}.${signature}`],
    [
      "kid, jku and crit",
      `${encode({ alg: "HS256", typ: "JWT", kid: "../../dev/null", jku: "https://evil", crit: ["x"] })}.${body}.${signature}`,
    ],
    ["another body", `${head}.${encode({ sub: "admin", exp: 9e9 })}.${signature}`],
    ["no signature", `${head}.${body}.`],
    ["two parts", `${head}.${body}`],
    ["a padded signature", `${head}.${body}.${signature}=`],
    ["an endless one", `${head}.${"A".repeat(10_000)}.${signature}`],
    ["nothing", ""],
  ] as const) {
    it(`refuses ${what}`, () => assert.equal(openToken(key, hostile), undefined));
  }

  it("refuses one of another key", () => assert.equal(openToken(randomBytes(32), token), undefined));
});
