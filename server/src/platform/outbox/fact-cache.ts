import { LRUCache } from "lru-cache";
import type { Tail } from "./tail.ts";
import { Touches, type TopicWatch } from "./touches.ts";

/**
 * Caches what was read from the database for as long as that is known to be true. An entry is dropped by the
 * fact that changes it, and nothing is served while the tail is not fresh: then every read goes to the database,
 * and if that is unreachable too, the request fails. So a revocation is effective everywhere within the tail's freshness.
 */
export interface FactCache<Value extends {}> {
  get(key: string, load: () => Promise<Value | undefined>): Promise<Value | undefined>;
  /** The cached value if it is still true, without going to the database. */
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

const NO_GROUPS: readonly string[] = [];
const keyTopic = (key: string): string => `key ${key}`;
const groupTopic = (group: string): string => `group ${group}`;

interface Load<Value> {
  readonly watch: TopicWatch;
  /** What was dropped by description since it began. */
  readonly stale: ((value: Value, key: string) => boolean)[];
}

export function createFactCache<Value extends {}>(
  tail: Pick<Tail, "isFresh" | "onReconnect">,
  max: number,
  groupsOf: (value: Value) => readonly string[] = () => NO_GROUPS,
): FactCache<Value> {
  const groups = new GroupIndex(groupsOf);
  const entries = new LRUCache<string, Value>({ max, dispose: (value, key) => groups.remove(key, value) });
  const touches = new Touches();
  const loads = new Set<Load<Value>>();

  const forget = () => {
    touches.touchAll();
    entries.clear();
  };
  tail.onReconnect(forget);

  /** A load that began before an invalidation may have read the old state: such a result is answered, not kept. */
  const isSpoiled = ({ watch, stale }: Load<Value>, key: string, value: Value): boolean =>
    touches.isTouched(watch, [keyTopic(key), ...groupsOf(value).map(groupTopic)]) ||
    stale.some((isStale) => isStale(value, key));

  const loadAndKeep = async (key: string, load: () => Promise<Value | undefined>) => {
    const under: Load<Value> = { watch: touches.begin(), stale: [] };
    loads.add(under);
    try {
      const value = await load();
      if (value !== undefined && !isSpoiled(under, key, value)) {
        entries.set(key, value);
        groups.add(key, value);
      }
      return value;
    } finally {
      loads.delete(under);
      touches.end(under.watch);
    }
  };

  return {
    async get(key, load) {
      // Nor is anything kept: while the tail is cut off, a read may come from a database that is no longer the primary.
      if (!tail.isFresh()) return load();
      return entries.get(key) ?? loadAndKeep(key, load);
    },
    peek: (key) => (tail.isFresh() ? entries.get(key) : undefined),
    drop(key) {
      touches.touch(keyTopic(key));
      entries.delete(key);
    },
    dropGroup(group) {
      touches.touch(groupTopic(group));
      for (const key of groups.keysOf(group)) entries.delete(key);
    },
    dropWhere(isStale) {
      for (const { stale } of loads) stale.push(isStale);
      for (const [key, value] of entries.entries()) if (isStale(value, key)) entries.delete(key);
    },
    clear: forget,
  };
}
