/**
 * A calendar of expiries for programs that can only fetch an address. The address holds a key: the link's id and a
 * MAC over it, so that none can be guessed and none needs to be stored; deleting the row revokes it.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { deriveKey, type Keyring } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { isUuid, newId } from "../../platform/ids.ts";
import { badRequest, notFound } from "../../platform/problem.ts";
import { deny, orgOf, type Permissions } from "../../permissions/index.ts";
import type { Scopes } from "../scopes.ts";
import { getCalendar, type CalendarView } from "./contract.ts";
import { toCalendar } from "./model.ts";
import {
  findCalendar,
  findCalendarById,
  insertCalendar,
  listCalendarsOf,
  markCalendarUsed,
  readUpcoming,
  removeCalendar,
} from "./store.ts";
import { seesAll, sightOf } from "../../inventory/index.ts";

interface CalendarNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly scopes: Scopes;
  readonly publicUrl: string;
}

const SHOWN_EXPIRIES = 1000;
const MOST_CALENDARS = 100;
/** The time of the last use is stored at most this often. */
const USE_STEP_MS = 3_600_000;

export type Calendars = ReturnType<typeof createCalendars>;

export function createCalendars(needs: CalendarNeeds) {
  const { db, clock, permissions, scopes, publicUrl } = needs;
  const secret = deriveKey(needs.keyring.instanceKey("credential-lookup"), "alert-calendar");
  const macOf = (id: string): Buffer => createHmac("sha256", secret).update(id).digest();
  const keyOf = (id: string): string => `${id}.${macOf(id).toString("base64url")}`;

  const idBehind = (key: string): string | undefined => {
    const [id = "", mac = ""] = key.split(".");
    const given = Buffer.from(mac, "base64url");
    const isOurs =
      isUuid(id) && given.length === 32 && timingSafeEqual(given, macOf(id)) && key === keyOf(id);
    return isOurs ? id : undefined;
  };

  const enter = async (actor: MemberActor, projectId: string | undefined, action: string) => {
    const project = await scopes.resolve(actor, { projectId });
    await permissions.requireInProject(actor, project.projectId, { action, subject: "pki-alerts" });
    return project;
  };

  /** A link that the caller may revoke. */
  const find = async (actor: MemberActor, id: string) => {
    const row = await db.read((q) => findCalendar(q, orgOf(actor), id));
    if (!row) throw notFound("The calendar link", id);
    await permissions.requireInProject(actor, row.projectId, { action: "delete", subject: "pki-alerts" });
    return row;
  };

  return {
    async create(
      actor: MemberActor,
      projectRef: string | undefined,
    ): Promise<CalendarView & { url: string }> {
      const { projectId, orgId } = await enter(actor, projectRef, "create");
      // The link shows all certificates, so its creator must be allowed to see all of them.
      const ability = await permissions.inProject(actor, projectId);
      if (!seesAll(sightOf(ability)))
        deny(ability, { action: "read", subject: "certificates", attributes: {} });
      const row = { id: newId(), projectId, at: clock.now() };
      await db.write(async (tx) => {
        if ((await listCalendarsOf(tx, projectId)).length >= MOST_CALENDARS)
          throw badRequest(`There are ${MOST_CALENDARS} calendar links already; delete one first.`);
        insertCalendar(tx, row);
        tx.audit(actor, {
          event: "create-alert-calendar",
          orgId,
          projectId,
          metadata: { calendarId: row.id },
        });
      });
      return {
        id: row.id,
        projectId,
        createdAt: row.at,
        lastUsedAt: null,
        url: `${publicUrl}${getCalendar.path}?key=${keyOf(row.id)}`,
      };
    },

    async list(actor: MemberActor, projectRef: string | undefined): Promise<CalendarView[]> {
      const { projectId } = await enter(actor, projectRef, "read");
      return db.read((q) => listCalendarsOf(q, projectId));
    },

    find,

    async delete(actor: MemberActor, id: string): Promise<CalendarView> {
      const orgId = orgOf(actor);
      const row = await find(actor, id);
      await db.write(async (tx) => {
        if (!(await removeCalendar(tx, id))) throw notFound("The calendar link", id);
        tx.audit(actor, {
          event: "delete-alert-calendar",
          orgId,
          projectId: row.projectId,
          metadata: { calendarId: id },
        });
      });
      return row;
    },

    /** Anyone with the link; a wrong and a revoked link are answered alike: not found. */
    async read(key: string): Promise<string> {
      const id = idBehind(key);
      const row = id === undefined ? undefined : await db.read((q) => findCalendarById(q, id));
      if (!row) throw notFound("This calendar");
      const now = clock.now();
      if (row.lastUsedAt === null || now.getTime() - row.lastUsedAt.getTime() > USE_STEP_MS) {
        await db.write(async (tx) => markCalendarUsed(tx, row.id, now), { audited: false });
      }
      const certificates = await db.read((q) => readUpcoming(q, row.projectId, now, SHOWN_EXPIRIES), {
        tenant: row.projectId,
      });
      return toCalendar(certificates, {
        now,
        viewUrl: (certificateId) => `${publicUrl}/projects/${row.projectId}/certificates/${certificateId}`,
      });
    },
  };
}
