/**
 * Which of an alert's channels an update means. Some clients send channels without their ids; if they were new ones,
 * what waits for the old ones would be lost. So: by the id; else the one with the same address; else, where there is no
 * doubt, the one that is left at the same destination, or of the same kind: that one got other settings.
 */
import type { AnyChannel } from "../notifications/index.ts";
import type { ChannelInput } from "./contract.ts";
import type { ChannelRow } from "./store.ts";

export interface GivenChannel {
  readonly channel: AnyChannel;
  readonly settings: unknown;
  readonly input: ChannelInput;
  readonly index: number;
}

export interface Stored {
  readonly row: ChannelRow;
  readonly settings: unknown;
}

type IsFor = (given: GivenChannel, stored: Stored) => boolean;

const isNamed: IsFor = ({ input }, { row }) => input.id === row.id;
/** Over the stored settings: a masked address that is sent back is the stored one. */
const isSameAddress: IsFor = ({ channel, settings, input }, stored) =>
  channel.address(channel.merge(stored.settings, settings, input.config)) ===
  channel.address(stored.settings);
/** Settings that cannot work may have no destination at all. */
const isSameDestination: IsFor = ({ channel, settings }, stored) =>
  channel.objection(settings) === undefined &&
  channel.destination(settings) === channel.destination(stored.settings);
const isSameKind: IsFor = () => true;

export function matchChannels(
  all: readonly GivenChannel[],
  known: readonly Stored[],
): ReadonlyMap<GivenChannel, Stored> {
  const matches = new Map<GivenChannel, Stored>();
  const free = new Set(known);
  const candidates = (given: GivenChannel, isFor: IsFor): Stored[] =>
    [...free].filter((one) => one.row.channelType === given.channel.type && isFor(given, one));
  const match = (given: GivenChannel, stored: Stored): void => {
    matches.set(given, stored);
    free.delete(stored);
  };
  for (const isFor of [isNamed, isSameAddress])
    for (const given of all) {
      const [first] = matches.has(given) ? [] : candidates(given, isFor);
      if (first) match(given, first);
    }
  for (const isFor of [isSameDestination, isSameKind]) {
    const open = all.filter((given) => !matches.has(given));
    const claims = new Map(open.map((given) => [given, candidates(given, isFor)]));
    for (const [given, [only, ...more]] of claims) {
      const isWanted = [...claims].some(
        ([other, wanted]) => other !== given && only && wanted.includes(only),
      );
      if (only && more.length === 0 && !isWanted) match(given, only);
    }
  }
  return matches;
}
