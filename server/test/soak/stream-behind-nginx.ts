/**
 * E-11: a stream that stays open for longer than any default time-out, through nginx with its default settings and
 * with the ones that docs/events.md recommends, and directly. Takes 65 minutes, so it is not part of `npm test`:
 * `npm run test:soak`. KEYWARD_SOAK_MINUTES shortens it; without nginx in the PATH only the direct stream is held.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { aProject } from "../builders.ts";
import { changed, commit, openStream, until, type StreamReader } from "../event-streams.ts";
import { openTestHouse } from "../harness.ts";

const MINUTES = Number(process.env["KEYWARD_SOAK_MINUTES"] ?? 65);
const EVENT_SECONDS = 60;
const say = (line: string): void =>
  void process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);

const RECOMMENDED =
  "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_buffering off; proxy_read_timeout 1h;";
const DEFAULT_PORT = 18_091;
const RECOMMENDED_PORT = 18_092;

async function startNginx(upstream: string): Promise<{ child: ChildProcess; folder: string } | undefined> {
  if (spawnSync("nginx", ["-v"]).error) return undefined;
  const folder = await mkdtemp(join(tmpdir(), "keyward-nginx-"));
  const server = (port: number, settings: string) =>
    `server { listen 127.0.0.1:${port}; location / { proxy_pass ${upstream}; ${settings} } }`;
  const config = `daemon off; pid ${folder}/pid; error_log ${folder}/error.log; events {}
    http { access_log off; client_body_temp_path ${folder}/b; proxy_temp_path ${folder}/p; fastcgi_temp_path ${folder}/f;
    uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s; ${server(DEFAULT_PORT, "")} ${server(RECOMMENDED_PORT, RECOMMENDED)} }`;
  await writeFile(join(folder, "nginx.conf"), config);
  const child = spawn("nginx", ["-c", join(folder, "nginx.conf"), "-p", folder], { stdio: "inherit" });
  await pause(500);
  return { child, folder };
}

async function soak(): Promise<void> {
  const test = await openTestHouse();
  const nginx = await startNginx(test.base);
  if (!nginx) say("nginx is not installed: only the direct stream is held");
  const { id } = await aProject(test.owner);
  const place = { orgId: test.owner.orgId, projectId: id };
  const bases = {
    direct: test.base,
    ...(nginx
      ? {
          "nginx, defaults": `http://127.0.0.1:${DEFAULT_PORT}`,
          "nginx, recommended": `http://127.0.0.1:${RECOMMENDED_PORT}`,
        }
      : {}),
  };
  const readers: { name: string; reader: StreamReader }[] = [];
  try {
    for (const [name, base] of Object.entries(bases)) {
      const startedAt = performance.now();
      const reader = await openStream(base, test.owner.token, { projectId: id });
      assert.equal(reader.status, 200);
      say(`${name}: the head arrived after ${Math.round(performance.now() - startedAt)} ms`);
      readers.push({ name, reader });
    }
    const endsAt = performance.now() + MINUTES * 60_000;
    for (let round = 1; performance.now() < endsAt; round += 1) {
      await pause(Math.max(0, Math.min(EVENT_SECONDS * 1000, endsAt - performance.now())));
      await commit(test.house, changed(place, "update", `ROUND_${round}`));
      for (const { name, reader } of readers) {
        await until(() => reader.events.length >= round || reader.isEnded, `${name}: event ${round}`);
        assert.equal(reader.isEnded, false, `${name} was cut in round ${round}`);
        const pings = reader.frames.filter((frame) => frame.event === "ping").length;
        assert.ok(
          pings >= Math.floor((round * EVENT_SECONDS) / 16) - 1 || MINUTES < 1,
          `${name}: only ${pings} pings`,
        );
      }
      if (round % 5 === 0) say(`round ${round}: all streams alive`);
    }
    say(`${readers.length} streams lived for ${MINUTES} minutes`);
  } finally {
    for (const { reader } of readers) reader.close();
    nginx?.child.kill();
    if (nginx) await rm(nginx.folder, { recursive: true, force: true });
    await test.close();
  }
}

await soak();
