/**
 * PagerDuty, Events API v2. Each certificate is an incident of its own (`dedup_key` = alert and certificate), so that
 * renewing one resolves one. What a message does not show is a number in each of them: an incident for "the rest" could
 * never be resolved.
 */
import { z } from "zod";
import type { Outbound } from "../../platform/outbound.ts";
import type { DeliveryOutcome } from "../contract.ts";
import { masked, type Channel } from "./channel.ts";
import { postOutcome } from "./http-outcome.ts";
import type { Notice, NoticeCertificate } from "../contract.ts";
import { headline, oneLine, remainder } from "../model.ts";

interface PagerDutySettings {
  readonly integrationKey: string;
}

const PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue";

const SEVERITY: Partial<Record<Notice["kind"], string>> = {
  expiration: "warning",
  revocation: "warning",
  "renewal-failed": "error",
};

const dedupKey = (notice: Notice, certificateId: string): string =>
  `keyward:${notice.alert.id}:${certificateId}`;

interface PagerEvent {
  readonly routing_key: string;
  readonly event_action: "trigger" | "resolve";
  readonly dedup_key: string;
  readonly payload?: Readonly<Record<string, unknown>>;
  readonly client?: string;
  readonly client_url?: string;
  readonly links?: readonly { readonly href: string; readonly text: string }[];
}

function severityOf(notice: Notice, certificate: NoticeCertificate | undefined): string {
  const isUrgent =
    notice.kind === "expiration" && certificate !== undefined && certificate.daysUntilExpiry < 1;
  return isUrgent ? "critical" : (SEVERITY[notice.kind] ?? "info");
}

function trigger(
  notice: Notice,
  key: string,
  of: { readonly summary: string; readonly certificate?: NoticeCertificate },
): PagerEvent {
  const { viewUrl = notice.viewUrl, ...details } = of.certificate ?? {};
  return {
    routing_key: key,
    event_action: "trigger",
    dedup_key: dedupKey(notice, of.certificate?.id ?? notice.kind),
    payload: {
      summary: oneLine(of.summary, 1000),
      source: "keyward",
      severity: severityOf(notice, of.certificate),
      timestamp: notice.at,
      component: oneLine(notice.alert.name),
      class: `certificate ${notice.kind}`,
      custom_details: {
        alert: notice.alert,
        ...(of.certificate ? { certificate: details } : {}),
        totalCertificates: notice.total,
      },
    },
    client: "Keyward",
    client_url: viewUrl,
    links: [{ href: viewUrl, text: "Open in Keyward" }],
  };
}

function pagerEvents(notice: Notice, key: string): PagerEvent[] {
  if (notice.kind === "resolution") {
    return notice.certificates.map(({ id }) => ({
      routing_key: key,
      event_action: "resolve",
      dedup_key: dedupKey(notice, id),
    }));
  }
  if (notice.kind === "test") return [trigger(notice, key, { summary: headline(notice) })];
  const more = remainder(notice);
  const rest = more === 0 ? "" : `, and ${more.toLocaleString("en-US")} more that are not shown`;
  return notice.certificates.map((certificate) =>
    trigger(notice, key, {
      summary: `${headline({ ...notice, certificates: [certificate], total: 1 })}${rest} (${oneLine(notice.alert.name)})`,
      certificate,
    }),
  );
}

interface PagerDutyRefusal {
  readonly key: string;
  readonly reason: string;
}

function outcomeOf(sent: number, refusals: readonly PagerDutyRefusal[]): DeliveryOutcome {
  const [first] = refusals;
  if (!first) return { kind: "taken" };
  if (refusals.length === sent) return { kind: "refused", reason: first.reason };
  const names = refusals.map(({ key, reason }) => `${key}: ${reason}`).join("; ");
  return { kind: "taken", remark: `not taken: ${names}`.slice(0, 1000) };
}

export function pagerDutyChannel({
  outbound,
  url = PAGERDUTY_URL,
}: {
  readonly outbound: Outbound;
  readonly url?: string;
}): Channel<PagerDutySettings> {
  return {
    type: "pagerduty",
    recognisedBy: "integrationKey",
    resolves: true,
    settings: z.object({
      integrationKey: z
        .string()
        .regex(/^[0-9a-fA-F]{32}$/, "must be 32 hexadecimal characters")
        .or(z.string().regex(/^\*{28}[0-9a-fA-F]{4}$/)),
    }),
    show: ({ integrationKey }) => ({ integrationKey: masked(integrationKey) }),
    merge: (stored, given) => (given.integrationKey === masked(stored.integrationKey) ? stored : given),
    address: ({ integrationKey }) => integrationKey,
    destination: () => new URL(url).host,
    // The masked form passes the schema so that a client may send back what it was shown; alone it is no key.
    objection: ({ integrationKey }) =>
      integrationKey.startsWith("*")
        ? { field: "integrationKey", message: "must be 32 hexadecimal characters" }
        : undefined,
    async send({ integrationKey }, notice) {
      const events = pagerEvents(notice, integrationKey);
      const refusals: PagerDutyRefusal[] = [];
      for (const event of events) {
        const outcome = await postOutcome(outbound, {
          url,
          headers: { "content-type": "application/json" },
          body: JSON.stringify(event),
        });
        // Repeating those that went through before is harmless: the key makes PagerDuty merge them.
        if (outcome.kind === "later" || outcome.kind === "unready") return outcome;
        // One that it refuses must not block the others.
        if (outcome.kind === "refused") refusals.push({ key: event.dedup_key, reason: outcome.reason });
      }
      return outcomeOf(events.length, refusals);
    },
  };
}
