import { Raw, serve, servePublic, type Route } from "../platform/http/index.ts";
import * as calendar from "./calendar/contract.ts";
import type { Calendars } from "./calendar/service.ts";
import type { Channels } from "./channels/service.ts";
import * as contract from "./contract.ts";
import * as deliveries from "./deliveries/contract.ts";
import type { DeliveryHistory } from "./deliveries/history/service.ts";
import { filterFaults } from "./filters/model.ts";
import * as links from "./links/contract.ts";
import { alertPage, certificatePage, linkPageCsp } from "./links/model.ts";
import type { Matches } from "./matches/service.ts";
import type { Alerts } from "./service.ts";

export interface AlertServices {
  readonly alerts: Alerts;
  readonly matches: Matches;
  readonly history: DeliveryHistory;
  readonly calendars: Calendars;
  readonly channels: Channels;
  /** Where users reach this server. */
  readonly publicUrl: string;
}

export const alertRoutes = ({
  alerts,
  matches,
  history,
  calendars,
  channels,
  publicUrl,
}: AlertServices): Route[] => [
  serve(
    contract.createAlert,
    async ({ actor, body }) => ({ alert: await alerts.create(actor, body) }),
    (body) => [...filterFaults(body), ...channels.faultsOfNew(body)],
  ),
  serve(contract.listAlerts, ({ actor, query }) => alerts.list(actor, query)),
  serve(contract.getAlert, async ({ actor, params }) => ({ alert: await alerts.get(actor, params.alertId) })),
  serve(
    contract.updateAlert,
    async ({ actor, params, body }) => ({ alert: await alerts.update(actor, params.alertId, body) }),
    (body) => [...filterFaults(body), ...channels.faultsOfChange(body)],
  ),
  serve(contract.deleteAlert, async ({ actor, params }) => ({
    alert: await alerts.delete(actor, params.alertId),
  })),
  serve(contract.listAlertCertificates, ({ actor, params, query }) =>
    matches.ofAlert(actor, params.alertId, query),
  ),
  serve(contract.previewAlertCertificates, ({ actor, body }) => matches.preview(actor, body), filterFaults),
  serve(contract.testAlert, ({ actor, params }) => history.test(actor, params.alertId)),
  serve(contract.testWebhook, ({ actor, body }) => history.testWebhook(actor, body)),
  serve(deliveries.listDeliveries, ({ actor, params, query }) => history.list(actor, params.alertId, query)),
  serve(deliveries.retryDelivery, async ({ actor, params }) => ({
    delivery: await history.retry(actor, params.alertId, params.deliveryId),
  })),
  serve(calendar.createCalendar, async ({ actor, body }) => ({
    calendar: await calendars.create(actor, body.projectId),
  })),
  serve(calendar.listCalendars, async ({ actor, query }) => ({
    calendars: await calendars.list(actor, query.projectId),
  })),
  serve(calendar.deleteCalendar, async ({ actor, params }) => ({
    calendar: await calendars.delete(actor, params.calendarId),
  })),
  servePublic(links.openCertificateLink, async ({ params, reply }) => {
    reply.header("content-type", "text/html; charset=utf-8");
    reply.header("content-security-policy", linkPageCsp);
    return new Raw(certificatePage(publicUrl, params.certificateId));
  }),
  servePublic(links.openAlertLink, async ({ params, reply }) => {
    reply.header("content-type", "text/html; charset=utf-8");
    reply.header("content-security-policy", linkPageCsp);
    return new Raw(alertPage(publicUrl, params.alertId));
  }),
  servePublic(calendar.getCalendar, async ({ query, reply }) => {
    reply.header("content-type", "text/calendar; charset=utf-8");
    return new Raw(await calendars.read(query.key));
  }),
];
