import pg from "pg";
import * as contract from "../../../src/contract.ts";
import { exampleOf, wireOf } from "../../fuzz/examples.ts";
import type { Wire } from "../../fuzz/door.ts";
import { OUT_OF_REACH, RECIPES } from "../../fuzz/recipes.ts";
import { clientOf, type Answer, type Tenant } from "../../harness.ts";
import type { ServerProcess } from "../../process.ts";
import { THINGS, World } from "../../things.ts";
import {
  holds,
  lastWords,
  openCluster,
  type Cluster,
  type Outcome,
  type ScenarioOptions,
  pause,
} from "../ground.ts";
import { OWNER } from "../load.ts";
import type { Proxy } from "../proxy.ts";

type Endpoint = contract.Endpoint;

/** Who calls himself this loses his database session at COMMIT: everything is written, nothing is committed. */
const DOOMED = "doomed at commit";
const TRAP = `
  CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
  CREATE CONSTRAINT TRIGGER trap AFTER INSERT ON audit_log DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.user_agent = '${DOOMED}') EXECUTE FUNCTION die()`;

/**
 * What jobs do in their own time, what is made once when somebody first needs it, and the record of what is about to be
 * signed, which is there before the signature on purpose (see issuance.test.ts).
 */
const MAINTENANCE = new Set(
  (
    "audit_log jobs rate_limits stream_nodes stream_counts outbox outbox_swept root_key data_keys licence_issuers version_sweeps " +
    "history_horizons identity_counts alert_cursor alert_inbox alert_messages alert_occasions alert_deliveries alert_counts " +
    "alert_delivery_counts certificate_projects certificate_blocks certificate_chapters certificate_requests crls crl_changes ocsp_signers"
  ).split(" "),
);
/** That a token was used or an alert looked after is noted in passing: here only the number of rows tells of a change. */
const TOUCHED = new Set(["access_tokens", "client_secrets", "user_sessions", "alerts"]);
/** When somebody last logged in is noted in passing, too; everything else about an identity is judged. */
const PRINTED: Readonly<Record<string, string>> = {
  identities: "(to_jsonb(t) - 'last_login_at' - 'last_login_method')::text",
};
/** A change is counted in one of several rows, which may be a new one or not. */
const COUNTERS = new Set(["project_changes"]);
/** What may be left of a request that got no answer, or be missing from it, with why. */
const MAY_DIFFER: Readonly<Record<string, readonly string[]>> = {
  // A failure is counted before the password is looked at, so that nobody guesses faster than it is counted.
  passwordLogin: ["lockouts"],
  // The account is there as a whole; the session is made afterwards, and whoever got no answer logs in.
  acceptInvitation: ["user_sessions", "known_networks"],
};

/** Sent with POST or PUT, and nothing changes: looks, and a licence that is in force already. */
const LOOKS = new Set(["checkAuth", "postOcsp", "previewAlertCertificates", "installLicence"]);

type Snapshot = ReadonlyMap<string, { readonly rows: number; readonly print: string }>;

/** Every table that a request may be about: how many rows, and a print of all of them; of facts, those after `seq`. */
async function look(database: pg.Client, seq = -1): Promise<Snapshot> {
  const { rows: tables } = await database.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition`,
  );
  const parts = tables
    .filter(({ name }) => !MAINTENANCE.has(name))
    .map(({ name }) => {
      const print = PRINTED[name] ?? "t::text";
      return `SELECT '${name}' AS name, count(*)::int AS rows, md5(coalesce(string_agg(${print}, ' ' ORDER BY ${print}), '')) AS print FROM ${name} t`;
    });
  parts.push(
    `SELECT 'facts', count(*) FILTER (WHERE seq > ${seq})::int, coalesce(max(seq), 0)::text FROM outbox`,
  );
  const { rows } = await database.query<{ name: string; rows: number; print: string }>(
    parts.join(" UNION ALL "),
  );
  return new Map(rows.map(({ name, ...table }) => [name, table]));
}

/** The tables that differ, each with how many rows it gained or lost. */
function difference(before: Snapshot, after: Snapshot, except: readonly string[] = []): string {
  const told: string[] = [];
  for (const [name, { rows, print }] of after) {
    // Facts are counted from the first read on, and deleted behind it.
    const was = name === "facts" ? { rows: 0, print } : before.get(name);
    const isSame = rows === was?.rows && (TOUCHED.has(name) || print === was.print);
    if (isSame || except.includes(name)) continue;
    told.push(COUNTERS.has(name) ? name : `${name} ${rows - (was?.rows ?? 0)}`);
  }
  return told.sort().join(", ");
}
const lastFact = (before: Snapshot): number => Number(before.get("facts")?.print);

const isEndpoint = (value: unknown): value is Endpoint =>
  typeof value === "object" && value !== null && "path" in value && "reply" in value;
const WRITES: readonly Endpoint[] = Object.values(contract)
  .flatMap((room) => Object.values(room) as unknown[])
  .filter(isEndpoint)
  .filter(
    ({ id, method, replyType }) =>
      method !== "GET" && replyType !== "text/event-stream" && !(id in OUT_OF_REACH),
  );

const isRefusedForNow = ({ status, headers }: Answer): boolean =>
  status === 503 && headers.get("retry-after") !== null;

class Stage {
  readonly faults: string[] = [];
  readonly seen = {
    tried: 0,
    changed: 0,
    committedUnheard: 0,
    notCommitted: 0,
    looksOnly: 0,
    unreached: [] as string[],
  };
  readonly #cluster: Cluster;
  readonly #node: ServerProcess;
  readonly #proxy: Proxy;
  readonly #database: pg.Client;
  readonly #examples = new Map(WRITES.map(({ id, example }) => [id, example.body]));

  constructor(cluster: Cluster, database: pg.Client) {
    this.#cluster = cluster;
    [this.#node] = cluster.nodes as [ServerProcess];
    [this.#proxy] = cluster.proxies as [Proxy];
    this.#database = database;
  }

  async #tenant(): Promise<Tenant> {
    const { place } = this.#cluster;
    const owner = clientOf(this.#node.base, place.token);
    let made = await owner.post("/api/v1/admin/organizations", { name: "Under fire" });
    // A connection that the case before has cut may still be in the pool.
    for (let tries = 1; isRefusedForNow(made) && tries < 10; tries += 1) {
      await pause(500);
      made = await owner.post("/api/v1/admin/organizations", { name: "Under fire" });
    }
    const { status, body } = made;
    if (status !== 200)
      throw new Error(`no organisation after ${this.seen.tried} routes: ${JSON.stringify(body)}`);
    const { token } = body.identity.credentials;
    const orgId = body.organization.id as string;
    await owner.post("/api/v1/admin/licences", { organizationId: orgId, plan: "enterprise", days: 30 });
    const client = clientOf(this.#node.base, token);
    return { ...client, token, orgId, orgSlug: body.organization.slug, identityId: body.identity.id };
  }

  async #person(): Promise<string> {
    const { base } = this.#node;
    const { email, password } = OWNER;
    const login = await clientOf(base).post("/api/v3/auth/login", { email, password });
    const chosen = await clientOf(base, login.body.accessToken).post("/api/v3/auth/select-organization", {
      organizationId: this.#cluster.place.orgId,
    });
    return chosen.body.token as string;
  }

  /** The documented request, in an organisation of its own. */
  async #request(endpoint: Endpoint): Promise<Wire> {
    const { place } = this.#cluster;
    const tenant = await this.#tenant();
    const world = new World(tenant, this.#examples);
    const instanceAdmin = clientOf(this.#node.base, place.token);
    const kitchen = { world, instanceAdmin, ownerOrgId: place.orgId, person: () => this.#person() };
    // Some routes take the only such project when none is named.
    if (["alerts", "certificates"].includes(endpoint.room)) await THINGS["certificates.projectId"]?.(world);
    const recipe = await RECIPES[endpoint.id]?.(kitchen);
    const usual = endpoint.path.startsWith("/api/v1/admin/") ? place.token : tenant.token;
    const token = recipe?.token ?? (endpoint.access === "public" ? undefined : usual);
    const ground = { mine: world, theirs: world, seen: new Map<string, string[]>() };
    return wireOf(endpoint, await exampleOf(endpoint, world, recipe), ground, token);
  }

  #send({ method, path, token, body }: Wire, agent = "faults"): Promise<Answer> {
    const given = body === undefined ? {} : { rawBody: body.toString() };
    return clientOf(this.#node.base).call(method, path, {
      token,
      headers: { "user-agent": agent },
      ...given,
    });
  }

  async #audited({ headers }: Answer): Promise<number> {
    const { rows } = await this.#database.query<{ told: number }>(
      "SELECT count(*)::int AS told FROM audit_log WHERE request_id = $1",
      [headers.get("x-request-id")],
    );
    return rows[0]?.told ?? 0;
  }

  /** What the request changes when nothing goes wrong; undefined when it could not be tried. */
  async #atCommit(endpoint: Endpoint): Promise<string | undefined> {
    const { id } = endpoint;
    const wire = await this.#request(endpoint);
    const before = await look(this.#database);
    const lost = await this.#send(wire, DOOMED);
    const left = difference(before, await look(this.#database, lastFact(before)), MAY_DIFFER[id]);
    if (isRefusedForNow(lost)) {
      this.seen.notCommitted += 1;
      if (left !== "") this.faults.push(`${id}: not committed, yet it changed ${left}`);
      if ((await this.#audited(lost)) > 0)
        this.faults.push(`${id}: not committed, yet it is in the audit log`);
    } else if (lost.status !== 200) {
      this.seen.unreached.push(`${id} ${lost.status} ${JSON.stringify(lost.body).slice(0, 300)}`);
      return undefined;
    } else if (left !== "") this.faults.push(`${id}: changed ${left} without an audit row`);
    else if (LOOKS.has(id)) this.seen.looksOnly += 1;
    else this.faults.push(`${id}: says 200, and nothing was changed or could be`);
    if (lost.status === 200) return undefined;
    const again = await this.#send(wire);
    if (again.status !== 200) {
      this.faults.push(
        `${id}: the repeat answers ${again.status} ${JSON.stringify(again.body).slice(0, 300)}`,
      );
      return undefined;
    }
    if ((await this.#audited(again)) === 0) this.faults.push(`${id}: acknowledged and not in the audit log`);
    return difference(before, await look(this.#database, lastFact(before)), MAY_DIFFER[id]);
  }

  /** The answer to COMMIT is lost: what happened is whole or absent, and in the audit log exactly if it happened. */
  async #afterCommit(endpoint: Endpoint, usual: string): Promise<void> {
    const { id } = endpoint;
    const wire = await this.#request(endpoint);
    const before = await look(this.#database);
    this.#proxy.set({ kind: "cut-after-commit", every: 1 });
    const lost = await this.#send(wire);
    this.#proxy.set({ kind: "fair" });
    if (!isRefusedForNow(lost)) {
      this.faults.push(
        `${id}: without an answer to COMMIT it says ${lost.status} ${JSON.stringify(lost.body).slice(0, 300)}`,
      );
      return;
    }
    const isTold = (await this.#audited(lost)) > 0;
    const left = difference(before, await look(this.#database, lastFact(before)), MAY_DIFFER[id]);
    this.seen.committedUnheard += Number(isTold);
    if (left !== (isTold ? usual : ""))
      this.faults.push(
        `${id}: half done: it changed ${left || "nothing"}, usually ${usual}; audited: ${isTold}`,
      );
  }

  async try(endpoint: Endpoint): Promise<void> {
    this.seen.tried += 1;
    const usual = await this.#atCommit(endpoint);
    if (usual === undefined) return;
    this.seen.changed += 1;
    await this.#afterCommit(endpoint, usual);
    const isWell = await holds(
      async () => (await clientOf(this.#node.base).get("/api/status")).status === 200,
      20,
    );
    if (!isWell) this.faults.push(`${endpoint.id}: the server does not recover: ${lastWords(this.#node)}`);
  }
}

/**
 * each write route of the contract, as documented, whose database session ends at COMMIT, and again with
 * the answer to COMMIT lost. The judge is the database itself, table by table: nothing in the one case, in the other
 * all that the same request does when nothing goes wrong. A full run goes once over all routes, a short one over a few.
 */
export async function everyWrite({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const cluster = await openCluster(1, () => ({ KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" }));
  const database = new pg.Client({ ...cluster.database.connection, ssl: false });
  await database.connect();
  try {
    await database.query(TRAP);
    const stage = new Stage(cluster, database);
    const only = process.env["KEYWARD_FAULTS_ROUTES"]?.split(",");
    const routes = WRITES.filter(({ id }) => only?.includes(id) ?? true);
    const from = seed % routes.length;
    const until = performance.now() + seconds * 1000;
    for (const endpoint of [...routes.slice(from), ...routes.slice(0, from)]) {
      if (seconds < 60 && performance.now() > until) break;
      await stage.try(endpoint);
      if (stage.seen.tried % 20 === 0)
        say?.(`${stage.seen.tried} of ${routes.length} routes, faults: ${stage.faults.join("; ") || "none"}`);
    }
    const { faults, seen } = stage;
    if (seen.changed === 0) faults.push("nothing was changed: nothing was tried");
    for (const what of seen.unreached) faults.push(`the documented request was refused: ${what}`);
    return { faults, seen };
  } finally {
    await database.end();
    await cluster.close();
  }
}
