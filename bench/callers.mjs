// Many callers: what a reading costs when each comes with a token of its own, the first time and later, and how many
// rows a reading writes. node bench/callers.mjs [--identities 100] [--each 100]
import { flagsOf, isStarted, showRows } from "./bars.mjs";
import { dial, load } from "./load.mjs";
import { usageOf } from "./processes.mjs";
import { closeWorlds, openWorld } from "./world.mjs";

/** Per reading, of a caller who reads ten times a minute: its last use is a row of its own, once a minute. */
const MOST_ROWS = { async: 1.2, grouped: 0.3 };
const READINGS = 10;
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
async function readAll(world, path, tokens) {
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
}

async function round(world, path, tokens) {
  await pause(SETTLE_MS);
  const before = { writes: await writesOf(world), ...usageOf(world.keyward.pid) };
  await readAll(world, path, tokens);
  const { cpuSeconds } = usageOf(world.keyward.pid);
  await pause(SETTLE_MS);
  return {
    cpuMicros: ((cpuSeconds - before.cpuSeconds) * 1e6) / tokens.length,
    writes: ((await writesOf(world)) - before.writes) / tokens.length,
  };
}

const LIMITS = { KEYWARD_RATE_LIMIT_READ: "6000", KEYWARD_RATE_LIMIT_WRITE: "60000" };

/** A world with one secret, and what reads it. */
async function openCallers(env) {
  const world = await openWorld(undefined, { ...LIMITS, ...env });
  const { project } = await world.call("POST", "/api/v1/projects", { projectName: "Callers" });
  await world.call("POST", "/api/v4/secrets/ONE", {
    ...{ projectId: project.id, environment: "dev", secretValue: "a value of a usual size, forty letters" },
  });
  const path = `/api/v4/secrets/ONE?projectId=${project.id}&environment=dev`;
  return { world, path, projectId: project.id };
}

async function measure({ identities, each, say }) {
  const { world, path, projectId } = await openCallers({});
  try {
    say("tokens for many callers");
    const tokens = await tokensOf(world, projectId, { identities, each });
    // Warm by one caller; the tokens themselves are still unknown.
    await load(world.keyward.base, () => ({ method: "GET", path, headers: world.headers }), {
      ...{ connections: 4, seconds: 0.5, warmup: 0 },
    });
    say("first use of each token");
    const first = await round(world, path, tokens);
    say("later use of each token");
    const later = await round(world, path, tokens);
    const one = await round(world, path, tokens.map((_token, n) => tokens[n % 2]).slice(0, 5000));
    return { first, later, one, count: tokens.length.toLocaleString("en") };
  } finally {
    await world.close();
  }
}

/** Readings are grouped by who reads: here every token is another identity's. */
async function groupedRow({ identities, say }) {
  const { world, path, projectId } = await openCallers({ KEYWARD_AUDIT_READS: "grouped" });
  try {
    say("identities that read ten times a minute, grouped");
    const tokens = await tokensOf(world, projectId, { identities: identities * 10, each: 1 });
    await pause(SETTLE_MS);
    const before = await writesOf(world);
    for (let n = 0; n < READINGS; n += 1) await readAll(world, path, tokens);
    // What is grouped is written a minute after its first reading.
    await pause(60_000 + SETTLE_MS);
    const rows = ((await writesOf(world)) - before) / (tokens.length * READINGS);
    return {
      case: `the same of ${tokens.length.toLocaleString("en")} identities with KEYWARD_AUDIT_READS=grouped`,
      ...{ keyward: rows, limit: null, unit: "rows" },
      ...{ bar: `≤ ${MOST_ROWS.grouped}`, isKept: rows <= MOST_ROWS.grouped },
    };
  } finally {
    await world.close();
  }
}

export async function callerRows({ identities = 100, each = 100, say = () => {} } = {}) {
  const { first, later, one, count } = await measure({ identities, each, say });
  const rows = (first.writes + (READINGS - 1) * later.writes) / READINGS;
  return [
    {
      ...{ case: `rows written per reading, ${count} tokens read ten times a minute`, keyward: rows },
      ...{ limit: null, unit: "rows", bar: `≤ ${MOST_ROWS.async}`, isKept: rows <= MOST_ROWS.async },
    },
    {
      ...{ case: "the same, first use of a token in a minute", keyward: first.writes, limit: null },
      ...{ unit: "rows", bar: "told only", isKept: true },
    },
    {
      ...{ case: "the same, later use within the minute", keyward: later.writes, limit: one.writes },
      ...{ unit: "rows", bar: "told only", isKept: true },
    },
    {
      ...{ case: "CPU of the node per reading, first use", keyward: first.cpuMicros, limit: one.cpuMicros },
      ...{ unit: "µs", bar: "told only", isKept: true },
    },
    {
      ...{ case: "CPU of the node per reading, later use", keyward: later.cpuMicros, limit: one.cpuMicros },
      ...{ unit: "µs", bar: "≤ 1.5 × limit", isKept: later.cpuMicros <= 1.5 * one.cpuMicros },
    },
    await groupedRow({ identities, say }),
  ];
}

if (isStarted(import.meta)) {
  try {
    showRows(await callerRows({ ...flagsOf(["identities", "each"]), say: console.error }));
  } finally {
    await closeWorlds();
  }
}
