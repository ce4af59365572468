import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { createTestDatabase, stopOwnPostgres } from "../server/dist/test/postgres.js";
import { startServer } from "../server/dist/test/process.js";
import { clientOf, curlLines, seed } from "./demo-content.mjs";

const hasCurl = spawnSync("curl", ["--version"]).status === 0;

test("the demo fills an empty server through the public interface, and its curl lines work as they are printed", async (t) => {
  const database = await createTestDatabase();
  const { host, port, user } = database.server;
  const server = await startServer({
    DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
    KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
  });
  try {
    const content = await seed(server.base);
    const call = clientOf(server.base, content.token);
    const { certificates } = await call(
      "GET",
      `/api/v1/cert-manager/certificate-profiles/${content.profileId}/certificates`,
    );
    assert.equal(certificates.length, 3);
    if (!hasCurl) return t.skip("there is no curl on this machine: the printed lines were not tried");
    const text = await curlLines(server.base, content);
    const commands = text
      .replaceAll("\\\n", " ")
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line.startsWith("curl -s "));
    assert.ok(commands.length >= 8);
    for (const command of commands.filter((line) => !line.includes("openssl"))) {
      const printed = execFileSync("sh", ["-c", command], {
        env: { ...process.env, TOKEN: content.token },
        encoding: "utf8",
        timeout: 20_000,
      });
      const answer = JSON.parse(printed);
      assert.equal(answer.statusCode, undefined, `${command}\n${printed}`);
    }
  } finally {
    await server.stop();
    await database.drop();
    await stopOwnPostgres();
  }
});
