import {
  Raw,
  serve,
  servePublic,
  type Route,
  idIn,
  inProject,
  toThing,
  type Finder,
} from "../platform/http/index.ts";
import * as calendar from "./calendar/contract.ts";
import type { Calendars } from "./calendar/service.ts";
import type { Channels } from "./channels.ts";
import * as contract from "./contract.ts";
import * as deliveries from "./deliveries/contract.ts";
import type { DeliveryHistory } from "./deliveries/history.ts";
import { filterFaults } from "./filters/model.ts";
import * as links from "./links/contract.ts";
import { alertPage, certificatePage, linkPageCsp } from "./links/model.ts";
import type { Matches } from "./matches.ts";
import type { Alerts } from "./service.ts";

interface AlertServices {
  readonly alerts: Alerts;
  readonly matches: Matches;
  readonly history: DeliveryHistory;
  readonly calendars: Calendars;
  readonly channels: Channels;
  /** Where users reach this server. */
  readonly publicUrl: string;
}

/** Where a request names no project, the one that it means. */
const judgeIn =
  (alerts: Alerts, action: string): Finder =>
  (actor, { body }) =>
    alerts.judgeIn(actor, { applicationId: idIn(body["applicationId"]) }, action);

export const alertRoutes = (services: AlertServices): Route[] => [
  ...ownRoutes(services),
  ...deliveryRoutes(services),
  ...calendarRoutes(services),
];

const ownRoutes = ({ alerts, matches, history, channels }: AlertServices): Route[] => [
  serve(
    contract.createAlert,
    async ({ actor, body }) => ({ alert: await alerts.create(actor, body) }),
    inProject("create", "pki-alerts", judgeIn(alerts, "create")),
    (body) => [...filterFaults(body), ...channels.faultsOfNew(body)],
  ),
  serve(contract.listAlerts, ({ actor, query }) => alerts.list(actor, query)),
  serve(contract.getAlert, async ({ actor, params }) => ({
    alert: await alerts.get(actor, params.alertId),
  })),
  serve(
    contract.updateAlert,
    async ({ actor, params, body }) => ({ alert: await alerts.update(actor, params.alertId, body) }),
    toThing((actor, { params }) => alerts.enter(actor, params["alertId"] ?? "", "edit")),
    (body) => [...filterFaults(body), ...channels.faultsOfChange(body)],
  ),
  serve(
    contract.deleteAlert,
    async ({ actor, params }) => ({
      alert: await alerts.delete(actor, params.alertId),
    }),
    toThing((actor, { params }) => alerts.enter(actor, params["alertId"] ?? "", "delete")),
  ),
  serve(contract.listAlertCertificates, ({ actor, params, query }) =>
    matches.ofAlert(actor, params.alertId, query),
  ),
  serve(
    contract.previewAlertCertificates,
    ({ actor, body }) => matches.preview(actor, body),
    inProject("read", "pki-alerts", judgeIn(alerts, "read")),
    filterFaults,
  ),
  serve(
    contract.testAlert,
    ({ actor, params }) => history.test(actor, params.alertId),
    toThing((actor, { params }) => alerts.enter(actor, params["alertId"] ?? "", "edit")),
  ),
  serve(
    contract.testWebhook,
    ({ actor, body }) => history.testWebhook(actor, body),
    inProject("create", "pki-alerts", judgeIn(alerts, "create")),
  ),
];

const deliveryRoutes = ({ alerts, history }: AlertServices): Route[] => [
  serve(deliveries.listDeliveries, ({ actor, params, query }) => history.list(actor, params.alertId, query)),
  serve(
    deliveries.retryDelivery,
    async ({ actor, params }) => ({
      delivery: await history.retry(actor, params.alertId, params.deliveryId),
    }),
    toThing((actor, { params }) => alerts.enter(actor, params["alertId"] ?? "", "edit")),
  ),
];

const calendarRoutes = ({ alerts, calendars, publicUrl }: AlertServices): Route[] => [
  serve(
    calendar.createCalendar,
    async ({ actor, body }) => ({
      calendar: await calendars.create(actor, body.projectId),
    }),
    inProject("create", "pki-alerts", judgeIn(alerts, "create")),
  ),
  serve(calendar.listCalendars, async ({ actor, query }) => ({
    calendars: await calendars.list(actor, query.projectId),
  })),
  serve(
    calendar.deleteCalendar,
    async ({ actor, params }) => ({
      calendar: await calendars.delete(actor, params.calendarId),
    }),
    toThing((actor, { params }) => calendars.find(actor, params["calendarId"] ?? "")),
  ),
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
