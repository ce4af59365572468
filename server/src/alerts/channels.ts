/**
 * Channels as they are sent, stored and shown. Settings are checked by the channel they
 * belong to, encrypted under the project's key, and decrypted only for sending or to be shown in part.
 */
import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import { newId } from "../platform/ids.ts";
import { invalid, type Issue } from "../platform/problem.ts";
import type { AnyChannel, Notifications } from "../notifications/index.ts";
import { channelInput, MOST_CHANNELS, type AlertView, type ChannelInput } from "./contract.ts";
import type { ChannelRow } from "./store.ts";
import { matchChannels, type GivenChannel, type Stored } from "./match-channels.ts";

interface ChannelNeeds {
  readonly keyring: Keyring;
  readonly clock: Clock;
  readonly notifications: Notifications;
}

interface Parsed {
  readonly channel: AnyChannel;
  readonly settings: unknown;
  readonly input: ChannelInput;
  readonly stored: ChannelRow | undefined;
  /** A stored channel with other settings than before. */
  readonly isChanged: boolean;
}

interface ChannelPlace {
  readonly alertId: string;
  readonly orgId: string;
  readonly projectId: string;
}

const placeOf = (id: string) => ({ table: "alert_channels", row: id, column: "settings" });

export type Channels = ReturnType<typeof createChannels>;

export function createChannels({ keyring, clock, notifications }: ChannelNeeds) {
  const open = async (row: ChannelRow): Promise<unknown> => {
    const dataKey = await keyring.dataKeyById(row.dataKeyId);
    return JSON.parse(dataKey.decrypt(row.settings, placeOf(row.id)).toString());
  };

  const channelFor = (input: ChannelInput, path: (string | number)[]): AnyChannel | Issue => {
    if (input.channelType !== undefined) {
      const named = notifications.get(input.channelType);
      return (
        named ?? {
          code: "custom",
          path: [...path, "channelType"],
          message: `must be one of ${notifications.types.join(", ")}`,
        }
      );
    }
    const fields = notifications.types.map((type) => notifications.get(type)?.recognisedBy).join(", ");
    return (
      notifications.infer(input.config) ?? {
        code: "custom",
        path: [...path, "config"],
        message: `must hold exactly one of ${fields}`,
      }
    );
  };

  const parseOne = (input: ChannelInput, index: number): GivenChannel | Issue[] => {
    const path = ["channels", index];
    const channel = channelFor(input, path);
    if ("path" in channel) return [channel];
    const parsed = channel.settings.safeParse(input.config);
    if (parsed.success) return { channel, settings: parsed.data, input, index };
    return parsed.error.issues.map((issue) => ({
      code: issue.code,
      path: [
        ...path,
        "config",
        ...issue.path.map((part) => (typeof part === "number" ? part : String(part))),
      ],
      message: issue.message,
    }));
  };

  /** The given settings over those of the stored channel they are for, if there is one. */
  const settle = (given: GivenChannel, match: Stored | undefined): Parsed | Issue[] => {
    const { channel, input, index } = given;
    const settings = match ? channel.merge(match.settings, given.settings, input.config) : given.settings;
    const objection = channel.objection(settings);
    if (objection) {
      const path = ["channels", index, "config", objection.field];
      return [{ code: "custom", path, message: objection.message }];
    }
    const isChanged = match !== undefined && JSON.stringify(match.settings) !== JSON.stringify(settings);
    return { channel, settings, input, stored: match?.row, isChanged };
  };

  /** What is wrong with the channels of a body that may have other errors, too. */
  const faultsOf = (body: unknown, ready: (input: ChannelInput) => ChannelInput): Issue[] => {
    const { channels } = (body ?? {}) as { readonly channels?: unknown };
    if (!Array.isArray(channels)) return [];
    return channels.slice(0, MOST_CHANNELS).flatMap((each: unknown, index) => {
      const input = channelInput.safeParse(each);
      const given = input.success ? parseOne(ready(input.data), index) : [];
      const found = Array.isArray(given) ? given : settle(given, undefined);
      return Array.isArray(found) ? found : [];
    });
  };

  return {
    open,
    faultsOfNew: (body: unknown) => faultsOf(body, (input) => input),
    /** For an update: whether there is a stored secret behind a mask is known only after the lookup. */
    faultsOfChange: (body: unknown) =>
      faultsOf(body, (input) => ({ ...input, config: withoutMasks(input.config) })),

    /** All channels of a request, or one 422 with everything that is wrong with any of them. */
    async parse(inputs: readonly ChannelInput[], stored: readonly ChannelRow[] = []): Promise<Parsed[]> {
      const given = inputs.map(parseOne);
      const known = await Promise.all(stored.map(async (row) => ({ row, settings: await open(row) })));
      const matches = matchChannels(
        given.filter((one): one is GivenChannel => !Array.isArray(one)),
        known,
      );
      const all = given.map((one) => (Array.isArray(one) ? one : settle(one, matches.get(one))));
      const issues = all.flatMap((one) => (Array.isArray(one) ? one : []));
      if (issues.length > 0) throw invalid(issues);
      return all.filter((one): one is Parsed => !Array.isArray(one));
    },

    async seal(
      parsed: readonly Parsed[],
      { alertId, orgId, projectId }: ChannelPlace,
    ): Promise<ChannelRow[]> {
      const dataKey = await keyring.dataKeyOf({ projectId });
      const now = clock.now();
      const taken = new Set<string>();
      return parsed.map(({ channel, settings, input, stored }, position) => {
        // Two entries that name the same stored channel: the second is a new one.
        const isKept = stored !== undefined && !taken.has(stored.id);
        const id = isKept ? stored.id : newId();
        taken.add(id);
        return {
          id,
          alertId,
          position,
          channelType: channel.type,
          enabled: input.enabled,
          destination: `${orgId}/${channel.destination(settings)}`,
          dataKeyId: dataKey.keyId,
          settings: dataKey.encrypt(JSON.stringify(settings), placeOf(id)),
          createdAt: isKept ? stored.createdAt : now,
          updatedAt: now,
        };
      });
    },

    show: (rows: readonly ChannelRow[]): Promise<AlertView["channels"]> =>
      Promise.all(
        rows.map(async (row) => {
          const config = notifications.get(row.channelType)?.show(await open(row)) ?? {};
          return {
            id: row.id,
            channelType: row.channelType,
            config,
            enabled: row.enabled,
            createdAt: row.createdAt,
            updatedAt: row.updatedAt,
          };
        }),
      ),
  };
}

/** A masked key sent back means "unchanged": here it passes for a key. */
function withoutMasks(config: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(config).map(([key, value]) => [
      key,
      typeof value === "string"
        ? value.replace(
            /^(https?:\/\/[^/]*\/)?(\*+)/,
            (_, origin: string = "", stars: string) => origin + "0".repeat(stars.length),
          )
        : value,
    ]),
  );
}
