/**
 * Between what a caller says about channels, what is kept and what is shown. Settings are checked by the channel they
 * belong to, sealed under the project's key, and opened only to be sent with or to be shown in part.
 */
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import { newId } from "../../platform/ids.ts";
import { invalid, type Issue } from "../../platform/problem.ts";
import type { AnyChannel, Notifications } from "../../notifications/index.ts";
import type { AlertView, ChannelInput } from "../contract.ts";
import type { ChannelRow } from "../store.ts";

export interface ChannelNeeds {
  readonly keyring: Keyring;
  readonly clock: Clock;
  readonly notifications: Notifications;
}

interface Parsed {
  readonly channel: AnyChannel;
  readonly settings: unknown;
  readonly input: ChannelInput;
  readonly stored: ChannelRow | undefined;
}

export interface ChannelPlace {
  readonly alertId: string;
  readonly orgId: string;
  readonly projectId: string;
}

const placeOf = (id: string) => ({ table: "alert_channels", row: id, column: "settings" });

export type Channels = ReturnType<typeof createChannels>;

export function createChannels({ keyring, clock, notifications }: ChannelNeeds) {
  const open = async (row: ChannelRow): Promise<unknown> => {
    const vault = await keyring.vaultById(row.dataKeyId);
    return JSON.parse(vault.decrypt(row.settings, placeOf(row.id)).toString());
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

  const parseOne = async (
    input: ChannelInput,
    index: number,
    stored: ReadonlyMap<string, ChannelRow>,
  ): Promise<Parsed | Issue[]> => {
    const path = ["channels", index];
    const channel = channelFor(input, path);
    if ("path" in channel) return [channel];
    const parsed = channel.settings.safeParse(input.config);
    if (!parsed.success) {
      return parsed.error.issues.map((issue) => ({
        code: issue.code,
        path: [
          ...path,
          "config",
          ...issue.path.map((part) => (typeof part === "number" ? part : String(part))),
        ],
        message: issue.message,
      }));
    }
    const known = input.id === undefined ? undefined : stored.get(input.id);
    const before = known?.channelType === channel.type ? known : undefined;
    const settings = before ? channel.merge(await open(before), parsed.data, input.config) : parsed.data;
    const objection = channel.objection(settings);
    if (objection)
      return [{ code: "custom", path: [...path, "config", objection.field], message: objection.message }];
    return { channel, settings, input, stored: before };
  };

  return {
    open,

    /** All channels of a request, or one 422 with everything that is wrong with any of them. */
    async parse(inputs: readonly ChannelInput[], stored: readonly ChannelRow[] = []): Promise<Parsed[]> {
      const byId = new Map(stored.map((row) => [row.id, row]));
      const all = await Promise.all(inputs.map((input, index) => parseOne(input, index, byId)));
      const issues = all.flatMap((one) => (Array.isArray(one) ? one : []));
      if (issues.length > 0) throw invalid(issues);
      return all.filter((one): one is Parsed => !Array.isArray(one));
    },

    async seal(
      parsed: readonly Parsed[],
      { alertId, orgId, projectId }: ChannelPlace,
    ): Promise<ChannelRow[]> {
      const vault = await keyring.vaultOf({ projectId });
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
          dataKeyId: vault.keyId,
          settings: vault.encrypt(JSON.stringify(settings), placeOf(id)),
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
