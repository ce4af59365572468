import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT } from "./build.mjs";
import { schemaOfMigrations } from "./schema.mjs";

test("docs/schema.sql is what the migrations make", async () => {
  const written = readFileSync(join(ROOT, "docs/schema.sql"), "utf8");
  assert.equal(await schemaOfMigrations(), written, "run npm run generate");
});

test("a reader of docs/schema.sql learns who owns a table and how its rows come to be", () => {
  const text = readFileSync(join(ROOT, "docs/schema.sql"), "utf8");
  const parts = text.split("\n\n");
  const inbox = parts.find((part) => part.includes("CREATE TABLE alert_inbox ("));
  assert.match(inbox, /^-- room: alerts\n/);
  assert.match(inbox, /^-- {3}outbox_keep_certificate_facts on outbox$/m);
  const trigger = parts.find((part) => part.startsWith("CREATE TRIGGER outbox_keep_certificate_facts"));
  assert.match(
    trigger,
    /EXECUTE FUNCTION keep_certificate_fact\(\);\nCREATE FUNCTION keep_certificate_fact\(\)/,
  );
  assert.match(trigger, /INSERT INTO alert_inbox/);
  for (const part of parts.filter((one) => /^CREATE (UNLOGGED )?TABLE/m.test(one)))
    assert.match(part, /^-- room: [a-z-]+\n/);
});
