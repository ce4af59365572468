/** The sample code of docs/events.md, run as it is printed. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { aProject } from "../builders.ts";
import { changed, commit, until, type Place } from "../event-streams.ts";
import { openTestHouse, type TestHouse } from "../harness.ts";
import { fullOnly } from "../full-size.ts";

const PAGE = readFileSync(new URL("../../../../docs/events.md", import.meta.url), "utf8");
const sampleIn = (language: string): string => {
  const sample = PAGE.split(`\`\`\`${language}\n`)[1]?.split("\n```")[0];
  assert.ok(sample, `the page has a sample in ${language}`);
  return sample;
};
/** Its bytes are line ends and control characters to whoever takes them for Latin-1. */
const NAME = "DB_URL_\u0445_\u00c9_\u0445";
const isInstalled = (program: string, ...args: string[]): boolean => spawnSync(program, args).status === 0;

describe("the samples of docs/events.md", () => {
  let test: TestHouse;
  let place: Place;
  before(async () => {
    test = await openTestHouse();
    const { id } = await aProject(test.owner, { slug: "payments" });
    place = { orgId: test.owner.orgId, projectId: id, environment: "prod", path: "/app/api" };
  });
  after(() => test.close());

  /** Runs a sample, waits until its stream is open, makes a change, and waits until the sample has told of it. */
  const follow = async (program: string, args: readonly string[], env: Record<string, string> = {}) => {
    await until(() => test.house.events.openStreams() === 0, "the sample before to be gone");
    const child = spawn(program, args, { env: { PATH: process.env["PATH"], ...env } });
    let [told, complained] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => (told += text));
    child.stderr.on("data", (chunk: Buffer) => (complained += chunk.toString()));
    try {
      await until(() => test.house.events.openStreams() > 0 || child.exitCode !== null, "the stream");
      assert.equal(child.exitCode, null, complained);
      await commit(test.house, changed(place, "update", NAME));
      await commit(test.house, changed(place, "update", "LAST"));
      await until(() => told.includes("LAST") || child.exitCode !== null, "the events");
      assert.match(told, /secret:update/, complained);
      assert.ok(told.includes(NAME), complained);
      assert.match(told, /LAST/, complained);
    } finally {
      child.kill("SIGKILL");
    }
  };

  it("in Node", () => {
    const ground = `const url = ${JSON.stringify(test.base)}; const token = ${JSON.stringify(test.owner.token)};\n`;
    const flat = `const { log } = console; console.log = (said) => log(JSON.stringify(said));\n`;
    return follow(process.execPath, ["--input-type=module", "-e", ground + flat + sampleIn("js")]);
  });

  it("with curl", (t) => {
    if (fullOnly) return t.skip(fullOnly);
    if (!isInstalled("curl", "--version")) return t.skip("curl is not installed");
    const command = sampleIn("sh").replace("https://keyward.example.com", test.base);
    return follow("sh", ["-c", `exec ${command}`], { TOKEN: test.owner.token });
  });

  it("in Python", (t) => {
    if (fullOnly) return t.skip(fullOnly);
    if (!isInstalled("python3", "-c", "import requests")) return t.skip("Python has no requests here");
    const ground = `url, token = ${JSON.stringify(test.base)}, ${JSON.stringify(test.owner.token)}\n`;
    return follow("python3", ["-u", "-c", ground + sampleIn("python")]);
  });
});
