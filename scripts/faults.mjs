// npm run test:faults [-- --seconds 60] [--seed N] [--only crashes,badWire,…]
// Real processes, killed and cut off on purpose, judged by a model in memory. `--seconds` is per scenario.
import { build } from "./build.mjs";

const args = process.argv.slice(2);
const value = (name, fallback) =>
  args.includes(`--${name}`) ? args[args.indexOf(`--${name}`) + 1] : fallback;
build();
const scenarios = await import("../server/dist/test/faults/scenarios.js");
const { stopOwnPostgres } = await import("../server/dist/test/postgres.js");

const seed = Number(value("seed", Math.floor(Math.random() * 2 ** 31)));
const seconds = Number(value("seconds", 60));
const names = value(
  "only",
  [
    "crashes,everyWrite,badWire,pausedNode,fullDisk,databaseAway,databaseLate,clockSteps,clocks",
    "silentConnections,rollingRestart,neighbours,failOver,switchOver,twoRoles,standbyAway",
  ].join(","),
).split(",");
const unknown = names.filter((name) => !(name in scenarios));
if (unknown.length > 0 || !(seconds > 0)) {
  console.error(`Known scenarios: ${Object.keys(scenarios).join(", ")}; --seconds is a number above zero.`);
  process.exit(2);
}
console.log(
  `seed ${seed} (again: npm run test:faults -- --seed ${seed} --seconds ${seconds} --only ${names.join(",")})`,
);
let broken = 0;
for (const name of names) {
  console.log(`\n${name}, ${seconds} s`);
  const { faults, seen } = await scenarios[name]({ seed, seconds, say: (line) => console.log(`  ${line}`) });
  console.log(`  ${JSON.stringify(seen)}`);
  for (const fault of faults) console.log(`  BROKEN: ${fault}`);
  broken += faults.length;
}
await stopOwnPostgres();
console.log(broken === 0 ? "\nEvery promise held." : `\n${broken} promises broken, seed ${seed}.`);
process.exit(broken === 0 ? 0 : 1);
