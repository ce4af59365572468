/** Alerts: what to watch for and whom to notify. Scanning and sending are done by the sub-rooms; this is the API side. */
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db, Query, Tx } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { Pace } from "../platform/pace.ts";
import { badRequest, conflict, invalidField, notFound, Problem } from "../platform/problem.ts";
import { orgOf, type Permissions } from "../permissions/index.ts";
import type { Channels } from "./channels.ts";
import type {
  AlertChange,
  AlertQuery,
  AlertView,
  AlertEventType,
  ListedAlert,
  NewAlert,
} from "./contract.ts";
import { retryNowDeliveries, reassignDeliveries } from "./deliveries/store.ts";
import { includesAuthorities } from "./filters/model.ts";
import { DEFAULT_BEFORE, type AlertRow } from "./model.ts";
import { dropWaitingExpiries, forgetHistoryOf } from "./notices/store.ts";
import type { Scopes, ScopeWish } from "./scopes.ts";
import {
  countAlerts,
  deleteAlertRow,
  findAlert,
  findChannels,
  findLastRuns,
  insertAlert,
  keepOnlyChannels,
  listAlertProjects,
  lockAlert,
  putChannel,
  searchAlerts,
  updateAlertRow,
  type ChannelRow,
} from "./store.ts";

interface AlertNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly scopes: Scopes;
  readonly channels: Channels;
}

const SUBJECT = "pki-alerts";
const CHANGE_ATTEMPTS = 5;
const FORGOTTEN_AT_ONCE = 2000;
const NO_AUTHORITIES =
  "include_cas cannot be true with an applicationId: authorities belong to no application";

/** Somebody else changed an alert's channels between our read and our write. */
class ChannelsMoved extends Error {}

const areSame = (before: readonly ChannelRow[], now: readonly ChannelRow[]): boolean =>
  before.length === now.length &&
  before.every((row, index) => {
    const other = now[index];
    return other !== undefined && row.id === other.id && row.settings.equals(other.settings);
  });

const beforeOf = (type: AlertEventType, given: string | null | undefined): string =>
  type === "expiration" ? given || DEFAULT_BEFORE : "";

function toView(row: AlertRow, channels: AlertView["channels"]): AlertView {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    eventType: row.eventType,
    alertBefore: row.alertBefore,
    filters: row.filters,
    enabled: row.enabled,
    projectId: row.projectId,
    ...(row.applicationId === null ? {} : { applicationId: row.applicationId }),
    notificationConfig: {
      enableDailyNotification: row.isDaily,
      ...(row.digest === null ? {} : { digest: row.digest }),
    },
    channels,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  };
}

const NO_CONFIG = { enableDailyNotification: false, digest: null };

/** The alert after a change: what is not mentioned stays. */
function changed(before: AlertRow, change: AlertChange): AlertRow {
  const eventType = change.eventType ?? before.eventType;
  // Null is "none of it".
  const config = change.notificationConfig === null ? NO_CONFIG : change.notificationConfig;
  return {
    ...before,
    eventType,
    name: change.name ?? before.name,
    description: change.description === undefined ? before.description : (change.description ?? ""),
    alertBefore: beforeOf(eventType, change.alertBefore ?? before.alertBefore),
    filters: change.filters ?? before.filters,
    enabled: change.enabled ?? before.enabled,
    isDaily: config?.enableDailyNotification ?? before.isDaily,
    digest: config?.digest === undefined ? before.digest : config.digest,
  };
}

interface AlertEdit {
  readonly before: AlertRow;
  readonly alert: AlertRow;
  readonly current: readonly ChannelRow[];
  readonly rows: readonly ChannelRow[];
  /** The ids of channels that were there before and get other settings. */
  readonly isChanged: ReadonlySet<string>;
}

function writeChange(tx: Tx, { before, alert, current, rows, isChanged }: AlertEdit): void {
  const at = alert.updatedAt;
  updateAlertRow(tx, alert);
  if (rows !== current) {
    keepOnlyChannels(
      tx,
      alert.id,
      rows.map((channel) => channel.id),
    );
    for (const channel of rows) putChannel(tx, channel);
    reassignDeliveries(tx, alert.id, rows, at);
  }
  const wasSpeaking = new Map(current.map((row) => [row.id, before.enabled && row.enabled]));
  for (const row of rows) {
    const speaksAnew = alert.enabled && row.enabled && wasSpeaking.get(row.id) === false;
    const hasChanged = isChanged.has(row.id);
    if (speaksAnew || hasChanged) retryNowDeliveries(tx, { ...row, isChanged: hasChanged }, at);
  }
  const isAboutOthers =
    before.alertBefore !== alert.alertBefore ||
    JSON.stringify(before.filters) !== JSON.stringify(alert.filters);
  if (isAboutOthers) dropWaitingExpiries(tx, alert.id);
}

/** Every certificate of a project is matched with each of them, and all are read to find what is due. */
const MOST = { inProject: 20_000, inOrganization: 20_000, largeInProject: 500 } as const;
/** Of the filters as JSON; longer ones are large. */
const LARGE = 4096;

async function refuseTooMany(q: Query, { orgId, projectId, filters }: AlertRow): Promise<void> {
  const isLarge = Buffer.byteLength(JSON.stringify(filters)) > LARGE;
  const counts = await countAlerts(q, { orgId, projectId, isLarge, most: MOST.inOrganization });
  const full = (most: number, what: string) =>
    badRequest(`There are ${most} ${what} already, and no more are possible.`);
  if (counts.inProject >= MOST.inProject) throw full(MOST.inProject, "alerts in this project");
  if (counts.inOrganization >= MOST.inOrganization)
    throw full(MOST.inOrganization, "alerts in this organisation");
  if (counts.largeInProject >= MOST.largeInProject)
    throw full(MOST.largeInProject, `alerts with filters of more than ${LARGE} characters in this project`);
}

export type Alerts = ReturnType<typeof createAlerts>;

export function createAlerts({ db, clock, permissions, scopes, channels }: AlertNeeds) {
  /** An alert of the caller's organisation, if the caller may do this to it. */
  const enter = async (actor: MemberActor, alertId: string, action: string): Promise<AlertRow> => {
    const row = await db.read((q) => findAlert(q, orgOf(actor), alertId));
    if (!row) throw notFound("The alert", alertId);
    await permissions.requireInProject(actor, row.projectId, { action, subject: SUBJECT });
    return row;
  };

  const listed = async (rows: readonly AlertRow[]): Promise<ListedAlert[]> => {
    const ids = rows.map((row) => row.id);
    if (ids.length === 0) return [];
    const [all, runs] = await Promise.all([
      db.read((q) => findChannels(q, ids)),
      db.read((q) => findLastRuns(q, ids)),
    ]);
    const runOf = new Map(
      runs.map(({ alertId, timestamp, error, isFailed }) => [
        alertId,
        { timestamp, status: isFailed ? ("failed" as const) : ("success" as const), error },
      ]),
    );
    const channelsOf = new Map<string, ChannelRow[]>(ids.map((id) => [id, []]));
    for (const channel of all) channelsOf.get(channel.alertId)?.push(channel);
    const pace = new Pace();
    const views: ListedAlert[] = [];
    for (const row of rows) {
      const shown = await channels.show(channelsOf.get(row.id) ?? []);
      views.push({ ...toView(row, shown), lastRun: runOf.get(row.id) ?? null });
      if (pace.isDue()) await pace.rest();
    }
    return views;
  };

  /** Projects whose alerts the caller may see; refused if there are some and none of them is for the caller's eyes. */
  const readableProjects = async (actor: MemberActor): Promise<string[]> => {
    const all = await db.read((q) => listAlertProjects(q, orgOf(actor)));
    const readable: string[] = [];
    for (const { projectId } of all)
      if ((await permissions.inProject(actor, projectId)).can("read", SUBJECT)) readable.push(projectId);
    const [first] = all;
    if (first && readable.length === 0)
      await permissions.requireInProject(actor, first.projectId, { action: "read", subject: SUBJECT });
    return readable;
  };

  const searchedProjects = async (actor: MemberActor, query: AlertQuery): Promise<string[]> => {
    if (query.projectId === undefined && query.applicationId === undefined) return readableProjects(actor);
    const { projectId } = await scopes.resolve(actor, query);
    await permissions.requireInProject(actor, projectId, { action: "read", subject: SUBJECT });
    return [projectId];
  };

  /** Before anything is read: may the caller do this in the request's project, or create that project? */
  const judgeIn = async (actor: MemberActor, wish: ScopeWish, action: string): Promise<void> => {
    const isNamed = wish.projectId !== undefined || Boolean(wish.applicationId);
    const scope = await scopes.resolve(actor, wish).catch((error: unknown) => {
      if (isNamed || !(error instanceof Problem) || error.status !== 404) throw error;
      return undefined;
    });
    if (scope) await permissions.requireInProject(actor, scope.projectId, { action, subject: SUBJECT });
    else await permissions.requireInOrganization(actor, { action: "create", subject: "workspace" });
  };

  return {
    enter,
    judgeIn,

    async create(actor: MemberActor, input: NewAlert): Promise<AlertView> {
      if (input.projectId !== undefined || !input.applicationId)
        await judgeIn(actor, { projectId: input.projectId }, "create");
      const parsed = await channels.parse(input.channels);
      const scope = await scopes.resolveOrCreate(actor, input);
      await permissions.requireInProject(actor, scope.projectId, { action: "create", subject: SUBJECT });
      const at = clock.now();
      const row: AlertRow = {
        ...scope,
        id: newId(),
        name: input.name,
        description: input.description ?? "",
        eventType: input.eventType,
        alertBefore: beforeOf(input.eventType, input.alertBefore),
        filters: input.filters,
        enabled: input.enabled,
        isDaily: input.notificationConfig?.enableDailyNotification ?? false,
        digest: input.notificationConfig?.digest ?? null,
        lookedAt: null,
        gatheredAt: at,
        createdAt: at,
        updatedAt: at,
      };
      const [rows] = await Promise.all([
        channels.seal(parsed, { ...scope, alertId: row.id }),
        db.read((q) => refuseTooMany(q, row)),
      ]);
      await db.write(async (tx) => {
        insertAlert(tx, row);
        for (const channel of rows) putChannel(tx, channel);
        tx.audit(actor, {
          event: "create-alert",
          orgId: row.orgId,
          projectId: row.projectId,
          metadata: { alertId: row.id, name: row.name, eventType: row.eventType },
        });
      });
      return toView(row, await channels.show(rows));
    },

    async list(actor: MemberActor, query: AlertQuery): Promise<{ alerts: ListedAlert[]; total: number }> {
      const projectIds = await searchedProjects(actor, query);
      if (projectIds.length === 0) return { alerts: [], total: 0 };
      const { applicationId, search, eventType, enabled, limit, offset } = query;
      const found = await db.read(
        (q) => searchAlerts(q, { projectIds, applicationId, search, eventType, enabled, limit, offset }),
        { tenant: orgOf(actor) },
      );
      return { alerts: await listed(found.alerts), total: found.total };
    },

    async get(actor: MemberActor, alertId: string): Promise<ListedAlert> {
      const [view] = await listed([await enter(actor, alertId, "read")]);
      if (!view) throw notFound("The alert", alertId);
      return view;
    },

    async update(actor: MemberActor, alertId: string, change: AlertChange): Promise<AlertView> {
      const { orgId, projectId } = await enter(actor, alertId, "edit");
      for (let attempt = 1; attempt <= CHANGE_ATTEMPTS; attempt += 1) {
        const stored = await db.read((q) => findChannels(q, [alertId]));
        const parsed = change.channels && (await channels.parse(change.channels, stored));
        const given = parsed && (await channels.seal(parsed, { orgId, projectId, alertId }));
        const isChanged = new Set(
          parsed?.flatMap((one) => (one.isChanged && one.stored ? [one.stored.id] : [])),
        );
        try {
          const { alert, rows } = await db.write(async (tx) => {
            const [before, current] = await Promise.all([
              lockAlert(tx, alertId),
              findChannels(tx, [alertId]),
            ]);
            if (!before) throw notFound("The alert", alertId);
            if (given && !areSame(stored, current)) throw new ChannelsMoved();
            const alert = { ...changed(before, change), updatedAt: clock.now() };
            const rows = given ?? current;
            if (change.filters && alert.applicationId !== null && includesAuthorities(alert.filters))
              throw invalidField(["filters"], NO_AUTHORITIES);
            writeChange(tx, { before, alert, current, rows, isChanged });
            tx.audit(actor, {
              event: "update-alert",
              orgId,
              projectId,
              metadata: { alertId, changed: Object.keys(change) },
            });
            return { alert, rows };
          });
          return toView(alert, await channels.show(rows));
        } catch (error) {
          if (!(error instanceof ChannelsMoved)) throw error;
        }
      }
      throw conflict("The channels of this alert are being changed by others at this moment. Try again.");
    },

    async delete(actor: MemberActor, alertId: string): Promise<AlertView> {
      const row = await enter(actor, alertId, "delete");
      const view = toView(row, await channels.show(await db.read((q) => findChannels(q, [alertId]))));
      // What was sent in months is more than one statement can take along with its alert.
      for (let gone = FORGOTTEN_AT_ONCE; gone === FORGOTTEN_AT_ONCE;)
        gone = await db.write((tx) => forgetHistoryOf(tx, alertId, FORGOTTEN_AT_ONCE), { audited: false });
      await db.write(async (tx) => {
        if (!(await deleteAlertRow(tx, alertId))) throw notFound("The alert", alertId);
        tx.audit(actor, {
          event: "delete-alert",
          orgId: row.orgId,
          projectId: row.projectId,
          metadata: { alertId, name: row.name },
        });
      });
      return view;
    },
  };
}
