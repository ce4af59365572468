// What a run says at its end: figures by room, then everything that nobody noticed.

const SHOWN = 300;

/** As a reader of a review would see it. */
export function differenceOf(text, { start, end, after, path, line }) {
  const from = text.lastIndexOf("\n", start - 1) + 1;
  const to = text.indexOf("\n", end) === -1 ? text.length : text.indexOf("\n", end);
  const lines = (part, sign) =>
    part
      .split("\n")
      .map((each) => `${sign} ${each.slice(0, SHOWN)}`)
      .join("\n");
  const before = text.slice(from, to);
  const then = text.slice(from, start) + after + text.slice(end, to);
  return `${path}:${line}\n${lines(before, "-")}\n${lines(then, "+")}`;
}

const isKilled = ({ status }) => status === "killed" || status === "late";

/** The share of the killed is taken of those that somebody could notice. */
export function figuresOf(results) {
  const count = (status) => results.filter((result) => result.status === status).length;
  const killed = results.filter(isKilled).length;
  const equivalent = count("equivalent");
  const counted = results.length - equivalent;
  return {
    all: results.length,
    killed,
    late: count("late"),
    survived: count("survived"),
    unmet: count("unmet"),
    equivalent,
    share: counted === 0 ? 100 : Math.round((killed / counted) * 1000) / 10,
  };
}

export function tableOf(results) {
  const rooms = [...new Set(results.map(({ room }) => room))].sort();
  const row = (name, own) => {
    const { all, killed, late, survived, unmet, equivalent, share } = figuresOf(own);
    return `| ${name} | ${all} | ${killed} | ${late} | ${survived} | ${unmet} | ${equivalent} | ${share} % |`;
  };
  return [
    "| Room | Mutants | Killed | of these by time | Survived | Met by no test | Equivalent | Killed of the rest |",
    "|---|---|---|---|---|---|---|---|",
    ...rooms.map((room) =>
      row(
        room,
        results.filter((result) => result.room === room),
      ),
    ),
    row("**all**", results),
  ].join("\n");
}

export const unnoticed = (results) =>
  results.filter(({ status }) => status === "survived" || status === "unmet");
