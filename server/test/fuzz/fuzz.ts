/**
 * The fuzz run: rounds over every route until the time is up. One request at a time, so that a seed
 * leads to the same requests again (ids apart). A finding is kept and the run goes on; what was sent stands in it.
 */
import fc from "fast-check";
import type { Endpoint } from "../../src/platform/http/index.ts";
import { clientOf, OWNER, type Tenant } from "../harness.ts";
import { World } from "../things.ts";
import { hostileBodies } from "./hostile.ts";
import { openDoor, type Wire } from "./door.ts";
import { exampleOf, wireOf, type Ground } from "./examples.ts";
import { openFuzzHouse } from "./house.ts";
import { createJudge } from "./judge.ts";
import { OUT_OF_REACH, RECIPES, type Recipe } from "./recipes.ts";
import { draftsOf, inputSchema, type Draft, type Json } from "./requests.ts";

/** No request may take longer; see `hangs` for how a busy machine is distinguished from a slow answer. */
const HANG_MS = 1000;
/** Of the whole process: the house, its driver and what this run remembers. */
const MOST_HEAP_MB = 1024;
const DRAFTS_PER_VISIT = 6;
const SEEN_PER_FIELD = 40;

export interface Finding {
  readonly endpoint: string;
  readonly complaint: string;
  readonly reason: string | undefined;
  readonly sent: string;
  readonly round: number;
}

export interface FuzzReport {
  readonly seed: number;
  readonly requests: number;
  readonly rounds: number;
  readonly statuses: Readonly<Record<string, number>>;
  /** Endpoints that never answered 200: nothing behind their door was tried. */
  readonly neverGood: readonly string[];
  readonly findings: readonly Finding[];
  readonly slowest: { readonly endpoint: string; readonly ms: number };
  /** At the end of each round, and at most. */
  readonly heapMb: readonly number[];
  readonly mostHeapMb: number;
}

export interface FuzzOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly only?: readonly string[];
  readonly rounds?: number;
  /** So many requests at least, also where a machine that has other things to do makes few in time. */
  readonly least?: number;
  /** Random requests for each visit of a route; 0 = only the documented example. */
  readonly drafts?: number;
  readonly progress?: (line: string) => void;
}

/** Numbers that follow from the seed and from where the run is, not from what ran before. */
const mixed = (...parts: readonly number[]): number =>
  parts.reduce((hash, part) => Math.imul(hash ^ part, 0x9e3779b1) ^ (hash >>> 15), 0x2545f491) | 0;

interface Callers {
  readonly mine: Tenant;
  readonly theirs: Tenant;
  readonly session: string;
}

function tenantOf(
  base: string,
  made: {
    identity: { id: string; credentials: { token: string } };
    organization: { id: string; slug: string };
  },
): Tenant {
  const { token } = made.identity.credentials;
  return {
    ...clientOf(base, token),
    token,
    orgId: made.organization.id,
    orgSlug: made.organization.slug,
    identityId: made.identity.id,
  };
}

export async function fuzz(options: FuzzOptions): Promise<FuzzReport> {
  const opened = await openFuzzHouse();
  const { base, house } = opened;
  const door = openDoor(base);
  const all = house.routes
    .map(({ endpoint }) => endpoint)
    .filter(({ id }) => !options.only || options.only.includes(id));
  // A short run on a slow machine does not get round: each seed begins elsewhere, so that all have their turn.
  const from = options.seed % Math.max(1, all.length);
  const endpoints = [...all.slice(from), ...all.slice(0, from)];
  const judge = createJudge(house.routes.map(({ endpoint }) => endpoint));
  const drafts = new Map(endpoints.map((endpoint) => [endpoint.id, draftsOf(endpoint)]));
  const examples = new Map(house.routes.map(({ endpoint }) => [endpoint.id, endpoint.example.body]));
  const booted = await clientOf(base).post("/api/v1/admin/bootstrap", { ...OWNER, organization: "Owner" });
  if (booted.status !== 200) throw new Error(`bootstrap failed: ${JSON.stringify(booted.body)}`);
  const owner = tenantOf(base, booted.body);

  const seen = new Map<string, string[]>();
  const findings: Finding[] = [];
  const statuses: Record<string, number> = {};
  const tried = new Set<string>();
  const good = new Set<string>();
  const heapMb: number[] = [];
  let slowest = { endpoint: "", ms: 0 };
  let mostHeapMb = 0;
  let requests = 0;
  let round = 0;

  const newTenant = async (): Promise<Tenant> => {
    const made = await owner.post("/api/v1/admin/organizations", { name: "Fuzz" });
    if (made.status !== 200) throw new Error(`no new organisation: ${JSON.stringify(made.body)}`);
    const tenant = tenantOf(base, made.body);
    await owner.post("/api/v1/admin/licences", {
      organizationId: tenant.orgId,
      plan: "enterprise",
      days: 30,
    });
    return tenant;
  };
  const newSession = async (): Promise<string> => {
    const login = await clientOf(base).post("/api/v3/auth/login", OWNER);
    const session = (login.body.accessToken as string | undefined) ?? "";
    const chosen = await clientOf(base, session).post("/api/v3/auth/select-organization", {
      organizationId: owner.orgId,
    });
    return (chosen.body.token as string | undefined) ?? session;
  };
  /** A password is slow to check on purpose, so a session is kept over rounds until something ended it. */
  const newCallers = async (last?: Callers): Promise<Callers> => {
    const isGood = last && (await clientOf(base, last.session).post("/api/v1/auth/checkAuth")).status === 200;
    return {
      mine: await newTenant(),
      theirs: last?.theirs ?? (await newTenant()),
      session: isGood ? last.session : await newSession(),
    };
  };

  /** Remembers what answers call by name, so that later requests can speak of it. */
  const remember = (value: unknown, parent = ""): void => {
    if (Array.isArray(value))
      return value.slice(0, 5).forEach((item) => remember(item, parent.replace(/s$/, "")));
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      if (
        typeof inner === "string" &&
        inner.length < 200 &&
        /id$|slug$|^secretKey$|^name$|token|secret$/i.test(key)
      ) {
        for (const field of [key, `${parent}${key.charAt(0).toUpperCase()}${key.slice(1)}`]) {
          const known = seen.get(field) ?? [];
          if (known.length < SEEN_PER_FIELD) seen.set(field, [...known, inner]);
          else known[requests % SEEN_PER_FIELD] = inner;
        }
      } else remember(inner, key);
    }
  };

  /**
   * Whether an answer that took too long takes too long every time. A machine that has other things to do makes
   * everything slow: the same request is sent again beside one that costs next to nothing, and only what is slow three
   * times over, and far slower than that, is slow itself.
   */
  const hangs = async (wire: Wire): Promise<boolean> => {
    const timed = async (one: Wire): Promise<number> => {
      const startedAt = performance.now();
      await door.send(one).catch(() => undefined);
      return performance.now() - startedAt;
    };
    const trifle = { method: "GET", path: "/api/status", token: undefined, body: undefined };
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const usual = await timed(trifle);
      if ((await timed(wire)) < Math.max(HANG_MS, 20 * usual)) return false;
    }
    return true;
  };

  const visit = async (endpoint: Endpoint, wire: Wire): Promise<number> => {
    opened.bugs.length = 0;
    tried.add(endpoint.id);
    const startedAt = performance.now();
    const cpu = process.cpuUsage();
    let complaint: string | undefined;
    let status = 0;
    try {
      const heard = await door.send(wire);
      status = heard.status;
      complaint = judge(endpoint, heard);
      if (heard.status === 200) good.add(endpoint.id);
      if (heard.status === 200 && heard.type.startsWith("application/json")) remember(JSON.parse(heard.text));
    } catch (error) {
      complaint = (error as Error).message;
    }
    requests += 1;
    const ms = performance.now() - startedAt;
    const { user, system } = process.cpuUsage(cpu);
    // What is worked on for so long is slow on any machine, also where a repeat is refused at once.
    const isWork = (user + system) / 1000 > HANG_MS;
    if (ms > HANG_MS && complaint === undefined && (isWork || (await hangs(wire))))
      complaint = `the answer took ${Math.round(ms)} ms${isWork ? " of work" : ", and again"}`;
    const heap = Math.round(process.memoryUsage().heapUsed / 1_048_576);
    if (heap > MOST_HEAP_MB) complaint ??= `the heap grew to ${heap} MB`;
    mostHeapMb = Math.max(mostHeapMb, heap);
    if (ms > slowest.ms) slowest = { endpoint: endpoint.id, ms: Math.round(ms) };
    statuses[status] = (statuses[status] ?? 0) + 1;
    const reason = opened.bugs[0]?.split("\n").slice(0, 6).join("\n");
    if (complaint === undefined) return status;
    const key = (one: Pick<Finding, "endpoint" | "complaint" | "reason">) =>
      `${one.endpoint} ${one.reason?.split("\n")[0] ?? one.complaint.replace(/req-\w+|\d+/g, "")}`;
    const finding = {
      endpoint: endpoint.id,
      complaint,
      reason,
      round,
      sent: `${wire.method} ${wire.path.slice(0, 500)} ${(wire.body ?? "").toString().slice(0, 1500)}`,
    };
    if (!findings.some((known) => key(known) === key(finding))) {
      findings.push(finding);
      options.progress?.(`FOUND ${JSON.stringify(finding)}`);
    }
    return status;
  };

  const tokenFor = (endpoint: Endpoint, callers: Callers, luck: number): string | undefined => {
    if (endpoint.access === "public") return undefined;
    if (endpoint.path.startsWith("/api/v1/admin/")) return luck % 3 === 0 ? callers.mine.token : owner.token;
    // A session's own routes end it; the next round logs in again.
    if (luck % 12 === 0 || (endpoint.room === "auth" && luck % 3 === 0)) return callers.session;
    return luck % 50 === 1 ? `${callers.mine.token.slice(0, -3)}xyz` : callers.mine.token;
  };

  const newGround = (callers: Callers): Ground => ({
    mine: new World(callers.mine, examples),
    theirs: new World(callers.theirs, examples),
    seen,
  });
  const makersOf = (room: string): Endpoint[] =>
    house.routes
      .map(({ endpoint }) => endpoint)
      .filter((one) => one.room === room && one.id.startsWith("create"));
  const example = async (endpoint: Endpoint, ground: Ground, callers: Callers): Promise<Wire> => {
    const kitchen = { world: ground.mine, instanceAdmin: owner, ownerOrgId: owner.orgId, person: newSession };
    // What a recipe needs may be refused after a stranger request; the plain example is sent then.
    const recipe = await RECIPES[endpoint.id]?.(kitchen).catch((error: Error): Recipe => {
      options.progress?.(`no recipe for ${endpoint.id}: ${error.message.slice(0, 300)}`);
      return {};
    });
    const token = recipe?.token ?? tokenFor(endpoint, callers, 5);
    return wireOf(endpoint, await exampleOf(endpoint, ground.mine, recipe), ground, token);
  };

  const until = performance.now() + options.seconds * 1000;
  const isOver = () => performance.now() > until && requests >= (options.least ?? 0);
  let callers: Callers = await newCallers();
  try {
    for (; !isOver() && round < (options.rounds ?? Infinity); round += 1) {
      callers = await newCallers(callers);
      let ground = newGround(callers);
      let prepared = new Set<string>();
      const startAnew = async (): Promise<void> => {
        callers = await newCallers(callers);
        ground = newGround(callers);
        prepared = new Set();
      };
      for (const [index, endpoint] of endpoints.entries()) {
        if (isOver()) break;
        const seed = mixed(options.seed, round, index);
        // What this room makes has to be there before anybody can change or delete it.
        if (!prepared.has(endpoint.room)) {
          prepared.add(endpoint.room);
          for (const maker of makersOf(endpoint.room))
            await visit(maker, await example(maker, ground, callers));
        }
        if (
          (await visit(endpoint, await example(endpoint, ground, callers))) !== 200 &&
          endpoint.access === "token"
        ) {
          // Most likely an earlier request deleted what this one is about.
          await startAnew();
          for (const maker of makersOf(endpoint.room))
            await visit(maker, await example(maker, ground, callers));
          await visit(endpoint, await example(endpoint, ground, callers));
        }
        const arbitrary = drafts.get(endpoint.id) as fc.Arbitrary<Draft>;
        for (const [n, draft] of fc
          .sample(arbitrary, { seed, numRuns: options.drafts ?? DRAFTS_PER_VISIT })
          .entries()) {
          const token = tokenFor(endpoint, callers, Math.abs(mixed(seed, n)));
          const status = await visit(endpoint, await wireOf(endpoint, draft, ground, token));
          if (status === 401 && token === callers.mine.token) {
            await startAnew();
          }
        }
        if (endpoint.method === "GET") continue;
        const field =
          Object.keys((inputSchema(endpoint.body)["properties"] as Json | undefined) ?? {})[0] ?? "a";
        const bombs = hostileBodies(field);
        const bomb = bombs[Math.abs(mixed(seed, 77)) % bombs.length];
        const plain = await wireOf(
          endpoint,
          await exampleOf(endpoint, ground.mine),
          ground,
          callers.mine.token,
        );
        if (bomb)
          await visit(endpoint, {
            ...plain,
            body: bomb.text,
            ...(bomb.type === undefined ? {} : { type: bomb.type }),
          });
      }
      heapMb.push(Math.round(process.memoryUsage().heapUsed / 1_048_576));
      options.progress?.(
        `round ${round}: ${requests} requests, ${findings.length} findings, heap ${heapMb.at(-1)} MB`,
      );
    }
  } finally {
    door.close();
    await opened.close();
  }
  const neverGood = [...tried].filter((id) => !good.has(id) && !(id in OUT_OF_REACH));
  const figures = { requests, rounds: round, statuses, slowest, heapMb, mostHeapMb };
  return { seed: options.seed, ...figures, neverGood, findings };
}
