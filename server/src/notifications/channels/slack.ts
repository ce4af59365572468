/** Slack's incoming webhooks: the address itself is the credential, so only its end is ever shown. */
import { z } from "zod";
import type { Outbound } from "../../platform/outbound.ts";
import { masked, type Channel } from "./channel.ts";
import { postOutcome } from "./http-outcome.ts";
import type { Notice, NoticeCertificate } from "../contract.ts";
import { headline, oneLine, remainder, shortTime } from "../model.ts";
import { targetUrl } from "./webhook.ts";

interface SlackSettings {
  readonly webhookUrl: string;
}

/** In Slack's text these three begin links, mentions and channel pings; an alert's name must not ping @channel. */
const plain = (text: string): string =>
  oneLine(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const codeSpan = (text: string): string => `\`${plain(text).replace(/`/g, "'")}\``;

function line(certificate: NoticeCertificate): string {
  const name = certificate.commonName === "" ? certificate.serialNumber : certificate.commonName;
  const end =
    certificate.revokedAt === undefined
      ? `until ${shortTime(certificate.notAfter)}`
      : `revoked ${shortTime(certificate.revokedAt)}`;
  const failure = certificate.failure === undefined ? "" : `: ${plain(certificate.failure)}`;
  return `• <${certificate.viewUrl}|${plain(name)}> ${codeSpan(certificate.serialNumber.slice(0, 40))} ${end}${failure}`;
}

/** A section takes 3,000 characters; lines are spread over as many sections as they need. */
function sections(lines: readonly string[]): { type: string; text: { type: string; text: string } }[] {
  const texts: string[] = [];
  for (const entry of lines) {
    const last = texts.at(-1);
    if (last !== undefined && last.length + entry.length < 2900)
      texts[texts.length - 1] = `${last}\n${entry}`;
    else texts.push(entry.slice(0, 2900));
  }
  return texts.map((text) => ({ type: "section", text: { type: "mrkdwn", text } }));
}

export function slackMessage(notice: Notice): Record<string, unknown> {
  const more = remainder(notice);
  const lines = [
    ...notice.certificates.map(line),
    ...(more > 0 ? [`…and ${more.toLocaleString("en-US")} more`] : []),
  ];
  return {
    text: plain(`${headline(notice)} (${notice.alert.name})`),
    blocks: [
      { type: "header", text: { type: "plain_text", text: oneLine(headline(notice), 150), emoji: false } },
      ...sections(lines),
      {
        type: "context",
        elements: [
          {
            type: "mrkdwn",
            text: `Alert ${codeSpan(notice.alert.name)} · <${notice.viewUrl}|open in Keyward>`,
          },
        ],
      },
    ],
  };
}

/** `https://hooks.slack.com/services/T0/B0/secret` → the path, which is the credential, but for its end. */
function maskedPath(text: string): string {
  const url = new URL(text);
  return `${url.origin}/${masked(url.pathname.slice(1))}`;
}

export function slackChannel({ outbound }: { readonly outbound: Outbound }): Channel<SlackSettings> {
  return {
    type: "slack",
    recognisedBy: "webhookUrl",
    resolves: false,
    settings: z.object({ webhookUrl: targetUrl }),
    show: ({ webhookUrl }) => ({ webhookUrl: maskedPath(webhookUrl) }),
    // A client that sends back what it was shown means "unchanged".
    merge: (stored, given) => (given.webhookUrl === maskedPath(stored.webhookUrl) ? stored : given),
    address: ({ webhookUrl }) => webhookUrl,
    destination: ({ webhookUrl }) => new URL(webhookUrl).host,
    objection({ webhookUrl }) {
      // What is shown of an address is no address; stored as one it would lose every message.
      const isMasked = URL.canParse(webhookUrl) && new URL(webhookUrl).pathname.includes("*");
      const message = isMasked
        ? "must be the whole address, not its masked form"
        : outbound.objection(webhookUrl);
      return message === undefined ? undefined : { field: "webhookUrl", message };
    },
    send: ({ webhookUrl }, notice) =>
      postOutcome(outbound, {
        url: webhookUrl,
        headers: { "content-type": "application/json" },
        body: JSON.stringify(slackMessage(notice)),
      }),
  };
}
