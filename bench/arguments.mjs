// What was asked for on the command line. A run takes from a minute to an hour, so a word that nobody knows is refused
// instead of being passed over.
export const HTTP_SUITES = ["identities", "secrets", "certificates", "alerts"];
const SUITES = [...HTTP_SUITES, "growth", "events", "callers", "neighbours"];
const NUMBERS = ["connections", "seconds", "rounds"];
const TEXTS = ["against", "token"];
const SWITCHES = ["quick", "no-files"];

const USAGE = `npm run bench -- [${SUITES.join("|")} …] [--quick] [--connections 16] [--seconds 5] [--rounds 3] [--against URL --token T] [--no-files]`;
export class Refused extends Error {}
const refuse = (why) => {
  throw new Refused(`${why}\n${USAGE}`);
};

function againstOf({ against, token }) {
  if (against === undefined && token !== undefined) refuse("--token is for --against.");
  if (against === undefined) return undefined;
  if (!URL.canParse(against) || !/^https?:$/.test(new URL(against).protocol))
    refuse(`--against ${against} is no http(s) address.`);
  if (token === undefined)
    refuse(
      "--against needs --token: an access token of that server for somebody who may create projects there.",
    );
  return { url: against.replace(/\/+$/, ""), token };
}

export function readArguments(args) {
  const given = { suites: [] };
  for (let n = 0; n < args.length; n += 1) {
    const name = args[n].replace(/^--/, "");
    const isFlag = args[n].startsWith("--");
    if (!isFlag && SUITES.includes(name)) given.suites.push(name);
    else if (isFlag && SWITCHES.includes(name)) given[name] = true;
    else if (isFlag && [...NUMBERS, ...TEXTS].includes(name)) {
      const value = args[(n += 1)];
      if (value === undefined || value.startsWith("--")) refuse(`--${name} needs a value.`);
      given[name] = NUMBERS.includes(name) ? Number(value) : value;
      if (NUMBERS.includes(name) && !(given[name] > 0)) refuse(`--${name} ${value} is no number above zero.`);
    } else refuse(`Nobody knows ${args[n]}.`);
  }
  const against = againstOf(given);
  const alone = given.suites.filter((suite) => against && !HTTP_SUITES.includes(suite));
  if (alone.length > 0) refuse(`${alone.join(" and ")} look into the database: not with --against.`);
  const wanted = given.suites.length > 0 ? given.suites : against ? HTTP_SUITES : SUITES;
  return { ...given, against, wanted, isQuick: given.quick === true, isKept: given["no-files"] !== true };
}
