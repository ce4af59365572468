// Many callers: what a reading costs when each comes with a token of its own, the first time and later, and how many
// rows a reading writes. node bench/callers.mjs [--identities 100] [--each 100]
import { flagsOf, isStarted, showRows } from "./bars.mjs";
import { dial, load } from "./load.mjs";
import { usageOf } from "./processes.mjs";
import { closeWorlds, openWorld } from "./world.mjs";

const MOST_ROWS = 1.2;
/** A flush, and the database's own counting of it. */
const SETTLE_MS = 4500;
const CONNECTIONS = 16;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function tokensOf(world, projectId, { identities, each }) {
  const tokens = [];
  for (let n = 0; n < identities; n += 1) {
    const { identity } = await world.call("POST", `/api/v1/projects/${projectId}/identities`, {
      name: `caller-${n}`,
      roles: [{ role: "viewer" }],
    });
    const path = `/api/v1/auth/universal-auth/identities/${identity.id}`;
    const auth = await world.call("POST", path, {});
    const secret = await world.call("POST", `${path}/client-secrets`, {});
    const body = { clientId: auth.identityUniversalAuth.clientId, clientSecret: secret.clientSecret };
    for (let from = 0; from < each; from += 50)
      tokens.push(
        ...(await Promise.all(
          Array.from({ length: Math.min(50, each - from) }, async () => {
            const login = await world.call("POST", "/api/v1/auth/universal-auth/login", body);
            return login.accessToken;
          }),
        )),
      );
  }
  return tokens;
}

const WRITES = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::int AS writes FROM pg_stat_user_tables";
const writesOf = async ({ database }) => (await database.query(WRITES)).rows[0].writes;

/** As many requests as there are tokens, each with the next one. */
async function round(world, path, tokens) {
  await pause(SETTLE_MS);
  const before = { writes: await writesOf(world), ...usageOf(world.keyward.pid) };
  const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => dial(world.keyward.base)));
  let next = 0;
  await Promise.all(
    connections.map(async (connection) => {
      for (let token = tokens[next++]; token !== undefined; token = tokens[next++]) {
        const headers = { authorization: `Bearer ${token}` };
        const { status, body } = await connection.request({ method: "GET", path, headers });
        if (status !== 200) throw new Error(`${status} ${body}`);
      }
    }),
  );
  for (const connection of connections) connection.close();
  const { cpuSeconds } = usageOf(world.keyward.pid);
  await pause(SETTLE_MS);
  return {
    cpuMicros: ((cpuSeconds - before.cpuSeconds) * 1e6) / tokens.length,
    writes: ((await writesOf(world)) - before.writes) / tokens.length,
  };
}

export async function callerRows({ identities = 100, each = 100, say = () => {} } = {}) {
  const limits = { KEYWARD_RATE_LIMIT_READ: "6000", KEYWARD_RATE_LIMIT_WRITE: "3000" };
  const world = await openWorld(undefined, limits);
  try {
    const { project } = await world.call("POST", "/api/v1/projects", { projectName: "Callers" });
    await world.call("POST", "/api/v4/secrets/ONE", {
      ...{ projectId: project.id, environment: "dev", secretValue: "a value of a usual size, forty letters" },
    });
    const path = `/api/v4/secrets/ONE?projectId=${project.id}&environment=dev`;
    say("tokens for many callers");
    const tokens = await tokensOf(world, project.id, { identities, each });
    // Warm by one caller; the tokens themselves are still unknown.
    await load(world.keyward.base, () => ({ method: "GET", path, headers: world.headers }), {
      ...{ connections: 4, seconds: 0.5, warmup: 0 },
    });
    say("first use of each token");
    const first = await round(world, path, tokens);
    say("later use of each token");
    const later = await round(world, path, tokens);
    const one = await round(world, path, tokens.map((_token, n) => tokens[n % 2]).slice(0, 5000));
    const count = tokens.length.toLocaleString("en");
    const bar = `≤ ${MOST_ROWS}`;
    return [
      {
        ...{
          case: `rows written per reading, first use of ${count} tokens`,
          keyward: first.writes,
          limit: null,
        },
        // The token's last use is a row of its own, once.
        ...{ unit: "rows", bar: "≤ 2.2", isKept: first.writes <= 2.2 },
      },
      {
        ...{
          case: "rows written per reading, later use within the minute",
          keyward: later.writes,
          limit: one.writes,
        },
        ...{ unit: "rows", bar, isKept: later.writes <= MOST_ROWS },
      },
      {
        ...{ case: "CPU of the node per reading, first use", keyward: first.cpuMicros, limit: one.cpuMicros },
        ...{ unit: "µs", bar: "told only", isKept: true },
      },
      {
        ...{ case: "CPU of the node per reading, later use", keyward: later.cpuMicros, limit: one.cpuMicros },
        ...{ unit: "µs", bar: "≤ 1.5 × limit", isKept: later.cpuMicros <= 1.5 * one.cpuMicros },
      },
    ];
  } finally {
    await world.close();
  }
}

if (isStarted(import.meta)) {
  try {
    showRows(await callerRows({ ...flagsOf(["identities", "each"]), say: console.error }));
  } finally {
    await closeWorlds();
  }
}
