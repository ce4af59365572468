/** The composition root: every room opened once, in order, each with just what it needs. */
import type pg from "pg";
import { adminRoutes, createAdmin } from "./admin/index.ts";
import { openAlerts, type AlertRoomNeeds, type AlertWork } from "./alerts/index.ts";
import { auditJobs, auditRoutes, createAudit, createRefusals, type Refusals } from "./audit/index.ts";
import {
  authJobs,
  authRoutes,
  createAccessTokens,
  createAuthentication,
  createPasswordResets,
  createSessions,
  createTokenAuths,
  createUniversalAuths,
  createUniversalLogin,
  flushUses,
  type Authentication,
  type AuthServices,
} from "./auth/index.ts";
import { openCertificateRooms } from "./certificate-rooms.ts";
import { createEvents, createStreamQuota, eventRoutes, type Events } from "./events/index.ts";
import {
  createImpersonationGuard,
  createIdentityMemberships,
  createOrgIdentities,
  createProjectIdentities,
  identityRoutes,
} from "./identities/index.ts";
import { createLicences, licenceRoutes } from "./licences/index.ts";
import {
  createAcceptances,
  createInvitationGrants,
  createInvitations,
  createOrgMembers,
  createProjectMembers,
  memberJobs,
  memberRoutes,
} from "./members/index.ts";
import { createMemberships } from "./memberships/index.ts";
import { createMailer, createNotifications, type Mailer } from "./notifications/index.ts";
import { createOrganizations, organizationRoutes } from "./organizations/index.ts";
import { createPermissions } from "./permissions/index.ts";
import type { Clock } from "./platform/clock.ts";
import type { ClockWatch } from "./platform/clock-watch.ts";
import { limitsOf, type Config } from "./platform/config.ts";
import { openKeyring } from "./platform/crypto/index.ts";
import { openDatabase, type Database } from "./platform/db/index.ts";
import {
  closeDoor,
  createDoor,
  createMetrics,
  createRateLimits,
  sendElsewhere,
  type RateLimits,
  type Route,
} from "./platform/http/index.ts";
import { createJobs, type Jobs } from "./platform/jobs/index.ts";
import { reasonOf, type Log } from "./platform/log.ts";
import { createOutbound } from "./platform/outbound.ts";
import { prepareDatabase } from "./platform/prepare-database.ts";
import { createTail, outboxJobs, type Tail } from "./platform/outbox/index.ts";
import type { Redacted } from "./platform/redacted.ts";
import { telling } from "./platform/telling.ts";
import {
  createEnvironments,
  createJudge,
  createProjectAccess,
  createProjects,
  projectRoutes,
} from "./projects/index.ts";
import { createRoles, roleRoutes } from "./roles/index.ts";
import { openSecretRooms, secretsJobs, secretsRoutes, type Secrets } from "./secret-rooms.ts";
import { createStatus, statusRoutes } from "./status/index.ts";

interface HouseOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  /** Whose `clock` is: tests, which move time as they like, leave it out. */
  readonly clockWatch?: ClockWatch;
  readonly connection: pg.ClientConfig;
  readonly rootKey: Redacted<Buffer>;
}

export interface House {
  readonly app: ReturnType<typeof createDoor>;
  readonly database: Database;
  readonly jobs: Jobs;
  readonly tail: Tail;
  readonly routes: readonly Route[];
  readonly events: Events;
  readonly secrets: Secrets;
  readonly refusals: Refusals;
  readonly alertWork: AlertWork;
  readonly rateLimits: RateLimits;
  readonly authentication: Authentication;
  /** Starts the background jobs; tests leave it out and call the jobs themselves. */
  startWork(): void;
  /** Stores when tokens and client secrets were last used here; otherwise that happens every few seconds. */
  flushUses(): Promise<void>;
  /** Answers the port. */
  listen(): Promise<number>;
  /** Drains: goes on serving, answers not ready, and closes its streams one after the other in that time. */
  drain(milliseconds: number): void;
  close(): Promise<void>;
}

const FLUSH_MS = 2000;
const GOODBYE_MS = 1000; // for closing what a start that failed has opened

/** What nearly every room depends on. */
async function openCore({ config, clock, log, rootKey }: HouseOptions, db: Database, tail: Tail) {
  const keyring = await openKeyring(db, rootKey.open(), config.rootKeyPrevious?.open());
  if (keyring.unwrappableKeys > 0)
    log.error(
      { keys: keyring.unwrappableKeys },
      "the root key does not open some organisations' keys; start once more with KEYWARD_ROOT_KEY_PREVIOUS",
    );
  const permissions = createPermissions({ db, tail, clock });
  const memberships = createMemberships({ db, clock, permissions });
  const projects = createProjects({ db, clock, tail, keyring, permissions });
  const environments = createEnvironments({ db, clock, permissions, projects });
  return { db, clock, log, tail, keyring, permissions, memberships, projects, environments };
}

type Core = Awaited<ReturnType<typeof openCore>>;

/** Mail and the public URLs. */
interface Post {
  readonly mailer: Mailer | undefined;
  readonly publicUrl: string;
  readonly invitationsPerHour: number;
}

/** Users, identities, authentication and memberships. */
function openPeople(core: Core & Post) {
  const { permissions, memberships } = core;
  const control = createImpersonationGuard(core);
  const accessTokens = createAccessTokens(core);
  const sessions = createSessions(core);
  const auth: AuthServices = {
    accessTokens,
    sessions,
    passwordResets: createPasswordResets(core),
    tokenAuths: createTokenAuths({ ...core, control, tokens: accessTokens }),
    universalAuths: createUniversalAuths({ ...core, control }),
    universalLogin: createUniversalLogin({ ...core, tokens: accessTokens }),
  };
  const identities = {
    ofProject: createProjectIdentities(core),
    ofOrganization: createOrgIdentities(core),
    memberships: createIdentityMemberships(core),
  };
  const grants = createInvitationGrants({ permissions, memberships });
  const members = {
    ofOrganization: createOrgMembers(core),
    ofProject: createProjectMembers(core),
    invitations: createInvitations({ ...core, grants }),
    acceptances: createAcceptances({ ...core, grants, sessions }),
  };
  return {
    auth,
    authentication: createAuthentication({ ...core, accessTokens, sessions }),
    routes: [
      ...authRoutes(auth),
      ...organizationRoutes(createOrganizations(core)),
      ...roleRoutes(createRoles(core)),
      ...identityRoutes(identities),
      ...memberRoutes(members),
    ],
    jobs: [...authJobs(auth), ...memberJobs(members.invitations)],
  };
}

/** What belongs to the instance: licences, the audit log, its administration. */
async function openOffice({ config }: HouseOptions, core: Core, { accessTokens }: AuthServices) {
  // First of all: a row written before this month's partition exists would keep it from being made.
  const audit = createAudit({ ...core, retentionDays: config.auditRetentionDays });
  await audit.ensurePartitions();
  const licences = createLicences(core);
  await licences.ensureIssuer(config.databaseUrl ? undefined : config.dataDir);
  const admin = createAdmin({ ...core, accessTokens, licences });
  return {
    licences,
    routes: [...adminRoutes(admin), ...licenceRoutes(licences), ...auditRoutes(audit)],
    jobs: auditJobs(audit),
  };
}

/** With a longer lag, a node would serve what others have changed. */
const MOST_LAG_MS = 5000;

async function openRooms(options: HouseOptions, database: Database, tail: Tail) {
  const { config } = options;
  const stopping = { isDraining: false };
  const obstacles = (): string[] => [
    ...(stopping.isDraining ? ["it is being stopped"] : []),
    ...(tail.lagMs() > MOST_LAG_MS ? ["it cannot hear of other nodes' changes"] : []),
    ...database.obstacles(),
  ];
  const core = await openCore(options, database, tail);
  const post: Post = {
    mailer: config.smtpUrl ? createMailer(config.smtpUrl, config.mailFrom) : undefined,
    publicUrl: config.publicUrl ?? `http://localhost:${config.port}`,
    invitationsPerHour: config.invitationsPerHour,
  };
  const people = openPeople({ ...core, ...post });
  const office = await openOffice(options, core, people.auth);
  const { authentication } = people;
  const secrets = openSecretRooms({ ...core, roles: createRoles(core), auditReads: config.auditReads });
  const events = openEvents(options, { ...core, licences: office.licences, authentication });
  const revocationUrl = config.revocationUrl ?? post.publicUrl;
  const certificates = openCertificateRooms({ ...core, revocationUrl });
  const alerts = openAlertRoom(options, core, post);

  const routes: Route[] = [
    ...people.routes,
    ...office.routes,
    ...projectRoutes(core.projects, core.environments, createProjectAccess(core)),
    ...secretsRoutes(secrets),
    ...eventRoutes(events),
    ...certificates.routes,
    ...alerts.routes,
  ];
  routes.push(...statusRoutes(createStatus({ ...core, config, obstacles }), () => routes));
  const jobs = [
    ...people.jobs,
    ...office.jobs,
    ...secretsJobs(secrets),
    ...certificates.jobs,
    ...alerts.work.jobs,
    ...outboxJobs(database),
  ];
  const judge = createJudge(core);
  return {
    routes,
    jobs,
    judge,
    stopping,
    auth: people.auth,
    authentication,
    events,
    secrets,
    alertWork: alerts.work,
  };
}

function openEvents(
  { config, clock, log }: HouseOptions,
  { db, ...rooms }: Omit<Parameters<typeof createEvents>[0], "quota" | "clock" | "log"> & { db: Database },
): Events {
  const limits = { perProject: config.streamsPerProject, perActor: config.streamsPerIdentity };
  return createEvents({ clock, log, ...rooms, quota: createStreamQuota({ db, log, ...limits }) });
}

function openAlertRoom({ config, clock }: HouseOptions, needs: AlertRoomNeeds, { mailer, publicUrl }: Post) {
  const outbound = createOutbound({ allowed: config.allowPrivateTargets });
  const notifications = createNotifications({ outbound, clock, mailer, pagerDutyUrl: config.pagerDutyUrl });
  return openAlerts(needs, {
    notifications,
    publicUrl,
    onStop: () => mailer?.close(),
  });
}

export async function openHouse(options: HouseOptions): Promise<House> {
  const { config, clock, log } = options;
  const onError = (error: Error) => log.debug({ reason: error.message }, "a database connection ended");
  const database = openDatabase({
    connection: options.connection,
    connections: config.databaseConnections,
    clock,
    onError,
    onFault: (error) => log.error({ err: error }, "a listener to committed changes failed; this is a bug"),
  });
  try {
    await prepareDatabase(database, options);
    await telling(log, "the database to say what time it is", async () =>
      options.clockWatch?.compare(database),
    );
    const tail = createTail({ database, clock, log });
    const rooms = await telling(
      log,
      "the database to show keys and licences, and to make months of the audit log",
      () => openRooms(options, database, tail),
    );
    await telling(log, "changes to end that were under way when it began", () => tail.start());
    return assemble(options, { database, tail, ...rooms });
  } catch (error) {
    // The error of a failed start must not wait for connections that answer nothing.
    await Promise.race([database.close(), new Promise((resolve) => setTimeout(resolve, GOODBYE_MS))]);
    throw error;
  }
}

type OpenedHouse = Awaited<ReturnType<typeof openRooms>> & {
  readonly database: Database;
  readonly tail: Tail;
};

function assemble(
  { config, clock, clockWatch, log }: HouseOptions,
  {
    database,
    tail,
    routes,
    judge,
    stopping,
    auth,
    authentication,
    events,
    secrets,
    alertWork,
    ...opened
  }: OpenedHouse,
): House {
  const limits = limitsOf(config);
  const rateLimits = createRateLimits({ limits, db: database, clock, log });
  const refusals = createRefusals({ db: database, clock, log });
  const jobs = createJobs({ db: database, clock, log });
  jobs.add(...opened.jobs);
  const measured = [database, tail, jobs, events, alertWork, ...(clockWatch ? [clockWatch] : [])];
  const metrics = createMetrics(measured.flatMap(({ measures }) => measures));
  const app = createDoor({
    routes,
    authenticate: authentication.authenticate,
    confirm: authentication.confirm,
    judge,
    rateLimits,
    metrics,
    trustedProxies: config.trustedProxies,
    metricsToken: config.metricsToken,
    onRefused: (actor, endpoint, { projectId = null, message: reason }) =>
      refusals.note({ actor, endpoint: endpoint.id, projectId, reason }),
    log,
  });
  const flush = () =>
    flushUses(auth).catch((error: unknown) =>
      log.warn({ reason: reasonOf(error) }, "last uses were not written down this time; trying again"),
    );
  let flushing: NodeJS.Timeout | undefined;
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    const resting = jobs.stop();
    // First, because the door waits for every open answer.
    await events.stop();
    await closeDoor(app);
    // Before anything that may take its time: what was answered must be in the audit log whatever comes next.
    for (const trail of [secrets, refusals])
      await trail
        .flush()
        .catch((error: unknown) =>
          log.error({ reason: reasonOf(error) }, "readings and refusals were not written to the audit log"),
        );
    clearInterval(flushing);
    clockWatch?.stop();
    rateLimits.stop();
    await resting;
    await alertWork.stop();
    // One may be under way that began before the last use.
    await flush();
    await flush();
    await tail.stop();
    await database.close();
  };

  return {
    app,
    database,
    jobs,
    tail,
    routes,
    rateLimits,
    authentication,
    events,
    secrets,
    refusals,
    alertWork,
    startWork() {
      jobs.start();
      alertWork.start();
      rateLimits.start();
      clockWatch?.start(database);
      flushing = setInterval(() => void flush(), FLUSH_MS).unref();
    },
    flushUses: () => flushUses(auth),
    async listen() {
      await app.listen({ port: config.port, host: config.host });
      const address = app.server.address();
      return typeof address === "object" && address !== null ? address.port : config.port;
    },
    drain(milliseconds) {
      stopping.isDraining = true;
      sendElsewhere(app);
      jobs.rest();
      events.drain(milliseconds);
    },
    close: () => (closing ??= close()),
  };
}
