import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import type pg from "pg";
import { aProject, anIdentity, aRole } from "../../test/builders.ts";
import { openTestHouse, type Client, type Tenant, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { newId } from "../platform/ids.ts";
import { auditPageQuery } from "./store.ts";
import { sized } from "../../test/full-size.ts";

const LOGS = "/api/v1/organization/audit-logs";
const MINUTE_MS = 60_000;

interface Row {
  readonly id: string;
  readonly at: number;
  readonly projectId: string | null;
  readonly event: string;
  readonly actorType: string;
  readonly actorId: string;
  readonly userAgent: string | null;
}

describe("the audit log at the door", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse();
  });
  after(() => house.close());

  const onDatabase = <T>(work: (client: pg.Client) => Promise<T>): Promise<T> =>
    withClient(house.database.server, house.database.connection.database, work);

  const insert = (orgId: string | null, rows: readonly Row[]) =>
    onDatabase((client) =>
      client.query(
        `INSERT INTO audit_log (id, at, org_id, project_id, event, actor_type, actor_id, actor_name, user_agent, metadata)
         SELECT r.id, to_timestamp(r.at / 1000.0), $2, r."projectId", r.event, r."actorType", r."actorId", 'someone', r."userAgent", '{}'
         FROM jsonb_to_recordset($1) AS r (id uuid, at bigint, "projectId" uuid, event text, "actorType" text, "actorId" uuid, "userAgent" text)`,
        [JSON.stringify(rows), orgId],
      ),
    );

  const idsOf = (answer: { body: { auditLogs: { id: string }[] } }): string[] =>
    answer.body.auditLogs.map((log) => log.id);
  const allIds = async (client: Client, query: string): Promise<string[]> =>
    idsOf(await client.get(`${LOGS}?limit=1000&${query}`));

  it("keeps the rows of a new instance in their month from the very first on", async () => {
    const stray = await onDatabase((client) => client.query("SELECT event FROM audit_log_default"));
    const all = await onDatabase((client) => client.query("SELECT event FROM audit_log"));
    assert.deepEqual(stray.rows, []);
    assert.ok(all.rows.length > 0);
  });

  it("tells who did what, from where and in which request", async () => {
    const tenant = await house.newTenant();
    const made = await tenant.post(
      "/api/v1/projects",
      { projectName: "Payments" },
      { headers: { "user-agent": "keyward-cli/9" } },
    );
    const { auditLogs, nextCursor } = (await tenant.get(`${LOGS}?eventType=create-project`)).body;
    assert.equal(auditLogs.length, 1);
    assert.equal(nextCursor, null);
    const [log] = auditLogs;
    assert.equal(log.event.type, log.eventType);
    assert.equal(log.event.metadata.name, "Payments");
    assert.deepEqual(
      [log.actor.type, log.actor.metadata.id, log.actor.metadata.identityId],
      ["identity", tenant.identityId, tenant.identityId],
    );
    assert.deepEqual(
      [log.ipAddress, log.userAgent, log.userAgentType],
      ["127.0.0.1", "keyward-cli/9", "cli"],
    );
    assert.deepEqual(
      [log.orgId, log.projectId, log.reqId],
      [tenant.orgId, made.body.project.id, made.headers.get("x-request-id")],
    );
  });

  it("never shows another organisation's rows, nor those of none", async () => {
    const [mine, theirs] = [await house.newTenant(), await house.newTenant()];
    const row = (actorId: string): Row => ({
      id: newId(),
      at: house.clock.millis(),
      projectId: null,
      event: "test-seen",
      actorType: "user",
      actorId,
      userAgent: null,
    });
    const own = row(newId());
    await insert(mine.orgId, [own]);
    await insert(theirs.orgId, [row(own.actorId)]);
    await insert(null, [row(own.actorId)]);
    assert.deepEqual(await allIds(mine, `actorId=${own.actorId}`), [own.id]);
  });

  it("answers every combination of filters like a plain search through all rows", async () => {
    const tenant = await house.newTenant();
    const projects = [await aProject(tenant), await aProject(tenant)];
    const start = house.clock.millis() - 90 * MINUTE_MS;
    const actors = [newId(), newId()];
    const pick = <T>(options: readonly T[], index: number): T => options[index % options.length] as T;
    // Many rows share a moment on purpose: the order among those must hold too.
    const rows = Array.from({ length: 240 }, (_, index): Row => ({
      id: newId(),
      at: start + Math.floor(index / 4) * MINUTE_MS,
      projectId: pick([null, ...projects.map((project) => project.id)], index * 7),
      event: pick(["test-one", "test-two", "test-three"], index * 5 + 1),
      actorType: pick(["user", "identity"], Math.floor(index / 3)),
      actorId: pick(actors, Math.floor(index / 5)),
      userAgent: pick([null, "Agent/100%_a", "agent/1000xa"], Math.floor(index / 2)),
    }));
    await insert(tenant.orgId, rows);
    const query = fc.record(
      {
        projectId: fc.constantFrom(...projects.flatMap((project) => [project.id, project.slug])),
        eventType: fc.subarray(["test-one", "test-two", "test-three"], { minLength: 1 }),
        actorType: fc.constantFrom("user", "identity"),
        actorId: fc.constantFrom(...actors),
        userAgent: fc.constantFrom("agent", "100%_", "AGENT/1000X", "nobody"),
        startDate: fc.integer({ min: 0, max: 60 }),
        endDate: fc.integer({ min: 60, max: 80 }),
      },
      { requiredKeys: ["eventType"] },
    );
    await fc.assert(
      fc.asyncProperty(query, async (asked) => {
        const [from, to] = [
          start + (asked.startDate ?? -100) * MINUTE_MS,
          start + (asked.endDate ?? 1e6) * MINUTE_MS,
        ];
        const projectId = projects.find((project) =>
          [project.id, project.slug].includes(asked.projectId ?? ""),
        )?.id;
        const wanted = rows
          .filter(
            (row) =>
              row.at >= from &&
              row.at <= to &&
              asked.eventType.includes(row.event) &&
              (projectId === undefined || row.projectId === projectId),
          )
          .filter(
            (row) =>
              (asked.actorType ?? row.actorType) === row.actorType &&
              (asked.actorId ?? row.actorId) === row.actorId,
          )
          .filter(
            (row) =>
              asked.userAgent === undefined ||
              row.userAgent?.toLowerCase().includes(asked.userAgent.toLowerCase()),
          )
          .toSorted((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1))
          .map((row) => row.id);
        const { startDate, endDate, eventType, ...plain } = asked;
        const params = new URLSearchParams({ ...plain, eventType: eventType.join(",") });
        if (startDate !== undefined) params.set("startDate", new Date(from).toISOString());
        if (endDate !== undefined) params.set("endDate", new Date(to).toISOString());
        assert.deepEqual(await allIds(tenant, params.toString()), wanted, params.toString());
      }),
      { numRuns: sized(15, 60) },
    );
    assert.deepEqual(
      await allIds(tenant, "eventType=test-one&eventType=test-two"),
      await allIds(tenant, "eventType=test-one,test-two"),
    );
  });

  it("is read page by page without a gap or a repeat while new rows come in", async () => {
    const tenant = await house.newTenant();
    const at = house.clock.millis() - MINUTE_MS;
    const row = (index: number, when = at + Math.floor(index / 3)): Row => ({
      id: newId(),
      at: when,
      projectId: null,
      event: "test-page",
      actorType: "user",
      actorId: newId(),
      userAgent: null,
    });
    const rows = Array.from({ length: 50 }, (_, index) => row(index));
    await insert(tenant.orgId, rows);
    const seen: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const page = await tenant.get(`${LOGS}?eventType=test-page&limit=7&cursor=${cursor}`);
      assert.equal(page.status, 200);
      seen.push(...idsOf(page));
      cursor = page.body.nextCursor;
      await insert(tenant.orgId, [row(0, house.clock.millis())]);
    }
    assert.deepEqual(
      seen,
      rows.toSorted((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1)).map(({ id }) => id),
    );
  });

  it("is also read by offset, as older clients do", async () => {
    const tenant = await house.newTenant();
    for (let index = 0; index < 5; index += 1) await aProject(tenant);
    const all = await allIds(tenant, "eventType=create-project");
    assert.equal(all.length, 5);
    assert.deepEqual(
      idsOf(await tenant.get(`${LOGS}?eventType=create-project&limit=2&offset=2`)),
      all.slice(2, 4),
    );
  });

  it("goes back thirty days unless asked for more", async () => {
    const tenant = await house.newTenant();
    const at = house.clock.millis() - 31 * 24 * 60 * MINUTE_MS;
    const old: Row = {
      id: newId(),
      at,
      projectId: null,
      event: "test-old",
      actorType: "user",
      actorId: newId(),
      userAgent: null,
    };
    await insert(tenant.orgId, [old]);
    assert.deepEqual(await allIds(tenant, "eventType=test-old"), []);
    assert.deepEqual(
      await allIds(tenant, `eventType=test-old&startDate=${new Date(at).toISOString().slice(0, 10)}`),
      [old.id],
    );
  });

  const readers = async (tenant: Tenant, projectId: string) => {
    const blind = await aRole(tenant, projectId, [{ subject: "secrets", action: "read" }]);
    return {
      viewer: await anIdentity(tenant, house.base, projectId, { roles: [{ role: "viewer" }] }),
      blind: await anIdentity(tenant, house.base, projectId, { roles: [{ role: blind }] }),
    };
  };

  it("of a project is open to its readers, the organisation's only to those who may read that", async () => {
    const tenant = await house.newTenant();
    const [project, other] = [await aProject(tenant), await aProject(tenant)];
    const { viewer, blind } = await readers(tenant, project.id);
    const own = await viewer.client.get(`${LOGS}?projectId=${project.slug}`);
    assert.equal(own.status, 200);
    assert.ok(own.body.auditLogs.length > 0);
    assert.ok(own.body.auditLogs.every((log: { projectId: string }) => log.projectId === project.id));
    assert.equal((await viewer.client.get(LOGS)).status, 403);
    assert.equal((await viewer.client.get(`${LOGS}?projectId=${other.id}`)).status, 403);
    assert.equal((await blind.client.get(`${LOGS}?projectId=${project.id}`)).status, 403);
    assert.equal((await tenant.get(`${LOGS}?projectId=${project.id}`)).status, 200);
  });

  it("answers another organisation's project exactly as an unknown one", async () => {
    const [tenant, stranger] = [await house.newTenant(), await house.newTenant()];
    const { id } = await aProject(tenant);
    const unknown = newId();
    const shape = async (ref: string) => {
      const { status, body } = await stranger.get(`${LOGS}?projectId=${ref}`);
      return [status, body.error, body.message.replace(ref, "…")];
    };
    assert.deepEqual(await shape(id), await shape(unknown));
    assert.equal((await shape(id))[0], 404);
  });

  it("refuses questions that make no sense", async () => {
    const bad = [
      "limit=0",
      "limit=1001",
      "limit=1e2",
      "offset=-1",
      "cursor=x",
      "actorType=ghost",
      "actorId=7",
      "eventType=a,,b",
      "eventType=DROP",
      "startDate=yesterday",
      "startDate=2031-01-02&endDate=2031-01-01",
      `userAgent=${"x".repeat(257)}`,
    ];
    for (const query of bad) assert.equal((await house.owner.get(`${LOGS}?${query}`)).status, 422, query);
    assert.equal((await house.anonymous.get(LOGS)).status, 401);
  });

  it("stops reading once the page is full, however long the log is", async () => {
    const tenant = await house.newTenant();
    const [busy, quiet] = [await aProject(tenant), await aProject(tenant)];
    await onDatabase(async (client) => {
      const fill = `
        INSERT INTO audit_log (id, at, org_id, project_id, event, actor_type, actor_name, metadata)
        SELECT gen_random_uuid(), $3::timestamptz - n * interval '1 minute', $1, $2, 'test-many', 'system', 's', '{}' FROM generate_series($4::int, $5::int) n`;
      await client.query(fill, [tenant.orgId, busy.id, house.clock.now(), 1, 20_000]);
      await client.query(fill, [tenant.orgId, quiet.id, house.clock.now(), 20_001, 20_500]);
      await client.query("ANALYZE audit_log");
    });
    const from = new Date(house.clock.millis() - 30 * 24 * 60 * MINUTE_MS);
    const none = {
      to: undefined,
      events: undefined,
      actorType: undefined,
      actorId: undefined,
      userAgent: undefined,
    };
    const after = { at: new Date(house.clock.millis() - 9000 * MINUTE_MS), id: newId() };
    for (const [projectId, index] of [
      [undefined, "org_id"],
      [quiet.id, "project_id"],
    ] as const) {
      const query = auditPageQuery({
        orgId: tenant.orgId,
        projectId,
        from,
        ...none,
        after,
        limit: 21,
        offset: 0,
      });
      const plan = await onDatabase(
        async (client) =>
          (await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${query.text}`, query.values)).rows[0],
      );
      const nodes = flatten((plan as { "QUERY PLAN": [{ Plan: PlanNode }] })["QUERY PLAN"][0].Plan);
      assert.ok(
        nodes.every((node) => node["Node Type"] !== "Sort" && node["Node Type"] !== "Seq Scan"),
        nodes.map((node) => node["Node Type"]).join(),
      );
      const scans = nodes.filter((node) => node["Node Type"] === "Index Scan");
      assert.ok(
        scans.some((scan) => scan["Actual Rows"] > 0 && scan["Index Name"]?.includes(index)),
        JSON.stringify(scans),
      );
      assert.ok(
        scans.every((scan) => scan["Actual Rows"] <= 21 && (scan["Rows Removed by Filter"] ?? 0) === 0),
        JSON.stringify(scans),
      );
    }
  });
});

interface PlanNode {
  readonly "Node Type": string;
  readonly "Actual Rows": number;
  readonly "Index Name"?: string;
  readonly "Rows Removed by Filter"?: number;
  readonly Plans?: readonly PlanNode[];
}

const flatten = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flatten)];
