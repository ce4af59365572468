import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readArguments } from "../bench/arguments.mjs";

describe("what npm run bench is asked for", () => {
  const refuses = (words, why) => assert.throws(() => readArguments(words.split(" ").filter(Boolean)), why);

  it("is everything, or what is named", () => {
    assert.equal(readArguments([]).wanted.length, 8);
    const { wanted, seconds, isKept } = readArguments(["secrets", "--seconds", "0.5", "--no-files"]);
    assert.deepEqual({ wanted, seconds, isKept }, { wanted: ["secrets"], seconds: 0.5, isKept: false });
  });

  it("is refused where nobody knows what is meant, before an hour of the wrong thing", () => {
    refuses("secret", /Nobody knows secret/);
    refuses("--qick", /Nobody knows --qick/);
    refuses("--seconds soon", /no number above zero/);
    refuses("--rounds", /needs a value/);
    refuses("--against --token x", /--against needs a value/);
  });

  it("names another server with a token for it, and only what can be asked of it", () => {
    const { against, wanted } = readArguments(["--against", "https://keys.example.com/", "--token", "t"]);
    assert.deepEqual(against, { url: "https://keys.example.com", token: "t" });
    assert.deepEqual(wanted, ["identities", "secrets", "certificates", "alerts"]);
    refuses("--against https://keys.example.com", /needs --token/);
    refuses("--against keys.example.com --token t", /no http\(s\) address/);
    refuses("--token t", /--token is for --against/);
    refuses("events --against https://keys.example.com --token t", /events look into the database/);
  });
});
