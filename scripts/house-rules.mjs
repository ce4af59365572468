// Who may import whom. Each rule is one sentence of HOUSE.md; check() takes a map of path → text, so that the test
// can show every rule a violation and see it reported. Type imports count: a cycle of types is a cycle. So do dynamic
// imports and workers: an arrow that is drawn late still points somewhere.
import { posix } from "node:path";
import { moduleOf } from "./module-graph.mjs";
import { isTest, packageOf } from "./workspaces.mjs";

/** What a file beside the furniture may not be called: such a name says nothing, and anything fits into it. */
const SAYS_NOTHING = /(^|[/.])(utils?|helpers?|common|shared|misc|types|lib|managers?)([/.]|$)/;
/** A room's face, its facts, and contracts wherever they stand: these are the outside's anyway. */
const ENTRANCES = /^server\/src\/[^/]+\/(index|events)\.ts$|[/.]contract(\.v\d+)?\.ts$/;
/** What knows neither time nor place: it may be asked from a decision. */
const PURE_MODULES = new Set(["node:crypto", "node:net", "lru-cache", "@keyward/x509"]);
/** The one file above the rooms that they may know. */
const VERSION = "server/src/version.ts";
const PURE_PLATFORM =
  /^server\/src\/platform\/(problem|ids|html|pace|group-by|glob(-[a-z]+)?|clock|redacted|actor|http\/(endpoint|client-address))\.ts$/;

const SQL = new Set(["sql", "searchSql", "slowSql"]);

const isAboveRooms = (path) => /^server\/src\/[^/]+\.ts$/.test(path);
const roomOf = (path) => /^server\/src\/(?!platform\/)([^/]+)\//.exec(path)?.[1];
const inPlatform = (path) => path.startsWith("server/src/platform/");
const base = (path) => posix.basename(path);
/** `store.ts`, a file of `store/`, or the store of a part: `retention.store.ts`. */
const isFurniture = (path, name) =>
  new RegExp(`(^|\\.)${name}\\.ts$`).test(base(path).replace(/\.v\d+\.ts$/, ".ts")) ||
  new RegExp(`/${name}/[^/]+\\.ts$`).test(path);

/** Of which tests are not free either. */
const PACKAGE_RULES = [
  [
    "packages-stand-alone",
    (from, { target, isRelative }) => {
      const home = packageOf(from);
      if (home === undefined) return false;
      if (isRelative) return packageOf(target) !== home;
      // A test may start another package; what is tested may not.
      return target.startsWith("@keyward/") && (!isTest(from) || /^@keyward\/(server|cli)\b/.test(target));
    },
  ],
  [
    "packages-are-entered-by-name",
    (from, { target }) =>
      (packageOf(target) !== undefined && packageOf(from) === undefined) ||
      (/^@keyward\/(?!server\/)[^/]+\//.test(target) &&
        !(isTest(from) && /^@keyward\/[^/]+\/testing$/.test(target))),
  ],
];

const EDGE_RULES = [
  [
    "platform-knows-no-room",
    (from, { target }) => inPlatform(from) && target.startsWith("server/src/") && !inPlatform(target),
  ],
  [
    "rooms-enter-by-the-door",
    (from, { target }) => {
      const [here, there] = [roomOf(from), roomOf(target)];
      // What is above the rooms puts them together; a room that asks it back would come in through the roof.
      if (here !== undefined && isAboveRooms(target)) return target !== VERSION;
      if (there === undefined || here === there || (here === undefined && !isAboveRooms(from))) return false;
      // Models are pure on both sides: what one decides another may build on.
      return !ENTRANCES.test(target) && !(isFurniture(from, "model") && isFurniture(target, "model"));
    },
  ],
  [
    "contract-is-pure",
    (from, { target }) =>
      isFurniture(from, "contract") &&
      roomOf(from) !== undefined &&
      target !== "zod" &&
      target !== "server/src/platform/http/endpoint.ts" &&
      !isFurniture(target, "contract"),
  ],
  [
    "model-is-pure",
    (from, { target }) =>
      isFurniture(from, "model") &&
      roomOf(from) !== undefined &&
      !PURE_MODULES.has(target) &&
      !PURE_PLATFORM.test(target) &&
      !isFurniture(target, "model") &&
      !isFurniture(target, "contract") &&
      !(base(target) === "index.ts" && roomOf(target) === "permissions"),
  ],
  [
    "events-are-facts",
    (from, { target }) =>
      base(from) === "events.ts" &&
      roomOf(from) !== undefined &&
      target !== "server/src/platform/outbox/index.ts" &&
      !isFurniture(target, "contract") &&
      !isFurniture(target, "model"),
  ],
  [
    "only-stores-speak-sql",
    (from, { target, names, isWhole }) =>
      roomOf(from) !== undefined &&
      !isFurniture(from, "store") &&
      target.startsWith("server/src/platform/db/") &&
      (isWhole || names.some((name) => SQL.has(name))),
  ],
  [
    "stores-are-low",
    (from, { target }) =>
      isFurniture(from, "store") &&
      roomOf(from) !== undefined &&
      roomOf(from) === roomOf(target) &&
      !["store", "model", "contract", "events"].some((name) => isFurniture(target, name)),
  ],
  [
    "routes-and-jobs-skip-no-floor",
    (from, { target }) =>
      (isFurniture(from, "routes") || isFurniture(from, "jobs")) &&
      roomOf(from) !== undefined &&
      isFurniture(target, "store"),
  ],
  [
    "only-the-door-knows-fastify",
    (from, { target }) => target === "fastify" && !from.startsWith("server/src/platform/http/"),
  ],
  [
    "only-the-database-knows-pg",
    (from, { target, isType }) =>
      ["pg", "@keyward/pg-pipeline"].includes(target) &&
      !isType &&
      !from.startsWith("server/src/platform/db/") &&
      packageOf(from) === undefined,
  ],
  [
    "only-the-database-starts-one",
    (from, { target, isType }) =>
      target === "@keyward/embedded-postgres" &&
      !isType &&
      !from.startsWith("server/src/platform/db/") &&
      !isAboveRooms(from),
  ],
  [
    "web-and-cli-know-only-the-contract",
    (from, { target }) =>
      /^(web|cli)\//.test(from) && (target.startsWith("server/") || target.startsWith("@keyward/server/")),
  ],
];

function cyclesIn(graph) {
  const state = new Map();
  const cycles = [];
  const visit = (path, trail) => {
    state.set(path, "open");
    for (const next of graph.get(path) ?? []) {
      if (state.get(next) === "open") cycles.push([...trail.slice(trail.indexOf(next)), next]);
      else if (!state.has(next)) visit(next, [...trail, next]);
    }
    state.set(path, "done");
  };
  for (const path of graph.keys()) if (!state.has(path)) visit(path, [path]);
  return cycles;
}

export function check(files) {
  const violations = [];
  const graph = new Map();
  for (const [path, text] of files) {
    const { imports, unreadable } = moduleOf(path, text);
    for (const edge of imports) {
      for (const [rule, breaks] of PACKAGE_RULES)
        if (breaks(path, edge)) violations.push({ rule, path, detail: `imports ${edge.target}` });
    }
    if (isTest(path)) continue;
    graph.set(
      path,
      imports.map((edge) => edge.target).filter((target) => files.has(target)),
    );
    for (const edge of imports) {
      for (const [rule, breaks] of EDGE_RULES)
        if (breaks(path, edge)) violations.push({ rule, path, detail: `imports ${edge.target}` });
    }
    for (const line of unreadable)
      violations.push({
        rule: "imports-name-their-target",
        path,
        detail: `line ${line} imports or starts what it does not name`,
      });
    if (roomOf(path) !== undefined && SAYS_NOTHING.test(path.slice("server/src/".length)))
      violations.push({ rule: "names-say-what", path, detail: "has a name that says nothing" });
    if (/^export default /m.test(text))
      violations.push({ rule: "no-default-export", path, detail: "has a default export" });
  }
  for (const cycle of cyclesIn(graph))
    violations.push({ rule: "no-cycles", path: cycle[0], detail: cycle.join(" → ") });
  return violations;
}
