/**
 * Who hears an event depends on its type, its environment and its folder, and on nothing else it says. So the answer
 * is kept for the next event of that kind, until somebody comes, goes or gets other rights: a project in which the
 * same folder changes again and again pays for the writes to its streams and for nothing more.
 */
import { SubscriptionIndex } from "./subscription-index.model.ts";
import type { EventGlobFilter, SecretEvent } from "./model.ts";

/** As much of a subscription as matters here. */
interface Recipient {
  readonly filters: readonly EventGlobFilter[];
  /** The last event that was considered for it: several of its filters may meet one event. */
  considered: SecretEvent | undefined;
  readonly stream: { readonly isOpen: boolean };
  readonly rights: { allows(event: SecretEvent): boolean };
}

/** What is kept, at most: sets of recipients, and places in them. */
const MAX_RECIPIENTS = 64;
const MAX_PLACES = 50_000;

export class RecipientCache<Subscription extends Recipient> {
  readonly #index = new SubscriptionIndex<Subscription>();
  readonly #known = new Map<string, readonly Subscription[]>();
  #places = 0;
  /** How often nothing was known. */
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
