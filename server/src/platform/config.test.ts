import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { configHelp, configTable, parseCidrs, readConfig, VARIABLES } from "./config.ts";

const KEY = Buffer.alloc(32, 7).toString("base64");

describe("configuration", () => {
  it("has defaults for everything", () => {
    const config = readConfig({});
    assert.equal(config.port, 8080);
    assert.equal(config.host, "127.0.0.1");
    assert.equal(config.databaseUrl, undefined);
    assert.equal(config.rateLimitRead, 6000);
  });

  for (const [name, value] of [
    ["PORT", "eighty"],
    ["PORT", "-1"],
    ["PORT", "65536"],
    ["PORT", "8080.5"],
    ["KEYWARD_HOST", "not a host"],
    ["DATABASE_URL", "mysql://x"],
    ["KEYWARD_ROOT_KEY", "short"],
    ["KEYWARD_ROOT_KEY", Buffer.alloc(16).toString("base64")],
    ["KEYWARD_TRUSTED_PROXIES", "10.0.0.0/33"],
    ["KEYWARD_TRUSTED_PROXIES", "ten"],
    ["KEYWARD_LOG_LEVEL", "loud"],
    ["KEYWARD_PUBLIC_URL", "ftp://x"],
    ["KEYWARD_RATE_LIMIT_READ", "many"],
  ] as const) {
    it(`refuses ${name}=${value} with one line that names the variable`, () => {
      assert.throws(
        () => readConfig({ [name]: value }),
        (error: Error) => error.message.startsWith(`${name} must`) && !error.message.includes("\n"),
      );
    });
  }

  it("never repeats a wrong secret value in its complaint", () => {
    assert.throws(
      () => readConfig({ KEYWARD_ROOT_KEY: "hunter2-hunter2" }),
      (error: Error) => !error.message.includes("hunter2"),
    );
  });

  it("wants a root key for a shared database", () => {
    assert.throws(
      () => readConfig({ DATABASE_URL: "postgres://db/keyward" }),
      /KEYWARD_ROOT_KEY must be set/,
    );
    assert.ok(readConfig({ DATABASE_URL: "postgres://db/keyward", KEYWARD_ROOT_KEY: KEY }).rootKey);
  });

  it("takes an empty value as an absent one", () => assert.equal(readConfig({ PORT: "" }).port, 8080));

  it("shows every variable in the help and in the README's table", () => {
    for (const { name } of Object.values(VARIABLES)) {
      assert.ok(configHelp().includes(name));
      assert.ok(configTable().includes(`\`${name}\``));
    }
  });

  it("reads address lists of both families", () => {
    const list = parseCidrs("10.0.0.0/8, 192.168.1.1, fd00::/8");
    assert.ok(list.check("10.9.8.7") && list.check("192.168.1.1") && !list.check("192.168.1.2"));
    assert.ok(list.check("fd12::1", "ipv6") && !list.check("fe80::1", "ipv6"));
  });
});
