import { z } from "zod";
import { endpoint, moment, queryInteger, uuid } from "../../platform/http/endpoint.ts";

const room = "alerts";
const PATH = "/api/v1/cert-manager/alerts/{alertId}/deliveries";

const delivery = z.object({
  id: uuid,
  channelId: uuid,
  channelType: z.string(),
  eventType: z.string(),
  status: z.enum(["pending", "delivered", "failed"]),
  attempts: z.number(),
  totalCertificates: z.number(),
  certificateIds: z.array(uuid),
  error: z.string().nullable(),
  nextAttemptAt: moment.nullable(),
  lastAttemptAt: moment.nullable(),
  deliveredAt: moment.nullable(),
  createdAt: moment,
});
export type DeliveryView = z.input<typeof delivery>;

export const listDeliveries = endpoint({
  id: "listAlertDeliveries",
  method: "GET",
  path: PATH,
  room,
  summary: "What this alert sent, newest first: attempts, outcome, the receiver's words",
  params: z.object({ alertId: uuid }),
  query: z.object({
    status: z.enum(["pending", "delivered", "failed"]).optional(),
    limit: queryInteger(1, 100, 20),
    offset: queryInteger(0, 1_000_000_000, 0),
  }),
  reply: z.object({ deliveries: z.array(delivery), total: z.number() }),
});

export const retryDelivery = endpoint({
  id: "retryAlertDelivery",
  method: "POST",
  path: `${PATH}/{deliveryId}/retry`,
  room,
  summary: "Send a delivery again, now, under the same id",
  params: z.object({ alertId: uuid, deliveryId: uuid }),
  reply: z.object({ delivery }),
});
