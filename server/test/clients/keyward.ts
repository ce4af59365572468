/** A real Keyward process with a project that has a root and a profile, on a database of its own. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { until } from "../builders.ts";
import { aProfile, aRoot, certProject, issue, ok } from "../certificates.ts";
import { clientOf, OWNER, type Client } from "../harness.ts";
import { createTestDatabase, type TestDatabase } from "../postgres.ts";
import { startServer } from "../process.ts";

const ALERTS = "/api/v1/cert-manager/alerts";
const PATIENCE_MS = 60_000;

export interface DeliverySeen {
  readonly id: string;
  readonly status: string;
  readonly attempts: number;
  readonly error: string | null;
  readonly eventType: string;
}

export interface RunningKeyward {
  readonly owner: Client;
  readonly projectId: string;
  readonly base: string;
  addAlert(more: Record<string, unknown>): Promise<string>;
  issue(attributes: Record<string, unknown>): Promise<{ certificateId: string; serialNumber: string }>;
  deliveries(alertId: string): Promise<DeliverySeen[]>;
  /** Waits until each delivery of the alert, at least one, satisfies the predicate. */
  deliveriesThat(alertId: string, isRight: (one: DeliverySeen) => boolean): Promise<DeliverySeen[]>;
  /** As if a day had passed since the first attempt. */
  letADayPass(): Promise<void>;
  close(): Promise<void>;
}

async function letADayPass({ connection }: TestDatabase): Promise<void> {
  const client = new pg.Client(connection);
  await client.connect();
  await client.query(
    "UPDATE alert_deliveries SET first_attempt_at = first_attempt_at - interval '1 day', next_at = now() WHERE status = 'pending'",
  );
  await client.end();
}

export async function startKeyward(env: Record<string, string> = {}): Promise<RunningKeyward> {
  const database = await createTestDatabase();
  const { host, port, user, database: name } = database.connection;
  const server = await startServer({
    DATABASE_URL: `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}&sslmode=disable`,
    KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
    KEYWARD_PUBLIC_URL: "https://keyward.example",
    KEYWARD_MAIL_FROM: "Keyward Ålerts <alerts@keyward.example>",
    KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8",
    ...env,
  });
  const booted = await clientOf(server.base).post("/api/v1/admin/bootstrap", {
    ...OWNER,
    organization: "Owner",
  });
  const owner = clientOf(server.base, ok(booted, "bootstrap").identity.credentials.token as string);
  const { id: projectId } = await certProject(owner);
  const root = await aRoot(owner, projectId);
  const profile = await aProfile(owner, projectId, root.id);
  const deliveries = async (alertId: string): Promise<DeliverySeen[]> =>
    ok(await owner.get(`${ALERTS}/${alertId}/deliveries`)).deliveries;
  return {
    owner,
    projectId,
    base: server.base,
    deliveries,
    addAlert: async (more) =>
      ok(await owner.post(ALERTS, { name: "Web", eventType: "issuance", filters: [], projectId, ...more }))
        .alert.id,
    issue: (attributes) => issue(owner, profile.id, attributes),
    async deliveriesThat(alertId, isRight) {
      let seen: DeliverySeen[] = [];
      await until(async () => {
        seen = await deliveries(alertId);
        return seen.length > 0 && seen.every(isRight);
      }, PATIENCE_MS);
      return seen;
    },
    letADayPass: () => letADayPass(database),
    async close() {
      await server.stop();
      await database.drop();
    },
  };
}
