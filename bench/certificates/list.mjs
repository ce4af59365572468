// node bench/certificates/list.mjs [--rows 1000000] [--connections 16] [--seconds 3] [--rounds 3]
// Operation 1 with a million certificates in one profile against the same requests with a thousand, interleaved; and
// its first page against a bare program that runs the same statement and answers the same bytes.
import { createHash } from "node:crypto";
import http from "node:http";
import pg from "pg";
import { load } from "../load.mjs";
import { openWorld, seed, upkeepDone } from "./world.mjs";

const flag = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : Number(process.argv[at + 1]);
};
const [rows, connections, seconds, rounds] = [
  flag("rows", 1_000_000),
  flag("connections", 16),
  flag("seconds", 3),
  flag("rounds", 3),
];
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

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

const world = await openWorld();
try {
  const [small, large] = [await world.profile("small"), await world.profile("large")];
  await seed(world, small, 1_000);
  const startedAt = performance.now();
  await seed(world, large, rows);
  console.log(`seeded ${rows} certificates in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  await upkeepDone(world);
  console.log(`blocks described after ${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`);
  const path = (profile, query) =>
    `/api/v1/cert-manager/certificate-profiles/${profile}/certificates${query}`;
  const page = (profile, query) => () => ({
    method: "GET",
    path: path(profile, typeof query === "function" ? query() : query),
    headers: world.headers,
  });
  const deep = Math.floor(rows * 0.9);
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
  const cases = [
    ["first page", "?limit=20", "?limit=20"],
    ["status=active", "?limit=20&status=active", "?limit=20&status=active"],
    ["status=expired", "?limit=20&status=expired", "?limit=20&status=expired"],
    ["status=revoked", "?limit=20&status=revoked", "?limit=20&status=revoked"],
    ["search, no hit", "?search=zebra", "?search=zebra"],
    ["search, a name", aName(1_000), aName(rows)],
    ["search, part of a serial", aSerial(1_000), aSerial(rows)],
    ["search, common", "?search=example", "?search=example"],
    ["search, a fifth of all", "?search=api", "?search=api"],
    ["search, two letters, no hit", "?search=zq", "?search=zq"],
    ["deep page", "?limit=20&offset=900", `?limit=20&offset=${deep}`],
    ["any page", () => `?limit=20&offset=${any(980)}`, () => `?limit=20&offset=${any(rows - 20)}`],
  ];
  console.log(
    `| case | 1,000: req/s | p50 ms | p99 ms | ${rows.toLocaleString("en")}: req/s | p50 ms | p99 ms | ratio of p50 |`,
  );
  console.log("|---|---|---|---|---|---|---|---|");
  for (const [name, ofSmall, ofLarge] of cases) {
    const runs = [];
    for (let round = 0; round < rounds; round += 1) {
      const one = await load(world.keyward.base, page(small, ofSmall), { connections, seconds });
      const two = await load(world.keyward.base, page(large, ofLarge), { connections, seconds });
      for (const run of [one, two])
        if (Object.keys(run.statuses).some((status) => status !== "200"))
          throw new Error(JSON.stringify(run.statuses));
      runs.push([one, two]);
    }
    const of = (side, field) => median(runs.map((run) => run[side][field]));
    const ratio = median(runs.map(([one, two]) => two.p50 / one.p50));
    console.log(
      `| ${name} | ${of(0, "rate").toFixed(0)} | ${of(0, "p50").toFixed(1)} | ${of(0, "p99").toFixed(1)} | ${of(1, "rate").toFixed(0)} | ${of(1, "p50").toFixed(1)} | ${of(1, "p99").toFixed(1)} | ${ratio.toFixed(2)} |`,
    );
  }
  const bare = await startBare(world.connection);
  const shares = [];
  for (let round = 0; round < rounds; round += 1) {
    const limit = await load(bare.base, () => ({ method: "GET", path: `/${large}` }), {
      connections,
      seconds,
    });
    const ours = await load(world.keyward.base, page(large, "?limit=20"), { connections, seconds });
    shares.push({ share: ours.rate / limit.rate, limit: limit.rate, ours: ours.rate });
  }
  await bare.close();
  const { share, limit, ours } = [...shares].sort((a, b) => a.share - b.share)[Math.floor(shares.length / 2)];
  console.log(
    `\nfirst page: ${ours.toFixed(0)}/s of ${limit.toFixed(0)}/s by the limit program = ${(share * 100).toFixed(0)} % (the limit program shares this process with the load)`,
  );
} finally {
  await world.close();
}
