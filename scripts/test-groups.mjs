// Which test files share a process. Starting one costs more than most files: each reads the whole server and warms it up.
// Files of one room (or of a few small rooms) run one after another in one process, always the same ones together, each with a database of its own.
import { readFileSync } from "node:fs";

const GROUP = 16;
/** Rooms of so few files are put together. */
const FEW = 6;

/** Soaks and judges by other people's programs have commands of their own; `npm test` needs Node and npm packages alone. */
export const isApart = (name) => /\/test\/(soak|verifiers|clients)\//.test(name);

/** Bounds that only bite at their full size, and real nodes that are killed and cut off: `npm run test:full`. */
export const isFullSize = (name) =>
  /\/test\/(budget\/|faults\/(faults|fail-over)|events\/nodes|start\/copy)/.test(name) ||
  /\/(inventory\/deep-pages|alerts\/kill)\.test/.test(name);

/** Starts servers and clusters of its own, kills them, cuts them off and waits for what they promise: `npm run test:processes`. */
export const isOfProcesses = (name) =>
  /\/test\/(start|faults)\/|^packages\/embedded-postgres\/|\/(killed-rotation|alerts-process)\.test/.test(
    name,
  ) ||
  /\/platform\/db\/(standstill|migration-watch|silent-wire|standby|standby-away|unconfirmed|lost-answer)\.test/.test(
    name,
  );

/** Asks other people's programs among other things: those parts are for `npm run test:verifiers`. */
export const isJudged = (file) => /\bneeds\("(openssl|keytool)"\)/.test(readFileSync(file, "utf8"));

/** What starts servers and clusters of its own shares nothing, and comes first: it is long, and would run alone at the end. */
const isLong = (name) => isOfProcesses(name) || /\/test\/(fuzz|canary|budget|jar)\/|events\/nodes/.test(name);
/**
 * A file says so when it changes, or measures, something of its whole process. The stage of the alerts registers its hooks
 * when it is read, which happens once in a process.
 */
function isAlone(file) {
  const text = readFileSync(file, "utf8");
  return /^\s*(\/\/|\*|\/\*\*) A process of its own:/m.test(text) || /\/alert-(stage|door)\.js"/.test(text);
}

/** The room, in the platform its sub-room, or the package. */
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
  let few = [];
  for (const room of rooms.values()) {
    if (room.length > FEW) groups.push(...partsOf(room));
    else few.push(...room);
    if (few.length > FEW) groups.push(few.splice(0));
  }
  if (few.length > 0) groups.push(few);
  groups.sort((a, b) => b.length - a.length);
  return [...[...long, ...alone].map((file) => [file]), ...groups];
}

function partsOf(room) {
  const parts = Math.ceil(room.length / GROUP);
  const cut = (part) => Math.round((part * room.length) / parts);
  return Array.from({ length: parts }, (_, part) => room.slice(cut(part), cut(part + 1)));
}

/** Each file is a suite: its hooks are its own. It is read when those before it are done; one that ends the process fails. */
export const entryOf = (group) => `import { describe } from "node:test";
let isDone = false;
process.on("exit", (code) => {
  if (!isDone && code === 0) process.exitCode = 1;
});
for (const { name, url } of ${JSON.stringify(group, undefined, 2)})
  await describe(name, async () => {
    await import(url);
  });
isDone = true;
// Whatever a file left open must not keep the run waiting.
setTimeout(() => process.exit(), 1000).unref();
`;
