import assert from "node:assert/strict";
import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  joinLicence,
  LICENCE_MAX_LENGTH,
  LICENCE_PREFIX,
  licenceTextToSign,
  parseLicence,
  type LicencePayload,
} from "./contract.ts";
import { isSignedByOneOf, privateKeyFromSeed, publicDerOf, publicKeyFromDer, signLicence } from "./model.ts";

const key = privateKeyFromSeed(Buffer.alloc(32, 7));
const publicKeys = [publicKeyFromDer(publicDerOf(key))];

const payload: LicencePayload = {
  id: "01890000-0000-7000-8000-000000000001",
  orgId: "01890000-0000-7000-8000-000000000002",
  plan: "enterprise",
  features: ["eventSubscriptions"],
  notBefore: "2030-01-01T00:00:00.000Z",
  notAfter: "2031-01-01T00:00:00.000Z",
  issuedAt: "2029-12-31T12:00:00.000Z",
};

/** Believed as a whole: well-formed and signed. */
const isGood = (document: string): boolean => {
  const parsed = parseLicence(document);
  return parsed !== undefined && isSignedByOneOf(parsed, publicKeys);
};

const signText = (json: string): string => {
  const text = `${LICENCE_PREFIX}.${Buffer.from(json).toString("base64url")}`;
  return joinLicence(text, sign(null, Buffer.from(text), key));
};

const word = fc.stringMatching(/^[A-Za-z][A-Za-z0-9-]{0,20}$/);
const millis = fc.integer({ min: 0, max: 4_102_444_800_000 });
const payloads: fc.Arbitrary<LicencePayload> = fc
  .record({
    id: fc.uuid(),
    orgId: fc.option(fc.uuid()),
    plan: word,
    features: fc.array(word, { maxLength: 8 }),
    times: fc.tuple(
      millis,
      millis.filter((length) => length > 0),
      millis,
    ),
  })
  .map(({ times: [start, length, issued], ...rest }) => ({
    ...rest,
    notBefore: new Date(start).toISOString(),
    notAfter: new Date(start + length).toISOString(),
    issuedAt: new Date(issued).toISOString(),
  }));

describe("a licence document", () => {
  it("uses Ed25519 keys as RFC 8032 and RFC 8410 define them", () => {
    // RFC 8032 §7.1, TEST 1
    const seed = Buffer.from("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "hex");
    const wanted = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    assert.equal(publicDerOf(privateKeyFromSeed(seed)).subarray(-32).toString("hex"), wanted);
    const pem = privateKeyFromSeed(seed).export({ format: "pem", type: "pkcs8" });
    assert.equal(publicDerOf(createPrivateKey(pem)).subarray(-32).toString("hex"), wanted);
  });

  it("reads back as what was signed, with its features sorted and once each", () => {
    fc.assert(
      fc.property(payloads, (given) => {
        const document = signLicence(given, key);
        assert.ok(isGood(document));
        assert.deepEqual(parseLicence(document)?.payload, {
          ...given,
          features: [...new Set(given.features)].sort(),
        });
      }),
    );
  });

  it("is no longer believed when any one character differs", () => {
    const document = signLicence(payload, key);
    for (let index = 0; index < document.length; index += 1) {
      for (const other of ["A", "z", "0", "-", "_", ".", "=", " "]) {
        if (document[index] === other) continue;
        const altered = document.slice(0, index) + other + document.slice(index + 1);
        assert.equal(isGood(altered), false, `altered at ${index}`);
      }
    }
  });

  it("is not believed when somebody else signed it", () => {
    const stranger = generateKeyPairSync("ed25519").privateKey;
    assert.equal(isGood(signLicence(payload, stranger)), false);
  });

  it("is refused when signed text is not the one way to write its content", () => {
    const json = JSON.stringify(payload);
    assert.ok(isGood(signText(json)), "the canonical text itself is good");
    const { id, ...withoutId } = payload;
    const others = {
      "another order of keys": JSON.stringify({ ...withoutId, id }),
      "white space": JSON.stringify(payload, null, 1),
      "a further key": JSON.stringify({ ...payload, seats: 5 }),
      "a repeated key": json.replace("{", `{"plan":"free",`),
      "a missing key": JSON.stringify(withoutId),
      "unsorted features": JSON.stringify({ ...payload, features: ["b", "a"] }),
      "a feature twice": JSON.stringify({ ...payload, features: ["a", "a"] }),
      "a moment in another notation": JSON.stringify({ ...payload, notAfter: "2031-01-01T00:00:00Z" }),
      "a moment that does not exist": JSON.stringify({ ...payload, notAfter: "2031-02-30T00:00:00.000Z" }),
      "an end before the start": JSON.stringify({ ...payload, notAfter: payload.notBefore }),
      "an upper-case id": JSON.stringify({ ...payload, id: "01890000-0000-7000-8000-00000000000A" }),
      "a letter outside ASCII": JSON.stringify({ ...payload, plan: "entérprise" }),
      "no object": "null",
      "no JSON": "{",
    };
    for (const [what, text] of Object.entries(others))
      assert.equal(parseLicence(signText(text)), undefined, what);
  });

  it("is refused with white space, padding, a further part or beyond its size", () => {
    const document = signLicence(payload, key);
    for (const bad of [
      "",
      `${document} `,
      `${document}=`,
      `${document}.`,
      `${document}.AA`,
      document.toLowerCase(),
      LICENCE_PREFIX,
    ]) {
      assert.equal(parseLicence(bad), undefined);
    }
    const features = Array.from({ length: 64 }, (_, index) => `f${index}-${"x".repeat(58)}`);
    assert.ok(isGood(signLicence({ ...payload, features }, key)));
    assert.equal(parseLicence(`${LICENCE_PREFIX}.${"A".repeat(LICENCE_MAX_LENGTH)}.AA`), undefined);
  });

  it("cannot be made from terms that could not be read back", () => {
    assert.throws(() => licenceTextToSign({ ...payload, plan: "two words" }));
    assert.throws(() => licenceTextToSign({ ...payload, notAfter: "tomorrow" }));
  });
});

it("a licence is believed if one of the issuers signed it, and if nobody could have, by nobody", () => {
  const [stranger] = [publicKeyFromDer(publicDerOf(privateKeyFromSeed(Buffer.alloc(32, 8))))];
  const parsed = parseLicence(signLicence(payload, key));
  assert.ok(parsed && stranger);
  const believed = (keys: readonly (typeof stranger)[]) => isSignedByOneOf(parsed, keys);
  assert.equal(believed([...publicKeys]), true);
  assert.equal(believed([stranger, ...publicKeys]), true);
  assert.equal(believed([...publicKeys, stranger]), true);
  assert.equal(believed([stranger]), false);
  assert.equal(believed([]), false);
});
