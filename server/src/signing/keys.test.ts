import assert from "node:assert/strict";
import { pbkdf2 } from "node:crypto";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import type { Problem } from "../platform/problem.ts";
import { makeKey, standInFor } from "./keys.ts";
import { fullOnly } from "../../test/full-size.ts";

/** A machine with much else to do does not get through them in the time that one may wait. */
const toldToComeBack = (error: unknown) => assert.equal((error as Problem).status, 503);

describe("keys for certificates", () => {
  test("many RSA keys at once do not keep a login waiting, which needs the same threads", async () => {
    let made = 0;
    const warnings: Error[] = [];
    const warn = (warning: Error) => void warnings.push(warning);
    process.on("warning", warn);
    const keys = Array.from({ length: 12 }, () =>
      makeKey("RSA_2048", "org").then(() => (made += 1), toldToComeBack),
    );
    await promisify(pbkdf2)("a password", "salt", 1, 32, "sha256");
    assert.ok(made <= 4, `${made} keys were made before`);
    await Promise.all(keys);
    assert.ok(made > 0, "each in its turn, as long as there is patience for");
    process.off("warning", warn);
    assert.deepEqual(warnings, [], "a thread forgets whom it made a key for");
  });

  test(
    "H7 one organisation's crowd of RSA keys neither shuts another out nor keeps it waiting to the end",
    { skip: fullOnly },
    async () => {
      const made: string[] = [];
      const crowd = Array.from({ length: 80 }, () =>
        makeKey("RSA_2048", "crowd").then(
          () => made.push("crowd"),
          (error: unknown) => (error as Problem).status,
        ),
      );
      const other = await makeKey("RSA_2048", "other").then(() => made.push("other"));
      assert.ok(other <= 6, `${other - 1} keys of the crowd came first`);
      const refused = (await Promise.all(crowd)).filter((end) => end === 429).length;
      assert.ok(refused >= 40, `${refused} of 80 were told to come back`);
    },
  );

  test("H7 a dry run makes no key: the same placeholder for everyone", async () => {
    const [one, two] = await Promise.all([standInFor("RSA_2048"), standInFor("RSA_2048")]);
    assert.equal(one, two);
  });
});
