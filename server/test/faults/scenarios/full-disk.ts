import { mkdirSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { clientOf } from "../../harness.ts";
import { startServer, type ServerProcess } from "../../process.ts";
import { mountSmallDisk, whyNoDisk, type SmallDisk } from "../disk.ts";
import {
  gather,
  holds,
  judgeSilence,
  lastWords,
  pause,
  postmasterOf,
  READY,
  watch,
  type Outcome,
  type ScenarioOptions,
} from "../ground.ts";
import { Ledger } from "../ledger.ts";
import { dice, furnish, judge, judgeTables, startLoad, type Place } from "../load.ts";

/** A new cluster takes some 60 MB, its log up to 16 MB at a time. */
const DISK_MB = 220;
/** How long it may take to notice that there is no more room: what is already allocated is used up first. */
const PATIENCE_SECONDS = 60;

interface Scene {
  readonly disk: SmallDisk;
  readonly server: ServerProcess;
  readonly place: Place;
  readonly dataDir: string;
  readonly faults: string[];
  readonly seen: Record<string, number>;
  readonly say: (line: string) => void;
}

/** The log needs its next segment now instead of after sixteen megabytes: the worst place to run out of room. */
async function switchLog({ dataDir }: Scene): Promise<void> {
  const client = new pg.Client({ ...postmasterOf(dataDir).connection, ssl: false });
  client.on("error", () => undefined);
  try {
    await client.connect();
    for (let n = 0; n < 8; n += 1)
      await client.query("SELECT pg_logical_emit_message(false, 'full', repeat('x', 5000)), pg_switch_wal()");
  } catch {
    // PostgreSQL gives up where it cannot write its log. That is the point.
  } finally {
    // Not awaited: whose other end is gone may never be told that it ended.
    client.end().catch(() => undefined);
  }
}

/** One time of no room: fill, see it refused with a promise, see what reading does, make room, see it come back. */
async function runOut(scene: Scene, kind: "tables" | "log"): Promise<void> {
  const { disk, server, place, faults, seen } = scene;
  const client = clientOf(server.base, place.token);
  const count = (what: string): void => void (seen[what] = (seen[what] ?? 0) + 1);
  disk.fill();
  if (kind === "log") await switchLog(scene);
  let refused = 0;
  const isNoticed = await holds(async () => {
    disk.fill();
    const write = await client.post("/api/v1/identities", { name: "nobody-counts" });
    if (write.status === 503 && write.headers.get("retry-after") !== null) refused += 1;
    else if (write.status !== 200)
      faults.push(`on a full disk a write answered ${write.status} ${JSON.stringify(write.body)}`);
    const read = await client.get(`/api/v4/secrets?projectId=${place.projectId}&environment=dev`);
    count(`read ${read.status}, ${kind}`);
    if (read.status !== 200 && (read.status !== 503 || read.headers.get("retry-after") === null))
      faults.push(`on a full disk a read answered ${read.status} ${JSON.stringify(read.body)}`);
    return refused >= 5;
  }, PATIENCE_SECONDS);
  if (!isNoticed) faults.push(`${kind}: writes were not refused on a full disk`);
  await pause(500);
  disk.free();
  scene.say(`${kind}: refused ${refused} times, room is made`);
  const isBack = await holds(
    async () => (await client.post("/api/v1/identities", { name: "back" })).status === 200,
    PATIENCE_SECONDS,
  );
  if (!isBack) faults.push(`${kind}: no recovery after room was made; its last words: ${lastWords(server)}`);
}

/** the disk under PostgreSQL is full, for tables or for its log; room is made, and all goes on. */
export async function fullDisk({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const skipped = whyNoDisk();
  if (skipped !== undefined) return { faults: [], seen: { skipped } };
  const roll = dice(seed);
  const disk = mountSmallDisk(DISK_MB);
  const dataDir = join(disk.path, "data");
  mkdirSync(dataDir, { mode: 0o711 });
  const faults: string[] = [];
  const seen: Record<string, number> = {};
  const ledger = new Ledger();
  let server: ServerProcess | undefined;
  try {
    server = watch(await startServer({ ...READY, KEYWARD_DATA_DIR: dataDir }));
    const place = await furnish(server.base);
    const scene = { disk, server, place, dataDir, faults, seen, say: say ?? (() => undefined) };
    const until = performance.now() + seconds * 1000;
    const statuses: Record<string, number> = {};
    for (
      let generation = 0;
      (generation < (seconds < 10 ? 1 : 2) || performance.now() < until) && faults.length === 0;
      generation += 1
    ) {
      const { base } = server;
      const load = startLoad({ seed, generation, writers: 4, place, ledger, base: () => base });
      await pause(200 + roll(800));
      // The log first: it is the worse of the two, and all that a short run tries.
      const kind = generation === 0 ? "log" : generation === 1 || roll(2) === 0 ? "tables" : "log";
      await runOut(scene, kind);
      await load.stop();
      for (const [status, count] of Object.entries(load.statuses))
        statuses[status] = (statuses[status] ?? 0) + count;
      gather(faults, load, [server]);
      judgeSilence(faults, load);
      if (faults.length > 0) break;
      faults.push(
        ...(await judge(base, place, ledger)),
        ...(await judgeTables(postmasterOf(dataDir).connection, ledger)),
      );
      say?.(`full ${generation}, ${kind}: ${JSON.stringify({ ...seen, statuses, faults: faults.length })}`);
    }
    return { faults, seen: { ...seen, statuses, unanswered: ledger.unanswered } };
  } finally {
    disk.free();
    await server?.stop();
    disk.unmount();
  }
}
