// npm run test:fuzz [-- --seconds 300] [--seed N] [--only endpointId,endpointId]
// Every route with random requests made from its published schemas. A seed leads to the same requests again.
import { build } from "./build.mjs";

const args = process.argv.slice(2);
const value = (name, fallback) =>
  args.includes(`--${name}`) ? args[args.indexOf(`--${name}`) + 1] : fallback;
build();
const { fuzz } = await import("../server/dist/test/fuzz/fuzz.js");

const seed = Number(value("seed", Math.floor(Math.random() * 2 ** 31)));
const seconds = Number(value("seconds", 300));
const only = value("only", undefined)?.split(",");
console.log(
  `seed ${seed} (again: npm run test:fuzz -- --seed ${seed} --seconds ${seconds}${only ? ` --only ${only.join(",")}` : ""})`,
);
const report = await fuzz({
  seed,
  seconds,
  ...(only ? { only } : {}),
  progress: (line) => console.log(line),
});
const { findings, ...figures } = report;
console.log(JSON.stringify(figures, null, 2));
for (const { endpoint, complaint, reason, sent, round } of findings)
  console.log(`\n${endpoint} (round ${round}): ${complaint}\n  ${reason ?? ""}\n  ${sent}`);
// What stayed shut twice over was not tried, however well everything else did.
const shut = figures.rounds > 1 && !only ? figures.neverGood : [];
if (shut.length > 0) console.log(`\nNever brought to a good answer, so not tried inside: ${shut.join(", ")}`);
console.log(findings.length === 0 ? "\nNothing found." : `\n${findings.length} findings, seed ${seed}.`);
process.exit(findings.length === 0 && shut.length === 0 ? 0 : 1);
