/** Writers that use every write path they know through the public face, and the judgement of what they left behind. */
import pg from "pg";
import { clientOf, type Answer, type Client } from "../harness.ts";
import { aProfile, aRoot } from "../certificates.ts";
import { Ledger } from "./ledger.ts";
import { MAKERS, must, type Maker } from "./makers.ts";

/** A small generator of its own: the run must follow from its seed alone. */
export function dice(seed: number): (sides: number) => number {
  let state = seed >>> 0;
  return (sides) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % sides;
  };
}

export const OWNER = {
  email: "owner@example.com",
  password: "a long enough password",
  organization: "Faults",
};

export interface Place {
  readonly token: string;
  readonly orgId: string;
  readonly projectId: string;
  readonly pkiProjectId: string;
  /** Whom tokens are made for. */
  readonly identityId: string;
  readonly profileId: string;
}

export async function furnish(base: string): Promise<Place> {
  const booted = must(await clientOf(base).post("/api/v1/admin/bootstrap", OWNER), "bootstrap");
  const token = booted.identity.credentials.token as string;
  const client = clientOf(base, token);
  const project = must(await client.post("/api/v1/projects", { projectName: "Faults" }), "project").project;
  const pki = must(
    await client.post("/api/v1/projects", { projectName: "Certificates", type: "cert-manager" }),
    "project",
  ).project;
  const { identity } = must(await client.post("/api/v1/identities", { name: "of tokens" }), "identity");
  const tokenAuth = `/api/v1/auth/token-auth/identities/${identity.id}`;
  must(await client.post(tokenAuth, {}), "token auth");
  const profile = await aProfile(client, pki.id, (await aRoot(client, pki.id)).id);
  return {
    ...{ token, orgId: booted.organization.id, projectId: project.id, pkiProjectId: pki.id },
    ...{ identityId: identity.id, profileId: profile.id },
  };
}

export interface Load {
  readonly ledger: Ledger;
  /** Answers that are neither 200 nor a 503 that says when to come again. */
  readonly strange: string[];
  readonly statuses: Record<string, number>;
  stop(): Promise<void>;
}

export interface LoadOptions {
  readonly seed: number;
  readonly writers: number;
  /** Asked anew for every request: servers come and go. */
  readonly base: (writer: number) => string | undefined;
  readonly place: Place;
  readonly ledger: Ledger;
  /** Writers that started earlier in the same run used these. */
  readonly generation: number;
  /** Things that are rightly refused here. */
  readonly without?: readonly string[];
}

const KEYS_PER_WRITER = 8;
const PATIENCE_MS = 45_000;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** The answer, or undefined when none came. */
async function attempt(send: () => Promise<Answer | undefined>): Promise<Answer | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<undefined>(
    (resolve) => (timer = setTimeout(() => resolve(undefined), PATIENCE_MS)),
  );
  try {
    return await Promise.race([send(), tooLong]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

export function startLoad(options: LoadOptions): Load {
  const { ledger, place, without = [] } = options;
  const makers = MAKERS.filter(({ kind }) => !without.includes(kind));
  const strange: string[] = [];
  const statuses: Record<string, number> = {};
  let isStopped = false;

  /** True: it happened; false: it did not; undefined: nobody knows. */
  const verdictOn = (answer: Answer | undefined, what: string): boolean | undefined => {
    const status = answer?.status ?? 0;
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (answer === undefined) return undefined;
    if (status === 200) {
      ledger.requestIds.push(answer.headers.get("x-request-id") ?? "");
      return true;
    }
    if (status === 503 && answer.headers.get("retry-after") !== null) return undefined;
    strange.push(`${what}: ${status} ${JSON.stringify(answer.body).slice(0, 300)}`);
    return status === 500 ? undefined : false;
  };

  const write = async (
    client: Client,
    roll: (sides: number) => number,
    writer: number,
    n: number,
  ): Promise<void> => {
    const own = Array.from({ length: KEYS_PER_WRITER }, (_, k) => `W${writer}_K${k}`).filter(
      (key) => !ledger.isOpen(key),
    );
    const isDeletion = roll(5) === 0;
    const keys = own.filter((key) => (isDeletion ? ledger.has(key) : true) && roll(3) === 0).slice(0, 4);
    if (keys.length === 0) return;
    const at = { projectId: place.projectId, environment: "dev", secretPath: "/" };
    const value = isDeletion ? undefined : `g${options.generation}-w${writer}-n${n}`;
    const secrets = keys.map((secretKey) => (isDeletion ? { secretKey } : { secretKey, secretValue: value }));
    const answer = await attempt(() =>
      isDeletion
        ? client.delete("/api/v4/secrets/batch", { ...at, secrets })
        : client.patch("/api/v4/secrets/batch", { ...at, mode: "upsert", secrets }),
    );
    const verdict = verdictOn(answer, `secrets ${keys.join(",")}`);
    if (verdict === true) ledger.wrote({ keys, value });
    else if (verdict === undefined) ledger.mayHaveWritten({ keys, value });
  };

  const make = async (client: Client, maker: Maker, name: string): Promise<void> => {
    const answer = await attempt(() => maker.make(client, place, name));
    const verdict = verdictOn(answer, maker.kind);
    if (verdict === true && answer) ledger.made(maker.kind, maker.idOf(answer.body), name);
    else if (verdict === undefined) ledger.mayHaveMade(maker.kind, name);
  };

  /** Renames or removes one of the writer's own things; false when there is none whose state is known. */
  const change = async (
    client: Client,
    maker: Maker,
    roll: (sides: number) => number,
    name: string,
  ): Promise<boolean> => {
    const [own = ""] = name.split("-", 1);
    const known = ledger.settled(maker.kind, `${own}-`);
    const one = known[roll(Math.max(1, known.length))];
    const isRemoval = roll(2) === 0;
    if (!one || !(isRemoval ? maker.remove : maker.rename)) return false;
    const at = { client, place, id: one.id };
    const next = isRemoval ? undefined : `${name}-new`;
    const answer = await attempt(async () =>
      next === undefined ? maker.remove?.(at) : maker.rename?.(at, next),
    );
    const verdict = verdictOn(answer, `${maker.kind}, ${isRemoval ? "removed" : "renamed"}`);
    if (verdict === true) ledger.changed(maker.kind, one.id, next);
    else if (verdict === undefined) ledger.mayHaveChanged(maker.kind, one.id, next);
    return true;
  };

  const writers = Array.from({ length: options.writers }, async (_, writer) => {
    const roll = dice(options.seed * 1000 + options.generation * 100 + writer);
    for (let n = 0; !isStopped; n += 1) {
      const base = options.base(writer);
      if (base === undefined) {
        await pause(20);
        continue;
      }
      const client = clientOf(base, place.token);
      const maker = makers[roll(makers.length * 2)];
      const before = statuses[200] ?? 0;
      const name = `w${writer}-g${options.generation}-${n}`;
      if (!maker) await write(client, roll, writer, n);
      else if (roll(2) === 0 || !(await change(client, maker, roll, name))) await make(client, maker, name);
      // Nobody hammers a server that is away.
      if ((statuses[200] ?? 0) === before) await pause(20);
    }
  });
  return {
    ledger,
    strange,
    statuses,
    async stop() {
      isStopped = true;
      await Promise.all(writers);
    },
  };
}

/** Everything that is there against everything that was promised, through the public face. */
export async function judge(base: string, place: Place, ledger: Ledger): Promise<string[]> {
  const client = clientOf(base, place.token);
  const { secrets } = must(
    await client.get(`/api/v4/secrets?projectId=${place.projectId}&environment=dev`),
    "list",
  );
  const present = new Map<string, string>(
    secrets.map((one: { secretKey: string; secretValue: string }) => [one.secretKey, one.secretValue]),
  );
  const faults = ledger.judgeSecrets(present);
  for (const maker of MAKERS.filter(({ kind }) => ledger.kinds.includes(kind)))
    faults.push(...ledger.judgeThings(maker.kind, await maker.list(client, place)));
  return faults;
}

/** What the tables must agree on among themselves. */
export async function judgeTables(connection: pg.ClientConfig, ledger: Ledger): Promise<string[]> {
  const client = new pg.Client({ ...connection, ssl: false });
  await client.connect();
  try {
    const faults: string[] = [];
    const torn = await client.query(`
      SELECT secret_id FROM secret_versions GROUP BY secret_id
      HAVING min(version) <> 1 OR max(version) <> count(*)`);
    if (torn.rowCount) faults.push(`${torn.rowCount} secrets have holes in their versions`);
    const stale = await client.query(`
      SELECT s.id FROM secrets s
      WHERE s.version <> (SELECT max(version) FROM secret_versions v WHERE v.secret_id = s.id)
         OR EXISTS (SELECT FROM secret_versions v WHERE v.secret_id = s.id AND v.version = s.version AND v.change = 'delete')`);
    if (stale.rowCount) faults.push(`${stale.rowCount} secrets are not their newest version`);
    const { rows } = await client.query<{ request_id: string }>(
      "SELECT DISTINCT request_id FROM audit_log WHERE request_id IS NOT NULL",
    );
    const audited = new Set(rows.map((row) => row.request_id));
    const unaudited = ledger.requestIds.filter((id) => !audited.has(id));
    if (unaudited.length > 0)
      faults.push(`${unaudited.length} acknowledged changes have no audit row, such as ${unaudited[0]}`);
    const made = await client.query<{ there: number; told: number }>(`
      SELECT (SELECT count(*) FROM identities) AS there, 
        (SELECT count(DISTINCT request_id) FROM audit_log WHERE event = 'create-identity')
        - (SELECT count(DISTINCT request_id) FROM audit_log WHERE event = 'delete-identity') AS told`);
    const { there = 0, told = 0 } = made.rows[0] ?? {};
    // The first identity comes from the bootstrap.
    if (Number(there) !== Number(told) + 1)
      faults.push(`${there} identities, but ${told} audit rows that tell of their making`);
    return faults;
  } finally {
    await client.end();
  }
}
