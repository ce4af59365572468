// node bench/events/run.mjs [broadcast] [latency] [revocation] [--streams 10000] [--listeners 1000] [--rate 100] [--seconds 8] [--rounds 3] [--profile folder] [--build folder]
// Event streams against a bare socket server that writes the same bytes to the same number of sockets. Every figure
// is taken with the streams held by another process, so it includes that process reading them.
import { EVENT_CASES, eventRows } from "./index.mjs";

const args = process.argv.slice(2);
const text = (name) => (args.includes(`--${name}`) ? args[args.indexOf(`--${name}`) + 1] : undefined);
const number = (name) => (text(name) === undefined ? {} : { [name]: Number(text(name)) });
const wanted = EVENT_CASES.filter((name) => args.includes(name));

const rows = await eventRows({
  ...number("streams"),
  ...number("listeners"),
  ...number("rate"),
  ...number("seconds"),
  ...number("rounds"),
  ...(wanted.length > 0 ? { wanted } : {}),
  ...(text("profile") ? { nodeFlags: ["--cpu-prof", `--cpu-prof-dir=${text("profile")}`] } : {}),
  ...(text("build") ? { build: text("build") } : {}),
  say: console.log,
});
const figure = (value) => (value === null ? "–" : value.toFixed(1));
for (const { case: name, keyward, limit, unit, bar, isKept } of rows)
  console.log(
    `${isKept ? "kept  " : "MISSED"} ${name}: ${figure(keyward)} ${unit} (limit ${figure(limit)}; bar ${bar})`,
  );
