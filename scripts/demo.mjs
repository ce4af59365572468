// `npm run demo`: a server on a data folder of its own (./data-demo), with something of everything in it, and
// ready-to-paste curl lines. Runs until Ctrl-C; started again, it goes on with the same data.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build, ROOT } from "./build.mjs";
import { curlLines, seed } from "./demo-content.mjs";
import { openMailbox, readable } from "./demo-mailbox.mjs";

build();
const dataDir = process.env.KEYWARD_DATA_DIR ?? join(ROOT, "data-demo");
process.env.KEYWARD_DATA_DIR = dataDir;
process.env.KEYWARD_LOG_LEVEL ??= "warn";
process.env.PORT ??= "8080";
// Kept back until the lines to paste are on the screen.
let mails = [];
process.env.KEYWARD_SMTP_URL ??= await openMailbox((to, message) => {
  const text = `\n--- mail to ${to} ${"-".repeat(40)}\n${readable(message)}\n${"-".repeat(60)}\n`;
  if (mails) mails.push(text);
  else console.log(text);
});
await import("../server/dist/src/main.js");

const base = `http://localhost:${process.env.PORT}`;
await until(async () => (await fetch(`${base}/api/status`)).ok);

mkdirSync(dataDir, { recursive: true });
const notes = join(dataDir, "demo.json");
const known = existsSync(notes) ? JSON.parse(readFileSync(notes, "utf8")) : undefined;
const content = known ?? (await seed(base));
if (!known) writeFileSync(notes, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
console.log(await curlLines(base, content));
for (const mail of mails) console.log(mail);
mails = undefined;

async function until(isReady) {
  for (let tries = 0; tries < 600; tries += 1) {
    if (await isReady().catch(() => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  console.error("The server did not become ready within 30 seconds; see the lines above.");
  process.exit(1);
}
