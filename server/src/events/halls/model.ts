/**
 * Who hears an event depends on its type, its environment and its folder, and on nothing else it says. So the answer
 * is kept for the next event of that kind, until somebody comes, goes or gets other rights: a project in which the
 * same folder changes again and again pays for the writes to its streams and for nothing more.
 */
import { Audience } from "../audience/model.ts";
import type { Filter, SecretEvent } from "../model.ts";

/** As much of a listener as matters here. */
interface Hearer {
  readonly filters: readonly Filter[];
  /** The last event that was considered for it: several of its filters may meet one event. */
  considered: SecretEvent | undefined;
  readonly stream: { readonly isOpen: boolean };
  readonly holder: { allows(event: SecretEvent): boolean };
}

/** What is kept, at most: circles, and places in them. */
const MAX_CIRCLES = 64;
const MAX_PLACES = 50_000;

export class Circles<Listener extends Hearer> {
  readonly #audience = new Audience<Listener>();
  readonly #known = new Map<string, readonly Listener[]>();
  #places = 0;
  /** How often nothing was known. */
  searches = 0;

  enter(listener: Listener): void {
    for (const filter of listener.filters) this.#audience.add(listener, filter);
    this.forget();
  }

  leave(listener: Listener): void {
    for (const filter of listener.filters) this.#audience.remove(listener, filter);
    this.forget();
  }

  forget(): void {
    this.#known.clear();
    this.#places = 0;
  }

  of(event: SecretEvent): readonly Listener[] {
    // A type and an environment have no blanks in them.
    const kind = `${event.type} ${event.environment} ${event.path}`;
    const known = this.#known.get(kind);
    if (known) return known;
    const found = this.#find(event);
    if (this.#known.size >= MAX_CIRCLES || this.#places + found.length > MAX_PLACES) this.forget();
    this.#known.set(kind, found);
    this.#places += found.length;
    return found;
  }

  #find(event: SecretEvent): readonly Listener[] {
    this.searches += 1;
    const found: Listener[] = [];
    for (const members of this.#audience.matching(event)) {
      for (const listener of members) {
        if (listener.considered === event) continue;
        listener.considered = event;
        if (listener.stream.isOpen && listener.holder.allows(event)) found.push(listener);
      }
    }
    return found;
  }
}
