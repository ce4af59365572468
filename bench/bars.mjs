// A figure, what bounds it and the bar it is held to, as a row: { case, keyward, limit, unit, bar, isKept }. Each bench
// makes such rows, for a run of its own and for `npm run bench`.
import { fileURLToPath } from "node:url";

export const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

/** `--name 5` on the command line, for each of these names that is there. */
export function flagsOf(names, args = process.argv.slice(2)) {
  const found = names.filter((name) => args.includes(`--${name}`));
  return Object.fromEntries(found.map((name) => [name, Number(args[args.indexOf(`--${name}`) + 1])]));
}

/** Is this the file that was started, or one that another reads? */
export const isStarted = (meta) => process.argv[1] === fileURLToPath(meta.url);

const figure = (value) => (value === null ? "–" : value.toFixed(value < 10 ? 2 : 1));

export function showRows(rows) {
  for (const { case: name, keyward, limit, unit, bar, isKept } of rows)
    console.log(
      `${isKept ? "kept  " : "MISSED"} ${name}: ${figure(keyward)} ${unit} (limit ${figure(limit)}; bar ${bar})`,
    );
}

export function allAnswered({ statuses }) {
  if (Object.keys(statuses).some((status) => status !== "200")) throw new Error(JSON.stringify(statuses));
}
