/** What is written to streams at once. */
import { Frame } from "../platform/http/sse.ts";

/** The SSE messages of one event, and its recipients. */
export interface OutboundMessage<Subscription> {
  readonly frames: readonly Frame[];
  readonly recipients: readonly Subscription[];
}

export const wholeOf = (frames: readonly Frame[]): Frame => {
  const [only] = frames;
  return only && frames.length === 1 ? only : new Frame(frames);
};

/**
 * What a stream gets in one write. While there is one event at a time, that is its messages; when events come faster
 * than they can be written to all streams, it is several events in one piece, so that falling behind makes each event
 * cheaper instead of the queue longer. Streams that get the same events share the same bytes.
 */
class MessageBatch {
  readonly #frames: readonly Frame[];
  readonly #longer = new Map<readonly Frame[], MessageBatch>();
  #whole: Frame | undefined;

  constructor(frames: readonly Frame[]) {
    this.#frames = frames;
  }

  with(frames: readonly Frame[]): MessageBatch {
    let longer = this.#longer.get(frames);
    if (!longer) this.#longer.set(frames, (longer = new MessageBatch([...this.#frames, ...frames])));
    return longer;
  }

  get whole(): Frame {
    this.#whole ??= wholeOf(this.#frames);
    return this.#whole;
  }
}

/** For events with different recipients: who gets which of them. */
export function batchesOf<Subscription>(
  messages: readonly OutboundMessage<Subscription>[],
): Map<Subscription, MessageBatch> {
  const batches = new Map<Subscription, MessageBatch>();
  const nothingYet = new MessageBatch([]);
  for (const { frames, recipients } of messages) {
    for (const subscription of recipients)
      batches.set(subscription, (batches.get(subscription) ?? nothingYet).with(frames));
  }
  return batches;
}
