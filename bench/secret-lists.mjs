// What a list of a hundred secrets costs, one request at a time: in a small and in a large project, with one and with a
// thousand versions of each, and when nothing has changed. A list is answered from memory while its project stays as it
// is, so before each measured "new" list a secret is changed; the others are measured as they stand.
import { call, openWorld } from "./world.mjs";
import { dial, etagOf, quantile } from "./load.mjs";

const PATH = "/api/v4/secrets";
const VALUE = "a value of a usual size, forty letters";

const ROWS =
  "SELECT id, project_id, folder_id, key, owner_id, version, key_id, value, comment, metadata, tag_ids, created_at, updated_at FROM secrets WHERE folder_id = $1 AND owner_id IS NULL ORDER BY key";
const CROWD = `INSERT INTO secrets (id, project_id, folder_id, key, version, key_id, value, created_at, updated_at)
  SELECT gen_random_uuid(), s.project_id, s.folder_id, 'CROWD_' || g, 1, s.key_id, s.value, now(), now() FROM secrets s, generate_series(1, $2::int) g WHERE s.id = $1`;

async function scene(world, name, { crowd, versions }) {
  const { project } = await world.call("POST", "/api/v1/projects", { projectName: name });
  const at = { projectId: project.id, environment: "dev" };
  const folders = {};
  for (const name of ["listed", "crowd"])
    folders[name] = (await world.call("POST", "/api/v2/folders", { ...at, path: "/", name })).folder.id;
  const secrets = Array.from({ length: 100 }, (_, n) => ({ secretKey: `KEY_${n}`, secretValue: VALUE }));
  await world.call("POST", `${PATH}/batch`, { ...at, secretPath: "/listed", secrets });
  const { secret } = await world.call("POST", `${PATH}/MODEL`, {
    ...at,
    secretPath: "/crowd",
    secretValue: VALUE,
  });
  if (crowd > 0) await world.database.query(CROWD, [secret.id, crowd]);
  // Through the API: a ciphertext is bound to its version number, so rows cannot be copied.
  for (let version = 2; version <= versions; version += 1)
    await world.call("PATCH", `${PATH}/batch`, {
      ...at,
      secretPath: "/listed",
      secrets: secrets.map(({ secretKey }) => ({ secretKey, secretValue: `${VALUE} ${version}` })),
    });
  return {
    folderId: folders.listed,
    list: {
      method: "GET",
      path: `${PATH}?projectId=${project.id}&environment=dev&secretPath=/listed`,
      headers: world.headers,
    },
    change: (n) => ({
      method: "PATCH",
      path: `${PATH}/KEY_${n % 100}`,
      headers: world.headers,
      body: { ...at, secretPath: "/listed", secretValue: `${VALUE}${n}` },
    }),
  };
}

/** The unavoidable part of a list that is new: its rows read and decrypted, and the same bytes. */
async function bareList(world, { folderId, list }) {
  const { text } = await call(world.keyward.base, world.token, "GET", list.path);
  const programs = { list: { reads: [[ROWS, [folderId]]], decrypts: 100 } };
  return dial((await world.startLimit({ answers: { list: text }, programs })).base);
}

async function timed(connection, request, good) {
  const from = performance.now();
  const { status, body } = await connection.request(request);
  if (status !== good) throw new Error(`${request.method} ${request.path}: ${status} ${body.slice(0, 200)}`);
  return performance.now() - from;
}

/** The measured kinds, in turns, `rounds` times `repeats` each; medians in milliseconds. */
export async function secretLists({ isQuick, step = () => {} }) {
  const [crowd, versions, repeats, rounds] = isQuick ? [10_000, 100, 10, 2] : [1_000_000, 1000, 40, 3];
  const world = await openWorld();
  const connection = await dial(world.keyward.base);
  try {
    const small = await scene(world, "Small", { crowd: 1000, versions: 1 });
    const large = await scene(world, "Large", { crowd, versions: 1 });
    const old = await scene(world, "Old", { crowd: 1000, versions });
    await world.database.query("VACUUM ANALYZE secrets, secret_versions");
    const bare = await bareList(world, small);
    let changes = 0;
    const afterChange = async ({ list, change }) => {
      await timed(connection, change((changes += 1)), 200);
      return timed(connection, list, 200);
    };
    const url = world.keyward.base + small.list.path;
    const unchanged = async () => {
      const etag = await etagOf(url, world.headers);
      return { ...small.list, headers: { ...world.headers, "if-none-match": etag } };
    };
    const kinds = {
      "new list, 1,000 secrets in the project": () => afterChange(small),
      [`new list, ${crowd.toLocaleString("en")} secrets in the project`]: () => afterChange(large),
      [`new list, ${versions.toLocaleString("en")} versions of each`]: () => afterChange(old),
      "list as before (200)": () => timed(connection, small.list, 200),
      "list as before (304)": async (same) => timed(connection, same, 304),
      "bare program: the rows read and decrypted": () => timed(bare, { method: "GET", path: "/list" }, 200),
    };
    const times = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, []]));
    for (let round = 0; round <= rounds; round += 1) {
      for (const [kind, once] of Object.entries(kinds)) {
        const same = kind.includes("as before") ? await unchanged() : undefined;
        for (let n = 0; n < repeats; n += 1) {
          const ms = await once(same);
          if (round > 0) times[kind].push(ms); // the first round warms up
        }
      }
      step("secrets: lists of a hundred");
    }
    return compare(times);
  } finally {
    connection.close();
    await world.close();
  }
}

function compare(times) {
  const rows = Object.entries(times).map(([name, values]) => {
    const sorted = [...values].sort((a, b) => a - b);
    return { name, p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) };
  });
  const [small, large, old, kept, unchanged, bare] = rows.map(({ p50 }) => p50);
  return {
    rows,
    bars: [
      { name: "large project ÷ small", value: large / small, bar: "≤ 1.5", isKept: large / small <= 1.5 },
      { name: "many versions ÷ one", value: old / small, bar: "≤ 1.5", isKept: old / small <= 1.5 },
      { name: "new list ÷ 304", value: small / unchanged, bar: "≥ 3", isKept: small / unchanged >= 3 },
      { name: "new list ÷ bare program", value: small / bare, bar: "told only", isKept: true },
      { name: "list from memory ÷ 304", value: kept / unchanged, bar: "told only", isKept: true },
    ],
  };
}
