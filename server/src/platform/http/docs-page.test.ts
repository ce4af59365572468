import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";
import { Script } from "node:vm";
import { docsPage, docsPageCsp } from "./docs-page.ts";

const between = (tag: string): string[] =>
  [...docsPage().matchAll(new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`, "g"))].map((match) => match[1] ?? "");
const hashOf = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

describe("the documentation page", () => {
  it("has a policy that lets exactly its own style and script run", () => {
    for (const [tag, directive] of [
      ["style", "style-src"],
      ["script", "script-src"],
    ] as const) {
      const blocks = between(tag);
      assert.equal(blocks.length, 1);
      assert.ok(docsPageCsp.split("; ").includes(`${directive} ${hashOf(blocks[0] ?? "")}`), directive);
    }
    assert.ok(docsPageCsp.startsWith("default-src 'none'"));
    assert.doesNotMatch(docsPageCsp, /unsafe|\*/);
  });

  it("fetches nothing from elsewhere and carries no attribute that its policy would refuse", () => {
    assert.doesNotMatch(docsPage(), /https?:\/\/|\ssrc=|url\(|@import|\son\w+=|\sstyle=/);
  });

  it("has a script that is valid and never writes markup", () => {
    const [script = ""] = between("script");
    assert.doesNotThrow(() => new Script(script));
    assert.doesNotMatch(script, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function/);
  });
});
