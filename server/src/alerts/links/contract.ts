import { z } from "zod";
import { endpoint, uuid } from "../../platform/http/endpoint.ts";

const room = "alerts";

/** Where messages link to. The pages hold nothing but the ids they are asked with, so everyone may see them. */
export const openCertificateLink = endpoint({
  id: "openCertificateLink",
  method: "GET",
  path: "/projects/{projectId}/certificates/{certificateId}",
  room,
  summary: "A page for who follows a message's link to a certificate: how to look at it",
  access: "public",
  params: z.object({ projectId: uuid, certificateId: uuid }),
  reply: z.unknown(),
  replyType: "text/html",
});

export const openAlertLink = endpoint({
  id: "openAlertLink",
  method: "GET",
  path: "/projects/{projectId}/alerts/{alertId}",
  room,
  summary: "A page for who follows a message's link to an alert: how to look at it and at what it sent",
  access: "public",
  params: z.object({ projectId: uuid, alertId: uuid }),
  reply: z.unknown(),
  replyType: "text/html",
});
