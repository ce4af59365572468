// Secrets: read one, list a hundred as before, the same list unchanged (304), create, update.
import { etagOf } from "../load.mjs";
import { openWorld } from "../world.mjs";

const PATH = "/api/v4/secrets";
const VALUE = "a value of a usual size, forty letters";

const ROW =
  "id, project_id, folder_id, key, owner_id, version, key_id, value, comment, metadata, tag_ids, created_at, updated_at";
const INSERT_SECRET = `INSERT INTO secrets (id, project_id, folder_id, key, version, key_id, value, created_at, updated_at)
  VALUES ($1,$2,$3,$4,1,$5,$6,$7,$7)`;
const INSERT_VERSION = `INSERT INTO secret_versions (secret_id, version, project_id, folder_id, key, change, key_id, value, tag_ids, actor_type, actor_name, created_at)
  VALUES ($1,(SELECT coalesce(max(version),0)+1 FROM secret_versions WHERE secret_id = $1),$2,$3,$4,'update',$5,$6,'{}','identity','bench',$7)`;
const UPDATE_SECRET = "UPDATE secrets SET version = version + 1, value = $2, updated_at = $3 WHERE id = $1";
const FACT = "INSERT INTO outbox (name, data) VALUES ('limit.program', '{}')";

/** Whether anything has changed, which has to be asked before an answer is given again. */
const LOOK_AGAIN = "SELECT sum(counter) FROM project_changes WHERE project_id = $1";

function limitsOf({ folder, project, one, picks, answers }) {
  const same = [project, folder, "$n", "$uuid", "$sealed", "$now"];
  const look = `SELECT ${ROW} FROM secrets WHERE folder_id = $1 AND key = $2 AND owner_id IS NULL`;
  return {
    programs: {
      read: { reads: [[look, [folder, one]]], decrypts: 1 },
      list: { reads: [[LOOK_AGAIN, [project]]] },
      unchanged: { reads: [[LOOK_AGAIN, [project]]] },
      create: {
        writes: [
          [INSERT_SECRET, ["$same", ...same]],
          [INSERT_VERSION, ["$same", ...same]],
          [FACT, []],
        ],
      },
      update: {
        reads: [[look, [folder, one]]],
        writes: [
          [UPDATE_SECRET, ["$pick", "$sealed", "$now"]],
          [INSERT_VERSION, ["$same", ...same]],
          [FACT, []],
        ],
      },
    },
    picks,
    answers,
  };
}

export async function prepare({ against } = {}) {
  const world = await openWorld(against);
  const name = `Bench ${Date.now()}`;
  const { project } = await world.call("POST", "/api/v1/projects", { projectName: name });
  const at = { projectId: project.id, environment: "dev" };
  const folders = {};
  for (const folder of ["many", "spread", "limit", "made"])
    folders[folder] = (
      await world.call("POST", "/api/v2/folders", { ...at, path: "/", name: folder })
    ).folder.id;
  const batch = (secretPath, count) =>
    world.call("POST", `${PATH}/batch`, {
      ...at,
      secretPath,
      secrets: Array.from({ length: count }, (_, n) => ({ secretKey: `KEY_${n}`, secretValue: VALUE })),
    });
  await batch("/many", 100);
  await batch("/spread", 500);
  // The limit program writes bytes nobody can decrypt: it has secrets of its own.
  const bare = await batch("/limit", 500);
  const query = `projectId=${project.id}&environment=dev`;
  const read = await world.call("GET", `${PATH}/KEY_7?${query}&secretPath=/spread`);
  const listPath = `${PATH}?${query}&secretPath=/many`;
  const list = await world.call("GET", listPath);
  const made = await world.call("POST", `${PATH}/SHAPE`, { ...at, secretPath: "/made", secretValue: VALUE });
  // Last: every change of the project gives its lists another tag.
  const etag = await etagOf(world.keyward.base + listPath, world.headers);
  const limit = await world.startLimit(
    limitsOf({
      folder: folders.spread,
      project: project.id,
      one: "KEY_7",
      picks: bare.secrets.map((secret) => secret.id),
      answers: { read: read.text, list: list.text, unchanged: "", create: made.text, update: made.text },
    }),
  );
  const { headers } = world;
  const asked = (n) => ({ method: "POST", path: "", body: { n } });
  return {
    ...world,
    limit,
    cases: [
      {
        name: "read one secret",
        keyward: (n) => ({
          method: "GET",
          path: `${PATH}/KEY_${n % 500}?${query}&secretPath=/spread`,
          headers,
        }),
        limit: () => ({ method: "GET", path: "/read" }),
      },
      {
        name: "list 100 secrets, as before",
        keyward: () => ({ method: "GET", path: listPath, headers }),
        limit: () => ({ method: "GET", path: "/list" }),
      },
      ...(etag
        ? [
            {
              name: "list 100 secrets, unchanged (304)",
              keyward: () => ({
                method: "GET",
                path: listPath,
                headers: { ...headers, "if-none-match": etag },
              }),
              limit: () => ({ method: "GET", path: "/unchanged" }),
              good: 304,
            },
          ]
        : []),
      {
        name: "create secret",
        keyward: (n) => ({
          method: "POST",
          path: `${PATH}/MADE_${n}_${Date.now()}`,
          headers,
          body: { ...at, secretPath: "/made", secretValue: VALUE },
        }),
        limit: (n) => ({ ...asked(`${n}_${Date.now()}`), path: "/create" }),
      },
      {
        name: "update secret (500 spread)",
        keyward: (n) => ({
          method: "PATCH",
          path: `${PATH}/KEY_${n % 500}`,
          headers,
          body: { ...at, secretPath: "/spread", secretValue: `${VALUE}${n}` },
        }),
        limit: (n) => ({ ...asked(n), path: "/update" }),
      },
    ],
  };
}
