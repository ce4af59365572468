/** What streams are handed at once. */
import { Frame } from "../../../platform/http/sse.ts";

/** The frames of one event, and who hears them. */
export interface Saying<Listener> {
  readonly frames: readonly Frame[];
  readonly circle: readonly Listener[];
}

export const wholeOf = (frames: readonly Frame[]): Frame => {
  const [only] = frames;
  return only && frames.length === 1 ? only : new Frame(frames);
};

/**
 * What a stream gets in one write. While there is one event at a time, that is its frames; when events come faster
 * than they can be written to everyone, it is several events in one piece, so that falling behind makes each event
 * cheaper instead of the line longer. Streams that hear the same events share the same bytes.
 */
class Parcel {
  readonly #frames: readonly Frame[];
  readonly #longer = new Map<readonly Frame[], Parcel>();
  #whole: Frame | undefined;

  constructor(frames: readonly Frame[]) {
    this.#frames = frames;
  }

  with(frames: readonly Frame[]): Parcel {
    let longer = this.#longer.get(frames);
    if (!longer) this.#longer.set(frames, (longer = new Parcel([...this.#frames, ...frames])));
    return longer;
  }

  get whole(): Frame {
    this.#whole ??= wholeOf(this.#frames);
    return this.#whole;
  }
}

/** For events that are heard by different circles: who gets which of them. */
export function parcelsOf<Listener>(sayings: readonly Saying<Listener>[]): Map<Listener, Parcel> {
  const parcels = new Map<Listener, Parcel>();
  const nothingYet = new Parcel([]);
  for (const { frames, circle } of sayings) {
    for (const listener of circle) parcels.set(listener, (parcels.get(listener) ?? nothingYet).with(frames));
  }
  return parcels;
}
