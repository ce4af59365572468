/** The deliveries of an alert, retry and test: the API side of deliveries. */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Db } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { badRequest, conflict, invalidField, notFound } from "../../platform/problem.ts";
import type { NoticeContent, Notifications, DeliveryOutcome } from "../../notifications/index.ts";
import type { Permissions } from "../../permissions/index.ts";
import type { Channels } from "../channels.ts";
import type { ChannelResult } from "../contract.ts";
import { alertViewUrl } from "../notices/model.ts";
import type { Scopes } from "../scopes.ts";
import type { Alerts } from "../service.ts";
import { findChannels } from "../store.ts";
import type { DeliveryView } from "./contract.ts";
import type { Deliveries } from "./service.ts";
import { findDelivery, listDeliveriesOf, recordTest, sendAgain, type ListedDelivery } from "./store.ts";

interface DeliveryHistoryNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly alerts: Alerts;
  readonly channels: Channels;
  readonly notifications: Notifications;
  readonly deliveries: Deliveries;
  readonly permissions: Permissions;
}

interface HistoryPlaces {
  readonly scopes: Scopes;
  readonly publicUrl: string;
}

const toView = (row: ListedDelivery): DeliveryView => ({
  id: row.id,
  channelId: row.channelId,
  channelType: row.channelType,
  eventType: row.kind,
  status: row.status,
  attempts: row.attempts,
  totalCertificates: row.total,
  certificateIds: row.certificateIds,
  error: row.lastError,
  nextAttemptAt: row.status === "pending" ? row.nextAt : null,
  lastAttemptAt: row.lastAttemptAt,
  deliveredAt: row.deliveredAt,
  createdAt: row.createdAt,
});

const errorOf = (outcome: DeliveryOutcome): string | undefined =>
  outcome.kind === "taken" ? undefined : outcome.reason;

/** A certificate that does not exist, so that a receiver can be tried out on the real shape. */
function testContent(alert: NoticeContent["alert"], now: Date, viewUrl: string): NoticeContent {
  const notAfter = new Date(now.getTime() + 30 * 86_400_000).toISOString();
  const certificate = {
    id: "00000000-0000-4000-8000-000000000000",
    serialNumber: "0123456789abcdef",
    commonName: "test.example.com",
    san: ["test.example.com"],
    profileName: "test",
    notBefore: now.toISOString(),
    notAfter,
    status: "active" as const,
    daysUntilExpiry: 30,
    viewUrl,
  };
  return { kind: "test", at: now.toISOString(), alert, certificates: [certificate], total: 1, viewUrl };
}

export type DeliveryHistory = ReturnType<typeof createDeliveryHistory>;

export function createDeliveryHistory(needs: DeliveryHistoryNeeds, { scopes, publicUrl }: HistoryPlaces) {
  const { db, clock, alerts, channels, notifications, permissions } = needs;

  return {
    async list(
      actor: MemberActor,
      alertId: string,
      query: { readonly status?: string | undefined; readonly limit: number; readonly offset: number },
    ) {
      await alerts.enter(actor, alertId, "read");
      const { deliveries, total } = await db.read((q) => listDeliveriesOf(q, alertId, query));
      return { deliveries: deliveries.map(toView), total };
    },

    async retry(actor: MemberActor, alertId: string, deliveryId: string): Promise<DeliveryView> {
      const alert = await alerts.enter(actor, alertId, "edit");
      const before = await db.read((q) => findDelivery(q, alertId, deliveryId));
      if (!before) throw notFound("The delivery", deliveryId);
      const isThere = (await db.read((q) => findChannels(q, [alertId]))).some(
        (channel) => channel.id === before.channelId,
      );
      if (!isThere) throw badRequest("The channel of this delivery was removed.");
      const now = clock.now();
      await db.write(async (tx) => {
        if (!(await sendAgain(tx, deliveryId, now)))
          throw conflict("This delivery is being sent at this moment: see what comes of it first.");
        tx.audit(actor, {
          event: "retry-alert-delivery",
          orgId: alert.orgId,
          projectId: alert.projectId,
          metadata: { alertId, deliveryId },
        });
      });
      needs.deliveries.wake();
      return toView({ ...before, status: "pending", nextAt: now });
    },

    async test(actor: MemberActor, alertId: string): Promise<{ success: boolean; results: ChannelResult[] }> {
      const alert = await alerts.enter(actor, alertId, "edit");
      // Also the disabled ones: people test a channel before they enable it.
      const rows = await db.read((q) => findChannels(q, [alertId]));
      const now = clock.now();
      const { id, name, alertBefore, applicationId } = alert;
      const content = testContent(
        { id, name, alertBefore, applicationId },
        now,
        alertViewUrl(publicUrl, alert),
      );
      const results = await Promise.all(
        rows.map(async (row) => {
          const deliveryId = newId();
          const settings = await channels.open(row);
          const outcome = (await notifications
            .get(row.channelType)
            ?.send(settings, { id: deliveryId, ...content })) ?? {
            kind: "refused" as const,
            reason: "unknown channel",
          };
          return {
            id: deliveryId,
            channelId: row.id,
            channelType: row.channelType,
            destination: row.destination,
            error: errorOf(outcome),
          };
        }),
      );
      await db.write(async (tx) => {
        recordTest(tx, { id: newId(), alertId, content, at: now }, results);
        tx.audit(actor, {
          event: "test-alert",
          orgId: alert.orgId,
          projectId: alert.projectId,
          metadata: { alertId, delivered: results.filter((one) => one.error === undefined).length },
        });
      });
      return {
        success: results.every((one) => one.error === undefined),
        results: results.map(({ channelId, channelType, error }) => ({
          channelId,
          channelType,
          success: error === undefined,
          ...(error === undefined ? {} : { error }),
        })),
      };
    },

    /** A webhook that is not part of an alert yet. */
    async testWebhook(
      actor: MemberActor,
      input: {
        url: string;
        signingSecret?: string | null | undefined;
        applicationId?: string | null | undefined;
        projectId?: string | undefined;
      },
    ) {
      const scope = await scopes.resolve(actor, input);
      await permissions.requireInProject(actor, scope.projectId, { action: "create", subject: "pki-alerts" });
      const channel = notifications.get("webhook");
      const settings = { url: input.url, signingSecret: input.signingSecret };
      const objection = channel?.objection(URL.canParse(input.url) ? settings : { ...settings, url: "" });
      if (!channel || objection)
        throw invalidField([objection?.field ?? "url"], objection?.message ?? "cannot be used");
      const now = clock.now();
      const alert = {
        id: "00000000-0000-4000-8000-000000000000",
        name: "Webhook test",
        alertBefore: "",
        applicationId: scope.applicationId,
      };
      const viewUrl = alertViewUrl(publicUrl, { id: alert.id, projectId: scope.projectId });
      const outcome = await channel.send(settings, { id: newId(), ...testContent(alert, now, viewUrl) });
      const error = errorOf(outcome);
      await db.write(async (tx) =>
        tx.audit(actor, {
          event: "test-alert-webhook",
          orgId: scope.orgId,
          projectId: scope.projectId,
          metadata: { success: error === undefined },
        }),
      );
      return { success: error === undefined, ...(error === undefined ? {} : { error }) };
    },
  };
}
