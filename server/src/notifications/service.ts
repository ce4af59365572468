/** The registry of channels. A further one is one more file and one more line here. */
import type { Clock } from "../platform/clock.ts";
import type { Outbound } from "../platform/outbound.ts";
import type { AnyChannel, Channel } from "./channels/channel.ts";
import { emailChannel } from "./channels/email.ts";
import { pagerDutyChannel } from "./channels/pagerduty.ts";
import { slackChannel } from "./channels/slack.ts";
import type { Mailer } from "./channels/smtp.ts";
import { webhookChannel } from "./channels/webhook.ts";

interface NotificationNeeds {
  readonly outbound: Outbound;
  readonly clock: Clock;
  readonly mailer: Mailer | undefined;
  /** Where PagerDuty is; a test has its own. */
  readonly pagerDutyUrl?: string;
}

/** A channel only ever sees settings that its own schema made, so forgetting their type here loses nothing. */
const any = <Settings>(channel: Channel<Settings>): AnyChannel => channel as unknown as AnyChannel;

export class Notifications {
  readonly #channels: ReadonlyMap<string, AnyChannel>;

  constructor(channels: readonly AnyChannel[]) {
    this.#channels = new Map(channels.map((channel) => [channel.type, channel]));
  }

  get types(): readonly string[] {
    return [...this.#channels.keys()];
  }

  get(type: string): AnyChannel | undefined {
    return this.#channels.get(type);
  }

  /** The channel that these settings are for; undefined if none or more than one claims them. */
  infer(settings: Readonly<Record<string, unknown>>): AnyChannel | undefined {
    const claims = [...this.#channels.values()].filter((channel) => channel.recognisedBy in settings);
    return claims.length === 1 ? claims[0] : undefined;
  }
}

export function createNotifications(needs: NotificationNeeds): Notifications {
  const { outbound, clock, mailer, pagerDutyUrl } = needs;
  return new Notifications([
    any(emailChannel({ mailer })),
    any(webhookChannel({ outbound, clock })),
    any(slackChannel({ outbound })),
    any(pagerDutyChannel({ outbound, ...(pagerDutyUrl === undefined ? {} : { url: pagerDutyUrl }) })),
  ]);
}
