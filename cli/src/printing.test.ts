import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { facts, plain, table } from "./printing.ts";

describe("what is printed for people", () => {
  it("shows a dash for what is not there, and nothing that steers a terminal", () => {
    assert.deepEqual(
      [plain(undefined), plain(null), plain(""), plain(0), plain(false)],
      ["-", "-", "", "0", "false"],
    );
    assert.equal(plain("a\u001b[31mb\u202ec\nd"), "a?[31mb?c?d");
  });

  it("lines up columns and facts, without spaces at the end of a line", () => {
    assert.equal(
      table(
        ["name", "id"],
        [
          ["long name", null],
          ["x", 1],
        ],
      ),
      "NAME       ID\nlong name  -\nx          1",
    );
    assert.equal(facts({ name: "x", ends: undefined }), "name  x\nends  -");
  });
});
