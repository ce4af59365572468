/** The recipients of an event, and its SSE messages. */
import { SubscriptionIndex } from "./subscription-index.model.ts";
import type { EventGlobFilter, SecretEvent } from "./model.ts";

/** As much of a subscription as matters here. */
interface Recipient {
  readonly filters: readonly EventGlobFilter[];
  /** The last event that was considered for it: several of its filters may match one event. */
  considered: SecretEvent | undefined;
  readonly stream: { readonly isOpen: boolean };
  readonly rights: { allows(event: SecretEvent): boolean };
}

/** What is kept, at most: sets of recipients, and places in them. */
const MAX_RECIPIENTS = 64;
const MAX_PLACES = 50_000;

/**
 * The recipients of an event depend on its type, its environment and its folder, and on nothing else. So the result
 * is cached for the next event of that kind, until a stream is opened, closed or gets other rights: a project in which the
 * same folder changes again and again pays for the writes to its streams and for nothing more.
 */
export class RecipientCache<Subscription extends Recipient> {
  readonly #index = new SubscriptionIndex<Subscription>();
  readonly #known = new Map<string, readonly Subscription[]>();
  #places = 0;
  /** How often nothing was cached. */
  searches = 0;

  enter(subscription: Subscription): void {
    for (const filter of subscription.filters) this.#index.add(subscription, filter);
    this.forget();
  }

  leave(subscription: Subscription): void {
    for (const filter of subscription.filters) this.#index.remove(subscription, filter);
    this.forget();
  }

  forget(): void {
    this.#known.clear();
    this.#places = 0;
  }

  of(event: SecretEvent): readonly Subscription[] {
    // A type and an environment have no blanks in them.
    const kind = `${event.type} ${event.environment} ${event.path}`;
    const known = this.#known.get(kind);
    if (known) return known;
    const found = this.#find(event);
    if (this.#known.size >= MAX_RECIPIENTS || this.#places + found.length > MAX_PLACES) this.forget();
    this.#known.set(kind, found);
    this.#places += found.length;
    return found;
  }

  #find(event: SecretEvent): readonly Subscription[] {
    this.searches += 1;
    const found: Subscription[] = [];
    for (const members of this.#index.matching(event)) {
      for (const subscription of members) {
        if (subscription.considered === event) continue;
        subscription.considered = event;
        if (subscription.stream.isOpen && subscription.rights.allows(event)) found.push(subscription);
      }
    }
    return found;
  }
}

export const MAX_LINE_BYTES = 32 * 1024;
const FIELD_BYTES = "data: ".length;

/** JSON does not escape these, and some parsers end a line at them. */
const LINE_ENDS = /[\u0085\u2028\u2029]/g;

const quote = (text: string): string =>
  JSON.stringify(text).replace(LINE_ENDS, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

type Said = Pick<SecretEvent, "type" | "environment" | "path" | "keys">;

/**
 * From an event to its JSON lines. Names and folders only: a value never reaches this room. A line
 * is kept under half of what existing clients accept (64 KiB), so a large change becomes several messages.
 */
export function messagesOf({ type, environment, path, keys }: Said): string[] {
  const head = `{"projectType":"secret-manager","data":{"eventType":"${type}","payload":`;
  const place = `{"environment":${quote(environment)},"secretPath":${quote(path)}`;
  if (keys === null) return [`${head}${place}}}}`];
  const messages: string[] = [];
  const emptyBytes = FIELD_BYTES + Buffer.byteLength(head) + "[]}}".length;
  let items: string[] = [];
  let bytes = emptyBytes;
  const close = () => {
    if (items.length > 0) messages.push(`${head}[${items.join(",")}]}}`);
    items = [];
    bytes = emptyBytes;
  };
  for (const key of keys) {
    const item = `${place},"secretKey":${quote(key)}}`;
    const itemBytes = Buffer.byteLength(item) + 1;
    if (bytes + itemBytes > MAX_LINE_BYTES) close();
    items.push(item);
    bytes += itemBytes;
  }
  close();
  return messages;
}
