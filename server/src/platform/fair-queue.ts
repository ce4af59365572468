/**
 * Fair queueing: a few slots that many tenants share; one tenant's burst does not block another. A free slot goes to the
 * tenant that holds the fewest, among equals to the one whose last turn is longest ago. Per tenant, the slots held and the
 * requests waiting are bounded; the next request is answered 429 at once, and one that waited in vain 503.
 * Where some callers are prioritised, three of four slots that become free go to them first,
 * and they can still wait when the queue is full for the rest.
 *
 * The one implementation for everything that is scarce: slow reads, RSA keys, passwords, mails.
 */
import { Problem, tooManyRequests } from "./problem.ts";

export interface FairQueueOptions {
  /** What is scarce, as it reads in "Too many … at the moment." */
  readonly what: string;
  readonly places: number;
  /** One tenant never holds more of them, so that one is soon free for the next tenant. Default: all of them. */
  readonly perTenant?: number;
  readonly waitingPerTenant: number;
  /** Of all tenants together. */
  readonly waiting: number;
  readonly patienceMs: number;
  /** Prioritised callers, and how many of them may wait; they take no room from the others. Default: none. */
  readonly first?: { readonly isOf: (tenant: string) => boolean; readonly waiting: number };
}

interface FairQueue {
  /** Does the work when it is this tenant's turn. */
  run<T>(tenant: string, work: () => Promise<T>): Promise<T>;
  /** Waits for a slot; the caller releases it by calling the returned function, once. */
  take(tenant: string): Promise<() => void>;
  /** For metrics and tests. */
  readonly held: number;
  readonly waiting: number;
}

interface Waiter {
  readonly admit: () => void;
  readonly timer: NodeJS.Timeout;
}

interface TenantLine {
  held: number;
  lastTurn: number;
  readonly isFirst: boolean;
  readonly waiters: Set<Waiter>;
}

/** Every n-th slot ignores the priority, so that a burst of prioritised callers blocks nobody. */
const FOR_ALL = 4;

const kindOf = (line: TenantLine): "first" | "others" => (line.isFirst ? "first" : "others");
const secondsOf = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));

export function createFairQueue(options: FairQueueOptions): FairQueue {
  const { what, places, perTenant = places, patienceMs } = options;
  const lines = new Map<string, TenantLine>();
  const queued = new Set<TenantLine>();
  const waiting = { first: 0, others: 0 };
  let [held, turn] = [0, 0];

  const tooMany = (): Problem =>
    tooManyRequests(secondsOf(patienceMs / 2), `Too many ${what} at the moment.`);
  const tooLate = (): Problem =>
    new Problem(503, "ServiceUnavailable", `Too many ${what} at the moment: no turn came in time.`, {
      retryAfterSeconds: secondsOf(patienceMs / 2),
    });

  const enter = (line: TenantLine): void => {
    held += 1;
    line.held += 1;
    line.lastTurn = turn += 1;
  };

  const isBefore = (line: TenantLine, other: TenantLine): boolean => {
    if (line.isFirst !== other.isFirst && turn % FOR_ALL !== 0) return line.isFirst;
    return line.held < other.held || (line.held === other.held && line.lastTurn < other.lastTurn);
  };

  const next = (): TenantLine | undefined => {
    let best: TenantLine | undefined;
    for (const line of queued) {
      if (line.held >= perTenant) continue;
      if (!best || isBefore(line, best)) best = line;
    }
    return best;
  };

  const unqueue = (line: TenantLine, waiter: Waiter): void => {
    clearTimeout(waiter.timer);
    line.waiters.delete(waiter);
    waiting[kindOf(line)] -= 1;
    if (line.waiters.size === 0) queued.delete(line);
  };

  const pass = (): void => {
    while (held < places) {
      const line = next();
      const [waiter] = line?.waiters ?? [];
      if (!line || !waiter) return;
      unqueue(line, waiter);
      enter(line);
      waiter.admit();
    }
  };

  const forget = (tenant: string, line: TenantLine): void => {
    if (line.held === 0 && line.waiters.size === 0) lines.delete(tenant);
  };

  const leaving = (tenant: string, line: TenantLine): (() => void) => {
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      held -= 1;
      line.held -= 1;
      pass();
      forget(tenant, line);
    };
  };

  const wait = (tenant: string, line: TenantLine): Promise<() => void> =>
    new Promise((resolve, reject) => {
      const waiter: Waiter = {
        admit: () => resolve(leaving(tenant, line)),
        timer: setTimeout(() => {
          unqueue(line, waiter);
          forget(tenant, line);
          reject(tooLate());
        }, patienceMs),
      };
      waiting[kindOf(line)] += 1;
      line.waiters.add(waiter);
      queued.add(line);
    });

  const take = async (tenant: string): Promise<() => void> => {
    let line = lines.get(tenant);
    // An unknown tenant has had no turn for long.
    if (!line) {
      const isFirst = options.first?.isOf(tenant) ?? false;
      lines.set(tenant, (line = { held: 0, lastTurn: 0, isFirst, waiters: new Set() }));
    }
    if (held < places && line.held < perTenant) {
      // There is a slot and this tenant may have it: then nobody else who may have it is waiting.
      enter(line);
      return leaving(tenant, line);
    }
    const room = line.isFirst ? (options.first?.waiting ?? 0) : options.waiting;
    if (line.waiters.size >= options.waitingPerTenant || waiting[kindOf(line)] >= room) {
      forget(tenant, line);
      throw tooMany();
    }
    return wait(tenant, line);
  };

  return {
    take,
    async run(tenant, work) {
      const leave = await take(tenant);
      try {
        return await work();
      } finally {
        leave();
      }
    },
    get held() {
      return held;
    },
    get waiting() {
      return waiting.first + waiting.others;
    },
  };
}
