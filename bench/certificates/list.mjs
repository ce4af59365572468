// node bench/certificates/list.mjs [--rows 1000000] [--connections 16] [--seconds 3] [--rounds 3]
// Operation 1 with a million certificates in one profile against the same requests with a thousand, interleaved; and
// its first page against a bare program that runs the same statement and answers the same bytes.
import { createHash } from "node:crypto";
import http from "node:http";
import pg from "pg";
import { allAnswered, flagsOf, isStarted, median, showRows } from "../bars.mjs";
import { load } from "../load.mjs";
import { openWorld, seed, upkeepDone } from "./world.mjs";

const SMALL = 1000;

const FIRST_PAGE = `SELECT c.id, c.serial_number AS "serialNumber", c.common_name AS "cn", c.not_before AS "notBefore", c.not_after AS "notAfter",
  c.revoked_at AS "revokedAt", c.created_at AS "createdAt" FROM certificates c WHERE c.profile_id = $1 ORDER BY c.created_at DESC, c.id DESC LIMIT 20`;

/** No routing, no token, no validation, no picking: the statement and the bytes. */
async function startBare(connection) {
  const clients = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const client = new pg.Client({ ...connection, pipeline: true });
      await client.connect();
      return client;
    }),
  );
  let turn = 0;
  const server = http.createServer(async (request, response) => {
    const client = clients[(turn += 1) % clients.length];
    const { rows: found } = await client.query({
      name: "page",
      text: FIRST_PAGE,
      values: [request.url.slice(1)],
    });
    const now = Date.now();
    const certificates = found.map((row) => ({
      ...row,
      status: row.revokedAt ? "revoked" : row.notAfter.getTime() <= now ? "expired" : "active",
    }));
    const body = JSON.stringify({ certificates });
    response.writeHead(200, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body),
    });
    response.end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    base: `http://127.0.0.1:${server.address().port}`,
    async close() {
      server.close();
      server.closeAllConnections();
      await Promise.all(clients.map((client) => client.end()));
    },
  };
}

const path = (profile, query) => `/api/v1/cert-manager/certificate-profiles/${profile}/certificates${query}`;
// Another one with each request, so that nothing is found because it was found before.
const any = (count) => 1 + Math.floor(Math.random() * count);
const aName = (count) => () => {
  const g = any(count);
  return `?search=${["api", "web", "db", "cache", "mail"][g % 5]}-${g}.`;
};
const aSerial = (count) => () =>
  `?search=${createHash("md5")
    .update(String(any(count)))
    .digest("hex")
    .slice(5, 19)}`;
const same = (query) => [query, query];
const casesFor = (rows) => ({
  "first page": same("?limit=20"),
  "status=active": same("?limit=20&status=active"),
  "status=expired": same("?limit=20&status=expired"),
  "status=revoked": same("?limit=20&status=revoked"),
  "search, no hit": same("?search=zebra"),
  "search, a name": [aName(SMALL), aName(rows)],
  "search, part of a serial": [aSerial(SMALL), aSerial(rows)],
  "search, common": same("?search=example"),
  "search, a fifth of all": same("?search=api"),
  "search, two letters, no hit": same("?search=zq"),
  "deep page": ["?limit=20&offset=900", `?limit=20&offset=${Math.floor(rows * 0.9)}`],
  "any page": [() => `?limit=20&offset=${any(980)}`, () => `?limit=20&offset=${any(rows - 20)}`],
});

async function firstPageShare(world, next, { connections, seconds, rounds, profile }) {
  const bare = await startBare(world.connection);
  const runs = [];
  for (let round = 0; round < rounds; round += 1) {
    const limit = await load(bare.base, () => ({ method: "GET", path: `/${profile}` }), {
      connections,
      seconds,
    });
    const ours = await load(world.keyward.base, next, { connections, seconds });
    runs.push({ share: ours.rate / limit.rate, limit: limit.rate, ours: ours.rate });
  }
  await bare.close();
  return [...runs].sort((a, b) => a.share - b.share)[Math.floor(runs.length / 2)];
}

export async function listRows(options = {}) {
  const { rows = 1_000_000, connections = 16, seconds = 3, rounds = 3, say = () => {} } = options;
  const world = await openWorld();
  try {
    const [small, large] = [await world.profile("small"), await world.profile("large")];
    await seed(world, small, SMALL);
    const startedAt = performance.now();
    const since = () => `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
    await seed(world, large, rows);
    say(`seeded ${rows} certificates in ${since()}`);
    await upkeepDone(world);
    say(`blocks described after ${since()}`);
    const page = (profile, query) => () => ({
      method: "GET",
      path: path(profile, typeof query === "function" ? query() : query),
      headers: world.headers,
    });
    const found = [];
    for (const [name, [ofSmall, ofLarge]] of Object.entries(casesFor(rows))) {
      const runs = [];
      for (let round = 0; round < rounds; round += 1) {
        const one = await load(world.keyward.base, page(small, ofSmall), { connections, seconds });
        const two = await load(world.keyward.base, page(large, ofLarge), { connections, seconds });
        [one, two].forEach(allAnswered);
        runs.push([one, two]);
      }
      const of = (side, field) => median(runs.map((run) => run[side][field]));
      const ratio = median(runs.map(([one, two]) => two.p50 / one.p50));
      say(
        `${name}: ${SMALL}: ${of(0, "rate").toFixed(0)}/s, p50 ${of(0, "p50").toFixed(1)}, p99 ${of(0, "p99").toFixed(1)} ms; ` +
          `${rows}: ${of(1, "rate").toFixed(0)}/s, p50 ${of(1, "p50").toFixed(1)}, p99 ${of(1, "p99").toFixed(1)} ms; ratio of p50 ${ratio.toFixed(2)}`,
      );
      found.push({
        case: `list of ${rows.toLocaleString("en")} against ${SMALL.toLocaleString("en")}: ${name}, p50`,
        ...{ keyward: of(1, "p50"), limit: of(0, "p50"), unit: "ms", bar: "≤ 3 × limit", isKept: ratio <= 3 },
      });
    }
    const first = await firstPageShare(world, page(large, "?limit=20"), {
      ...{ connections, seconds, rounds, profile: large },
    });
    found.push({
      case: `first page of ${rows.toLocaleString("en")} certificates`,
      ...{ keyward: first.ours, limit: first.limit, unit: "/s", bar: "≥ 50 % of limit" },
      isKept: first.share >= 0.5,
    });
    return found;
  } finally {
    await world.close();
  }
}

if (isStarted(import.meta))
  showRows(await listRows({ ...flagsOf(["rows", "connections", "seconds", "rounds"]), say: console.log }));
