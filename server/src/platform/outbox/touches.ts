/**
 * What was touched since somebody began to look, by topic. Whoever reads from the database and wants to rely on what it
 * read asks afterwards whether any of the topics it turned out to be about was touched meanwhile. What happens to
 * other topics, other tenants' mostly, is not its business. Nothing is kept while nobody looks.
 */

/** More topics than this are not kept apart: whoever has been looking for so long has to look again. */
const MOST_TOPICS = 100_000;
/** Below this it is not worth while to clear away what nobody asks for any more. */
const FEW_TOPICS = 1000;

/** From when on somebody looks. */
export interface TopicWatch {
  readonly since: number;
}

export class Touches {
  readonly #watches = new Set<TopicWatch>();
  readonly #topics = new Map<string, number>();
  #count = 0;
  /** Up to here, everything counts as touched. */
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
    // In the order in which they began: the first one has been looking for longest.
    const [oldest] = this.#watches;
    for (const [topic, at] of this.#topics) if (at <= (oldest?.since ?? at)) this.#topics.delete(topic);
    if (this.#topics.size > MOST_TOPICS) this.touchAll();
    this.#clearAt = Math.max(FEW_TOPICS, this.#topics.size * 2);
  }
}
