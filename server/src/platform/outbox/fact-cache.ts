import { LRUCache } from "lru-cache";
import type { Tail } from "./tail.ts";

/**
 * Remembers what was read from the database for as long as that is known to be true. An entry is dropped by the
 * fact that changes it, and nothing is served while the tail is not fresh: then every look goes to the database,
 * and if that is away too, the request fails. A revocation is so effective everywhere within the tail's freshness.
 */
export interface FactCache<Value extends {}> {
  get(key: string, load: () => Promise<Value | undefined>): Promise<Value | undefined>;
  /** What is remembered and still true, without going to the database. */
  peek(key: string): Value | undefined;
  drop(key: string): void;
  /** Everything that belongs to a group, found by index: what other tenants have cached costs nothing. */
  dropGroup(group: string): void;
  dropWhere(isStale: (value: Value, key: string) => boolean): void;
  clear(): void;
}

/** Which keys belong to a group; kept in step with what the cache holds, evictions included. */
class GroupIndex<Value> {
  readonly #groupsOf: (value: Value) => readonly string[];
  readonly #keys = new Map<string, Set<string>>();

  constructor(groupsOf: (value: Value) => readonly string[]) {
    this.#groupsOf = groupsOf;
  }

  add(key: string, value: Value): void {
    for (const group of this.#groupsOf(value)) {
      const keys = this.#keys.get(group);
      if (keys) keys.add(key);
      else this.#keys.set(group, new Set([key]));
    }
  }

  remove(key: string, value: Value): void {
    for (const group of this.#groupsOf(value)) {
      const keys = this.#keys.get(group);
      keys?.delete(key);
      if (keys?.size === 0) this.#keys.delete(group);
    }
  }

  keysOf(group: string): readonly string[] {
    return [...(this.#keys.get(group) ?? [])];
  }
}

export function createFactCache<Value extends {}>(
  tail: Pick<Tail, "isFresh" | "onGap">,
  max: number,
  groupsOf: (value: Value) => readonly string[] = () => [],
): FactCache<Value> {
  const groups = new GroupIndex(groupsOf);
  const entries = new LRUCache<string, Value>({ max, dispose: (value, key) => groups.remove(key, value) });
  // A load that began before an invalidation may have read the old state: such a result is answered, not kept.
  let epoch = 0;

  const forget = () => {
    epoch += 1;
    entries.clear();
  };
  tail.onGap(forget);

  return {
    async get(key, load) {
      // Also what to keep: while we do not hear, what we read may come from a database that is no longer the one.
      const isFresh = tail.isFresh();
      const known = isFresh ? entries.get(key) : undefined;
      if (known !== undefined) return known;
      const epochAtStart = epoch;
      const value = await load();
      if (value !== undefined && isFresh && epoch === epochAtStart) {
        entries.set(key, value);
        groups.add(key, value);
      }
      return value;
    },
    peek: (key) => (tail.isFresh() ? entries.get(key) : undefined),
    drop(key) {
      epoch += 1;
      entries.delete(key);
    },
    dropGroup(group) {
      epoch += 1;
      for (const key of groups.keysOf(group)) entries.delete(key);
    },
    dropWhere(isStale) {
      epoch += 1;
      for (const [key, value] of entries.entries()) if (isStale(value, key)) entries.delete(key);
    },
    clear: forget,
  };
}
