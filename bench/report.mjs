// The figures as a table for people, JSON for machines, and a picture of the growth curves.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const whole = (value) =>
  value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(value < 10 ? 2 : 1);

function caseTable(cases) {
  const hasOther = cases.some(({ other }) => other);
  const head = [
    "case",
    "Keyward/s",
    "limit/s",
    "share of limit",
    "p50 ms",
    "p99 ms",
    "limit p99 ms",
    "CPU µs/request",
    "RSS MB",
    ...(hasOther ? ["other/s", "other p99 ms", "times other"] : []),
  ];
  const rows = cases.map(({ suite, name, share, keyward, limit, other }) => [
    `${suite}: ${name}`,
    whole(keyward.rate),
    whole(limit.rate),
    `${Math.round(share * 100)} %`,
    whole(keyward.p50),
    whole(keyward.p99),
    whole(limit.p99),
    whole(keyward.cpuMicros),
    whole(keyward.rssMb),
    ...(hasOther
      ? other
        ? [whole(other.rate), whole(other.p99), `${(keyward.rate / other.rate).toFixed(1)}×`]
        : ["–", "–", "–"]
      : []),
  ]);
  return table([head, ...rows]);
}

const table = (rows) => {
  const [head, ...rest] = rows;
  return [head, head.map(() => "---"), ...rest].map((row) => `| ${row.join(" | ")} |`).join("\n");
};

/** What grows with the logarithm doubles from a thousand to a million; the first points pay for a cold start. */
const MOST_GROWTH = 3;
const growthOf = (points) => points.at(-1).p50 / Math.min(...points.map(({ p50 }) => p50));

function growthTable(growth) {
  const sizes = growth[0].points.map(({ size }) => size);
  return table([
    ["median ms of", ...sizes.map((size) => `${size.toLocaleString("en")}`), "last ÷ lowest", "level"],
    ...growth.map(({ name, points }) => [
      name,
      ...points.map(({ p50 }) => whole(p50)),
      `${growthOf(points).toFixed(1)}×`,
      growthOf(points) <= MOST_GROWTH ? "yes" : "**no**",
    ]),
  ]);
}

const listTables = ({ rows, bars }) => [
  table([
    ["one at a time", "p50 ms", "p99 ms"],
    ...rows.map((row) => [row.name, whole(row.p50), whole(row.p99)]),
  ]),
  table([
    ["ratio of medians", "is", "bar", "kept"],
    ...bars.map(({ name, value, bar, isKept }) => [
      name,
      `${value.toFixed(2)}×`,
      bar,
      isKept ? "yes" : "**no**",
    ]),
  ]),
];

const barTable = (rows) =>
  table([
    ["case", "Keyward", "limit", "bar", "kept"],
    ...rows.map(({ case: name, keyward, limit, unit, bar, isKept }) => [
      name,
      `${whole(keyward)} ${unit}`,
      limit === null ? "–" : `${whole(limit)} ${unit}`,
      bar,
      isKept ? "yes" : "**no**",
    ]),
  ]);

const COLOURS = ["#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f"];

/** Both axes logarithmic: a cost that does not grow is a level line. */
export function growthChart(growth) {
  const [width, height, left, bottom, right] = [760, 380, 60, 40, 240];
  const points = growth.flatMap((curve) => curve.points);
  const [lowX, highX] = [Math.min(...points.map((p) => p.size)), Math.max(...points.map((p) => p.size))].map(
    Math.log10,
  );
  const lowY = Math.floor(Math.log10(Math.min(...points.map((p) => p.p50))));
  const highY = Math.max(lowY + 1, Math.ceil(Math.log10(Math.max(...points.map((p) => p.p50)))));
  const x = (size) =>
    left + ((Math.log10(size) - lowX) / Math.max(1e-9, highX - lowX)) * (width - left - right);
  const y = (ms) => height - bottom - ((Math.log10(ms) - lowY) / (highY - lowY)) * (height - bottom - 20);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
  ];
  for (let power = lowY; power <= highY; power += 1)
    parts.push(
      `<path d="M${left} ${y(10 ** power)}H${width - right}" stroke="#ddd"/><text x="${left - 8}" y="${y(10 ** power) + 4}" text-anchor="end">${10 ** power} ms</text>`,
    );
  for (const { size } of growth[0].points)
    parts.push(
      `<text x="${x(size)}" y="${height - bottom + 18}" text-anchor="middle">${size.toLocaleString("en")}</text>`,
    );
  for (const [index, { name, points: own }] of growth.entries()) {
    const colour = COLOURS[index % COLOURS.length];
    parts.push(
      `<path d="M${own.map((p) => `${x(p.size).toFixed(1)} ${y(p.p50).toFixed(1)}`).join("L")}" fill="none" stroke="${colour}" stroke-width="2"/>`,
    );
    for (const p of own)
      parts.push(`<circle cx="${x(p.size).toFixed(1)}" cy="${y(p.p50).toFixed(1)}" r="3" fill="${colour}"/>`);
    parts.push(`<text x="${width - right + 16}" y="${40 + index * 20}" fill="${colour}">${name}</text>`);
  }
  return `${parts.join("\n")}\n</svg>\n`;
}

const fileOf = (topic) => `growth-${topic}.svg`;
const topicsOf = (growth) => [...new Set(growth.map(({ topic }) => topic))];

const growthParts = (growth) =>
  growth.length === 0
    ? []
    : [
        "## Growth",
        "One request at a time of each kind, against the number of things that are already there. Level (or logarithmic: up to three times the lowest) is good, anything else is to be fixed or explained; both axes of the charts are logarithmic.",
        ...topicsOf(growth).flatMap((topic) => [
          growthTable(growth.filter((curve) => curve.topic === topic)),
          `![Growth of ${topic}](${fileOf(topic)})`,
        ]),
      ];

/** What is held to a bar, and what stands beside it as the limit. */
const SUITES = [
  {
    suite: "certificates",
    title: "Certificates",
    limit:
      "The limits are a loop that only inserts the same rows, one that only signs, the same request with a thousand certificates, and a bare program with the same statement.",
  },
  {
    suite: "alerts",
    title: "Alerts",
    limit: "The limit is the same work with few certificates, or without alerts.",
  },
  {
    suite: "events",
    title: "Event streams",
    limit: "The limit is a bare socket server that writes the same bytes to as many sockets.",
  },
  {
    suite: "callers",
    title: "Many callers",
    limit:
      "Ten thousand tokens read a secret, each for the first time and then again, with rate limits and the audit of readings as they are by default. The limit of the later use is the same reading by one token.",
  },
  {
    suite: "neighbours",
    title: "Beside a heavy neighbour",
    limit:
      "One organisation reads a secret a hundred times a second while another does its worst. The limit is the same pace beside nobody.",
  },
];

const ALL = ["identities", "secrets", "certificates", "alerts", "growth", "events", "callers", "neighbours"];

function lastFullResults() {
  if (!existsSync(here("results"))) return undefined;
  const files = readdirSync(here("results")).filter((name) => name.endsWith(".json"));
  return files
    .sort()
    .reverse()
    .map((name) => JSON.parse(readFileSync(here(`results/${name}`), "utf8")))
    .find(({ settings }) => !settings.isQuick && settings.against === undefined);
}

/** A run of some suites leaves the others as the last run found them; `from` says when each was measured. */
function withTheRest(results, suites) {
  const at = results.startedAt.toISOString();
  const own = Object.fromEntries(suites.map((suite) => [suite, at]));
  const isPart = suites.length < ALL.length && !results.settings.isQuick && !results.settings.against;
  const last = isPart ? lastFullResults() : undefined;
  if (!last) return { ...results, from: own };
  const from = { ...(last.from ?? Object.fromEntries(ALL.map((suite) => [suite, last.startedAt]))), ...own };
  const joined = (field) =>
    ALL.flatMap((suite) =>
      (suites.includes(suite) ? results : last)[field].filter((one) => one.suite === suite),
    );
  return {
    ...results,
    from,
    cases: joined("cases"),
    rows: joined("rows"),
    lists: suites.includes("secrets") ? results.lists : last.lists,
    growth: suites.includes("growth") ? results.growth : last.growth,
    idleMb: results.idleMb || last.idleMb,
  };
}

function agesOf({ from, startedAt }) {
  const older = Object.entries(from).filter(([, at]) => at !== startedAt.toISOString());
  if (older.length === 0) return [];
  const told = older.map(([suite, at]) => `${suite} ${at.slice(0, 16).replace("T", " ")}`);
  return [`Measured in an earlier run: ${told.join(", ")} (UTC).`];
}

function pageOf({ startedAt, machine, settings, idleMb, cases, lists, growth, rows, from }) {
  const parts = [
    "# Results",
    `${startedAt.toISOString().slice(0, 10)}, ${machine}; client, server and database on the same machine. ${settings.connections} connections, ${settings.rounds} rounds of ${settings.seconds} s, Keyward and its limit program in turns, medians. Idle memory of the server: ${Math.round(idleMb)} MB. The whole run took ${settings.tookSeconds} s${settings.isQuick ? " (`--quick`: rougher than a full run)" : ""}.`,
    "The limit is a bare `node:http` program that does the unavoidable statements and cryptography of the same request with the stock `pg` client and answers the same bytes. Keyward speaks to PostgreSQL through wire code of its own that puts many requests into one exchange, so its share can be above what `pg` allows. Lists as before are answered from memory after one look whether anything has changed, and so does their limit; what a new list costs stands below. Figures of different machines do not compare; shares of the limit do.",
    ...agesOf({ from, startedAt }),
    ...(cases.length > 0 ? [caseTable(cases)] : []),
    ...(lists ? ["## Lists of a hundred secrets", ...listTables(lists)] : []),
    ...SUITES.flatMap(({ suite, title, limit }) => {
      const own = rows.filter((row) => row.suite === suite);
      return own.length === 0 ? [] : [`## ${title}`, limit, barTable(own)];
    }),
    ...growthParts(growth),
  ];
  return `${parts.join("\n\n")}\n`;
}

export function writeResults({ isKept, suites, ...measured }) {
  const results = withTheRest(measured, suites);
  const { startedAt, growth } = results;
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? "unknown"}, Node ${process.version}`;
  const page = pageOf({ ...results, machine });
  if (isKept) {
    mkdirSync(here("results"), { recursive: true });
    const file = here(`results/${startedAt.toISOString().slice(0, 16).replaceAll(":", "")}.json`);
    writeFileSync(file, `${JSON.stringify({ machine, ...results }, null, 2)}\n`);
    writeFileSync(here("RESULTS.md"), page);
    for (const topic of topicsOf(growth))
      writeFileSync(here(fileOf(topic)), growthChart(growth.filter((curve) => curve.topic === topic)));
  }
  return page;
}
