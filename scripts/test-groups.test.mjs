import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { entryOf, groupsOf, isApart, isFullSize, isOfProcesses } from "./test-groups.mjs";

const folder = mkdtempSync(join(tmpdir(), "keyward-groups-"));
after(() => rmSync(folder, { recursive: true, force: true }));

let count = 0;
function fileOf(text) {
  const file = join(folder, `${(count += 1)}.mjs`);
  writeFileSync(file, text);
  return file;
}
const grouped = (names) => {
  const files = new Map(Object.entries(names).map(([name, text]) => [fileOf(text), name]));
  const groups = groupsOf([...files.keys()], (file) => files.get(file));
  return groups.map((group) => group.map((file) => files.get(file)));
};

test("files of a room share a process, few enough of them, and each file is run once", () => {
  const names = Array.from({ length: 35 }, (_, n) => `server/dist/src/secrets/part-${n}.test.js`);
  const other = "server/dist/src/roles/roles.test.js";
  const groups = grouped(Object.fromEntries([...names, other].map((name) => [name, ""])));
  assert.deepEqual(groups.flat().sort(), [...names, other].sort());
  assert.deepEqual(groups.map((group) => group.length).sort(), [1, 11, 12, 12]);
  assert.ok(groups.some((group) => group.length === 1 && group[0] === other));
});

test("small rooms share one process", () => {
  const names = ["admin", "projects", "roles"].map((room) => `server/dist/src/${room}/${room}.test.js`);
  assert.deepEqual(grouped(Object.fromEntries(names.map((name) => [name, ""]))), [names]);
});

test("what starts servers, and what asks for it, has a process of its own and comes first", () => {
  const alone = "server/dist/src/roles/measured.test.js";
  const start = "server/dist/test/start/start.test.js";
  const groups = grouped({
    "server/dist/src/roles/a.test.js": "",
    "server/dist/src/roles/b.test.js": 'test("// A process of its own: is only read as a comment");',
    [alone]: "// A process of its own: it measures.\n",
    [start]: "",
  });
  assert.deepEqual(groups.slice(0, 2), [[start], [alone]]);
  assert.equal(groups[2].length, 2);
});

test("the entry of a group imports each file inside a suite of its name", () => {
  const text = entryOf([{ name: "a", url: "file:///a.js" }]);
  assert.match(text, /"name": "a",\n {4}"url": "file:\/\/\/a\.js"/);
});

test("a file that ends the process does not let those behind it pass unread", () => {
  const first = fileOf('import { test } from "node:test"; test("a", () => process.exit(0));');
  const second = fileOf('import { test } from "node:test"; test("b", () => {});');
  const ended = (...files) => {
    const entry = `${fileOf("")}.mjs`;
    writeFileSync(entry, entryOf(files.map((file) => ({ name: file, url: pathToFileURL(file).href }))));
    return spawnSync(process.execPath, [entry], { env: { ...process.env, NODE_TEST_CONTEXT: undefined } })
      .status;
  };
  assert.equal(ended(first, second), 1);
  assert.equal(ended(second), 0);
});

test("outside programs and full sizes are no part of the usual run", () => {
  for (const name of ["soak/x", "verifiers/x", "clients/x"]) assert.ok(isApart(`server/dist/test/${name}`));
  assert.ok(isFullSize("server/dist/test/budget/lists.test.js"));
  for (const name of [
    "server/dist/test/start/start",
    "server/dist/src/platform/db/standby",
    "packages/embedded-postgres/dist/launcher",
  ])
    assert.ok(isOfProcesses(`${name}.test.js`), name);
  assert.equal(isOfProcesses("server/dist/src/platform/db/database.test.js"), false);
  for (const is of [isApart, isFullSize, isOfProcesses])
    assert.equal(is("server/dist/test/fuzz/fuzz.test.js"), false);
});
