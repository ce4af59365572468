/** Ten thousand random events, two tenants, three nodes, rights that change: compared with a model that is slow and plain. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, anIdentity, aRole } from "../builders.ts";
import { changed, commit, mutated, openStream, until, type StreamReader } from "../event-streams.ts";
import { clientOf, openTestHouse, type Tenant, type TestHouse } from "../harness.ts";
import { withClient } from "../postgres.ts";

const TYPES = ["create", "update", "delete", "import-mutation"] as const;
const ACTION = { create: "create", update: "update", delete: "delete", "import-mutation": "read" } as const;
const ENVIRONMENTS = ["dev", "prod", "staging"];
const PATHS = ["/", "/a", "/b", "/a/x", "/a/y", "/a/x/deep", "/b/x", "/ab"];
const GLOBS = [null, "/**", "/", "/a", "/a/**", "/*", "/b/**", "/a/x"];
/** Everyone may hear of this environment and does: its events mark the end of a phase. */
const END = "end";
const EVENTS = 10_000;
const PHASES = 5;

type Type = (typeof TYPES)[number];
interface Rule {
  readonly types: readonly Type[];
  readonly environments: readonly string[] | null;
  readonly under: string | null;
  readonly denies: boolean;
}
interface Wish {
  readonly type: Type;
  readonly environment: string | null;
  readonly glob: string | null;
}
interface Happened {
  readonly projectId: string;
  readonly type: Type;
  readonly environment: string;
  readonly path: string;
  readonly keys: readonly string[];
}

// A generator of its own, so that a failure can be run again.
let seed = Number(process.env["KEYWARD_TEST_SEED"] ?? Date.now() % 1_000_000);
const startSeed = seed;
const random = (): number => {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return seed / 2_147_483_648;
};
const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
const some = <T>(items: readonly T[]): T[] => {
  const chosen = items.filter(() => random() < 0.6);
  return chosen.length > 0 ? chosen : [pick(items)];
};

const isUnder = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);
const globMatches = (glob: string | null, path: string): boolean => {
  if (glob === null || glob === "/**") return true;
  if (glob === "/*") return path !== "/" && !path.slice(1).includes("/");
  return glob.endsWith("/**") ? isUnder(path, glob.slice(0, -3)) : path === glob;
};
const ruleSpeaks = (rule: Rule, e: Happened): boolean =>
  rule.types.includes(e.type) &&
  (rule.environments?.includes(e.environment) ?? true) &&
  (rule.under === null || isUnder(e.path, rule.under));
const mayHear = (rules: readonly Rule[], e: Happened): boolean =>
  rules.some((rule) => !rule.denies && ruleSpeaks(rule, e)) &&
  !rules.some((rule) => rule.denies && ruleSpeaks(rule, e));
const wants = (wishes: readonly Wish[], e: Happened): boolean =>
  wishes.some(
    (w) =>
      w.type === e.type &&
      (w.environment === null || w.environment === e.environment) &&
      globMatches(w.glob, e.path),
  );
const line = (e: Happened): string =>
  `secret:${e.type} ${e.environment} ${e.path} ${e.keys.join(",")}`.trimEnd();

const randomRules = (): Rule[] => [
  ...Array.from({ length: 1 + Math.floor(random() * 2) }, () => ({
    types: some(TYPES),
    environments: pick([null, some(ENVIRONMENTS)]),
    under: pick([null, "/a", "/b"]),
    denies: false,
  })),
  ...(random() < 0.4
    ? [{ types: some(TYPES), environments: some(ENVIRONMENTS), under: pick([null, "/a/x"]), denies: true }]
    : []),
  { types: TYPES, environments: [END], under: null, denies: false },
];
const toPermissions = (rules: readonly Rule[]): unknown[] =>
  rules.map(({ types, environments, under, denies }) => ({
    subject: "secret-events",
    action: types.map((type) => ACTION[type]),
    ...(denies ? { inverted: true } : {}),
    conditions: {
      ...(environments ? { environment: { $in: environments } } : {}),
      ...(under ? { secretPath: { $glob: `${under}/**` } } : {}),
    },
  }));
const randomWishes = (): Wish[] => [
  ...Array.from({ length: 1 + Math.floor(random() * 4) }, () => ({
    type: pick(TYPES),
    environment: pick([null, ...ENVIRONMENTS]),
    glob: pick(GLOBS),
  })),
  { type: "create" as const, environment: END, glob: null },
];

interface Role {
  readonly client: Tenant;
  readonly projectId: string;
  readonly id: string;
  rules: Rule[];
}
interface Subscriber {
  readonly role: Role;
  readonly wishes: Wish[];
  readonly reader: StreamReader;
  readonly expected: string[];
}

describe("events, streams and rights against a model", () => {
  let test: TestHouse;
  const nodes: { base: string; house: TestHouse["house"] }[] = [];
  const projects: { orgId: string; projectId: string }[] = [];
  const roles: Role[] = [];
  const subscribers: Subscriber[] = [];

  const addRole = async (client: Tenant, projectId: string): Promise<void> => {
    const rules = randomRules();
    const slug = await aRole(client, projectId, toPermissions(rules));
    const { id } = (await client.get(`/api/v1/projects/${projectId}/roles/slug/${slug}`)).body.role;
    const role: Role = { client, projectId, id, rules };
    roles.push(role);
    const { token } = await anIdentity(client, test.base, projectId, { roles: [{ role: slug }] });
    for (const { base } of nodes) {
      const wishes = randomWishes().filter(
        (wish) =>
          wish.environment === END || rules.some((rule) => !rule.denies && rule.types.includes(wish.type)),
      );
      const register = wishes.map(({ type, environment, glob }) => ({
        event: `secret:${type}`,
        conditions: {
          ...(environment === null ? {} : { environmentSlug: environment }),
          ...(glob === null ? {} : { secretPath: glob }),
        },
      }));
      const reader = await openStream(base, token, { projectId, register });
      assert.equal(reader.status, 200);
      subscribers.push({ role, wishes, reader, expected: [] });
    }
  };

  before(async () => {
    test = await openTestHouse();
    nodes.push(test, await test.openNode(), await test.openNode());
    const other = await test.newTenant();
    await test.owner.post("/api/v1/admin/licences", {
      organizationId: other.orgId,
      plan: "enterprise",
      days: 30,
    });
    for (const client of [test.owner, other]) {
      for (let p = 0; p < 2; p += 1) {
        const { id } = await aProject(client);
        projects.push({ orgId: client.orgId, projectId: id });
        for (let r = 0; r < 3; r += 1) await addRole(client, id);
      }
    }
  });
  after(async () => {
    for (const { reader } of subscribers) reader.close();
    await test.close();
  });

  const randomEvent = (n: number): Happened => ({
    ...pick(projects),
    type: pick(TYPES),
    environment: pick(ENVIRONMENTS),
    path: pick(PATHS),
    keys: [`K${n}`],
  });
  const toFact = (e: Happened & { orgId?: string }) => {
    const place = {
      orgId: projects.find((p) => p.projectId === e.projectId)?.orgId ?? "",
      projectId: e.projectId,
      environment: e.environment,
      path: e.path,
    };
    return e.type === "import-mutation" ? mutated(place) : changed(place, e.type, ...e.keys);
  };

  /** What was committed after `seq`, in the order in which it counts. */
  const committed = (seq: number): Promise<{ last: number; events: Happened[] }> =>
    withClient(test.database.server, test.database.connection.database, async (client) => {
      const { rows } = await client.query(
        "SELECT seq::int AS seq, name, data FROM outbox WHERE seq > $1 ORDER BY seq",
        [seq],
      );
      const events = rows
        .filter((row) => String(row.name).startsWith("secrets."))
        .map(({ data }): Happened => ({
          projectId: data.projectId,
          type: data.change ?? "import-mutation",
          environment: data.environment,
          path: data.path,
          keys: data.keys ?? [],
        }));
      return { last: rows.at(-1)?.seq ?? seq, events };
    });

  it(`E-02 E-10 no event missing, none extra, none twice, order kept (seed ${startSeed})`, async () => {
    let seq = (await committed(0)).last;
    let n = 0;
    for (let phase = 0; phase < PHASES; phase += 1) {
      const writers = Array.from({ length: 8 }, async (_, w) => {
        for (let left = EVENTS / PHASES / 8; left > 0;) {
          const size = Math.min(left, 1 + Math.floor(random() * 25));
          left -= size;
          const events = Array.from({ length: size }, () => randomEvent((n += 1)));
          await commit(
            (nodes[w % nodes.length] as { house: TestHouse["house"] }).house,
            ...events.map(toFact),
          );
        }
      });
      await Promise.all(writers);
      await commit(
        test.house,
        ...projects.map((place) => changed({ ...place, environment: END }, "create", `PHASE_${phase}`)),
      );
      const happened = await committed(seq);
      seq = happened.last;
      for (const { role, wishes, expected } of subscribers) {
        for (const e of happened.events)
          if (e.projectId === role.projectId && wants(wishes, e) && mayHear(role.rules, e))
            expected.push(line(e));
      }
      await until(
        () =>
          subscribers.every(({ reader }) => reader.isEnded || reader.told.at(-1)?.endsWith(`PHASE_${phase}`)),
        `the end of phase ${phase}`,
        60,
      );
      for (const { reader, expected } of subscribers) assert.deepEqual(reader.told, expected);
      const role = pick(roles);
      role.rules = randomRules();
      const answer = await clientOf(pick(nodes).base, role.client.token).patch(
        `/api/v1/projects/${role.projectId}/roles/${role.id}`,
        { permissions: toPermissions(role.rules) },
      );
      assert.equal(answer.status, 200);
    }
    assert.equal(n, EVENTS);
    assert.ok(
      subscribers.some(({ expected }) => expected.length > PHASES + 100),
      "the model let something through",
    );
    assert.ok(
      subscribers.every(({ reader }) => !reader.isEnded),
      "no healthy stream was cut",
    );
  });
});
