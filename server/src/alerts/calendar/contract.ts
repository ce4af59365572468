import { z } from "zod";
import { endpoint, moment, uuid } from "../../platform/http/endpoint.ts";
import { projectRef } from "../../projects/contract.ts";

const room = "alerts";
const PATH = "/api/v1/cert-manager/alerts/calendars";

const calendar = z.object({ id: uuid, projectId: uuid, createdAt: moment, lastUsedAt: moment.nullable() });
export type CalendarView = z.input<typeof calendar>;

export const createCalendar = endpoint({
  id: "createAlertCalendar",
  method: "POST",
  path: PATH,
  room,
  summary: "Make a link to a calendar of upcoming expiries, for calendar programs; it is shown only now",
  body: z.object({ projectId: projectRef.optional() }),
  reply: z.object({ calendar: calendar.extend({ url: z.string() }) }),
  example: { body: {} },
});

export const listCalendars = endpoint({
  id: "listAlertCalendars",
  method: "GET",
  path: PATH,
  room,
  summary: "The calendar links of a project, without their secret part",
  query: z.object({ projectId: projectRef.optional() }),
  reply: z.object({ calendars: z.array(calendar) }),
});

export const deleteCalendar = endpoint({
  id: "deleteAlertCalendar",
  method: "DELETE",
  path: `${PATH}/{calendarId}`,
  room,
  summary: "Revoke a calendar link",
  params: z.object({ calendarId: uuid }),
  reply: z.object({ calendar }),
});

export const getCalendar = endpoint({
  id: "getAlertCalendar",
  method: "GET",
  path: "/api/v1/cert-manager/alerts/calendar.ics",
  room,
  summary: "Upcoming expiries as iCalendar, by a link that was made for it",
  access: "public",
  rate: "read",
  query: z.object({ key: z.string().max(200) }),
  reply: z.unknown(),
  replyType: "text/calendar",
});
