// Which test files share a process. Starting one costs more than most files: each reads the whole server and warms it up.
// Files of one folder run one after another in one process, always the same ones together, each with a database of its own.
import { readFileSync } from "node:fs";

const GROUP = 10;

/** Soaks and judges by other people's programs have commands of their own; `npm test` needs Node and npm packages alone. */
export const isApart = (name) => /\/test\/(soak|verifiers|clients)\//.test(name);

/** Bounds that only bite at their full size: `npm run test:full`. */
export const isFullSize = (name) => /\/test\/budget\//.test(name);

/** What starts servers and clusters of its own shares nothing, and comes first: it is long, and would run alone at the end. */
const isLong = (name) => /\/test\/(start|faults|fuzz|events|canary|budget|jar)\//.test(name);
/** A file says so when it changes, or measures, something of its whole process. */
const isAlone = (file) => /^\s*(\/\/|\*|\/\*\*) A process of its own:/m.test(readFileSync(file, "utf8"));

/** The room, and in the platform its sub-room. */
function roomOf(name) {
  const folders = name
    .replace(/^[^/]+\/dist\//, "")
    .split("/")
    .slice(0, -1);
  return folders.slice(0, folders[1] === "platform" ? 3 : 2).join("/");
}

export function groupsOf(files, named) {
  const long = files.filter((file) => isLong(named(file)));
  const alone = files.filter((file) => !isLong(named(file)) && isAlone(file));
  const rooms = new Map();
  for (const file of files.filter((one) => !long.includes(one) && !alone.includes(one))) {
    const room = roomOf(named(file));
    rooms.set(room, [...(rooms.get(room) ?? []), file]);
  }
  const groups = [];
  for (const room of rooms.values()) {
    const parts = Math.ceil(room.length / GROUP);
    for (let part = 0; part < parts; part += 1)
      groups.push(
        room.slice(Math.round((part * room.length) / parts), Math.round(((part + 1) * room.length) / parts)),
      );
  }
  groups.sort((a, b) => b.length - a.length);
  return [...[...long, ...alone].map((file) => [file]), ...groups];
}

/** Each file is a suite: its hooks are its own. It is read when those before it are done. */
export const entryOf = (group) => `import { describe } from "node:test";
for (const { name, url } of ${JSON.stringify(group, undefined, 2)})
  await describe(name, async () => {
    await import(url);
  });
// Whatever a file left open must not keep the run waiting.
setTimeout(() => process.exit(), 1000).unref();
`;
