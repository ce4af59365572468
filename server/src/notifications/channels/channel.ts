/**
 * What all channels have in common. A channel is one file: the schema of its settings, what may be
 * shown of them, the destination of a delivery, and how to send. The registry lists the files; nothing else
 * knows which channels there are.
 */
import type { z } from "zod";
import type { Notice, DeliveryOutcome } from "../contract.ts";

export interface Channel<Settings> {
  readonly type: string;
  /** The field by which settings are recognised when their type is not named. */
  readonly recognisedBy: string;
  /** What is accepted, and what is kept of it. */
  readonly settings: z.ZodType<Settings>;
  /** Can say later that something it reported is over. */
  readonly resolves: boolean;
  /** Settings as they may be shown: no secret in them. */
  show(settings: Settings): Readonly<Record<string, unknown>>;
  /** New settings over stored ones: a secret that is absent stays, one that is null goes. */
  merge(stored: Settings, given: Settings, raw: Readonly<Record<string, unknown>>): Settings;
  /** Who receives: settings with the same address are for the same channel, though nobody named it. */
  address(settings: Settings): string;
  /** The destination; deliveries to one destination are sent a few at a time. */
  destination(settings: Settings): string;
  /** Why these settings cannot work here, or undefined: asked when they are stored. */
  objection(settings: Settings): { readonly field: string; readonly message: string } | undefined;
  send(settings: Settings, notice: Notice): Promise<DeliveryOutcome>;
}

/** Settings of a channel whose type is known only at run time. */
export type AnyChannel = Channel<unknown>;

/** Everything but the last four characters. */
export const masked = (text: string): string =>
  `${"*".repeat(Math.max(0, text.length - 4))}${text.slice(-4)}`;
