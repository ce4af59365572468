/**
 * What was invalidated since a read began, by topic. A caller that reads from the database and wants to cache what it
 * read asks afterwards whether any of its topics was invalidated meanwhile. What happens to
 * other topics, other tenants' mostly, does not matter. Nothing is kept while nobody reads.
 */

/** More topics than this are not kept apart: a read that has lasted for so long has to be repeated. */
const MOST_TOPICS = 100_000;
/** Below this a clean-up of unused entries is not worth while. */
const FEW_TOPICS = 1000;

/** When a read began. */
export interface TopicWatch {
  readonly since: number;
}

export class Touches {
  readonly #watches = new Set<TopicWatch>();
  readonly #topics = new Map<string, number>();
  #count = 0;
  /** Up to here, everything counts as invalidated. */
  #floor = 0;
  #clearAt = FEW_TOPICS;

  begin(): TopicWatch {
    const watch = { since: this.#count };
    this.#watches.add(watch);
    return watch;
  }

  end(watch: TopicWatch): void {
    this.#watches.delete(watch);
    if (this.#watches.size > 0) return;
    this.#topics.clear();
    this.#clearAt = FEW_TOPICS;
  }

  touch(topic: string): void {
    this.#count += 1;
    if (this.#watches.size === 0) return;
    this.#topics.set(topic, this.#count);
    if (this.#topics.size > this.#clearAt) this.#clearAway();
  }

  touchAll(): void {
    this.#count += 1;
    this.#floor = this.#count;
    this.#topics.clear();
  }

  isTouched({ since }: TopicWatch, topics: Iterable<string>): boolean {
    if (since < this.#floor) return true;
    for (const topic of topics) if ((this.#topics.get(topic) ?? 0) > since) return true;
    return false;
  }

  #clearAway(): void {
    // In the order in which they began: the first one has been reading for longest.
    const [oldest] = this.#watches;
    for (const [topic, at] of this.#topics) if (at <= (oldest?.since ?? at)) this.#topics.delete(topic);
    if (this.#topics.size > MOST_TOPICS) this.touchAll();
    this.#clearAt = Math.max(FEW_TOPICS, this.#topics.size * 2);
  }
}
