// node bench/events/run.mjs [broadcast] [latency] [revocation] [--streams 10000] [--listeners 1000] [--rate 100] [--seconds 8] [--rounds 3] [--warmup 8000] [--profile folder] [--build folder]
// Event streams against a bare socket server that writes the same bytes to the same number of sockets. Every figure
// is taken with the streams held by another process, so it includes that process reading them.
import { showRows } from "../bars.mjs";
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
  ...number("warmup"),
  ...(wanted.length > 0 ? { wanted } : {}),
  ...(text("profile") ? { nodeFlags: ["--cpu-prof", `--cpu-prof-dir=${text("profile")}`] } : {}),
  ...(text("build") ? { build: text("build") } : {}),
  say: console.log,
});
showRows(rows);
