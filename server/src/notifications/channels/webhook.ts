/**
 * A webhook: one CloudEvents 1.0 JSON document per notice, signed in two ways when a secret is set.
 *
 * Standard Webhooks signs `id.timestamp.body` (seconds) with the bytes behind `whsec_`, in base64; a secret without
 * that prefix is used as its own bytes. Receivers built for this API family instead read `x-infisical-signature`,
 * which signs `timestamp.body` (milliseconds) with the secret's text, in hex.
 */
import { createHmac } from "node:crypto";
import { z } from "zod";
import type { Clock } from "../../platform/clock.ts";
import type { Outbound } from "../../platform/outbound.ts";
import type { Channel } from "./channel.ts";
import { postOutcome } from "./http-outcome.ts";
import type { Notice } from "../contract.ts";

interface WebhookSettings {
  readonly url: string;
  readonly signingSecret?: string | null | undefined;
}

/** The one address form all HTTP channels accept; platform/outbound.ts decides what it may point at. */
export const targetUrl = z.string().min(1).max(2048);

function cloudEvent(notice: Notice): Record<string, unknown> {
  return {
    specversion: "1.0",
    id: notice.id,
    type: `dev.keyward.certificate.${notice.kind}`,
    source: `/alerts/${notice.alert.id}`,
    time: notice.at,
    datacontenttype: "application/json",
    data: {
      alert: notice.alert,
      certificates: notice.certificates.map(({ viewUrl: _, ...certificate }) => certificate),
      metadata: { totalCertificates: notice.total, viewUrl: notice.viewUrl },
    },
  };
}

const standardKey = (secret: string): Buffer =>
  secret.startsWith("whsec_") ? Buffer.from(secret.slice("whsec_".length), "base64") : Buffer.from(secret);

function signatureHeaders(
  secret: string,
  message: { readonly id: string; readonly body: string; readonly millis: number },
): Record<string, string> {
  const { id, body, millis } = message;
  const seconds = Math.floor(millis / 1000);
  const standard = createHmac("sha256", standardKey(secret))
    .update(`${id}.${seconds}.${body}`)
    .digest("base64");
  const family = createHmac("sha256", secret).update(`${millis}.${body}`).digest("hex");
  return { "webhook-signature": `v1,${standard}`, "x-infisical-signature": `t=${millis},v1=${family}` };
}

const isStandardSecret = (secret: string): boolean =>
  /^whsec_[A-Za-z0-9+/]+={0,2}$/.test(secret) && standardKey(secret).length > 0;

export function webhookChannel(needs: {
  readonly outbound: Outbound;
  readonly clock: Clock;
}): Channel<WebhookSettings> {
  const { outbound, clock } = needs;
  return {
    type: "webhook",
    recognisedBy: "url",
    resolves: false,
    settings: z.object({ url: targetUrl, signingSecret: z.string().max(256).nullish() }),
    show: ({ url, signingSecret }) => ({ url, hasSigningSecret: Boolean(signingSecret) }),
    merge: (stored, given, raw) =>
      "signingSecret" in raw ? given : { ...given, signingSecret: stored.signingSecret },
    address: ({ url }) => url,
    destination: ({ url }) => new URL(url).host,
    objection({ url, signingSecret }) {
      const message = outbound.objection(url);
      if (message !== undefined) return { field: "url", message };
      if (signingSecret?.startsWith("whsec_") && !isStandardSecret(signingSecret)) {
        return { field: "signingSecret", message: "after whsec_ there must be base64" };
      }
      return undefined;
    },
    send({ url, signingSecret }, notice) {
      const body = JSON.stringify(cloudEvent(notice));
      const millis = clock.millis();
      const headers = {
        "content-type": "application/cloudevents+json; charset=utf-8",
        "webhook-id": notice.id,
        "webhook-timestamp": String(Math.floor(millis / 1000)),
        ...(signingSecret ? signatureHeaders(signingSecret, { id: notice.id, body, millis }) : {}),
      };
      return postOutcome(outbound, { url, headers, body });
    },
  };
}
