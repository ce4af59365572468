/**
 * Turns: a few places that many share, and nobody's crowd keeps another out. A place that becomes free goes to the
 * tenant that holds the fewest, among equals to the one whose last turn is longest ago. A tenant may hold only so many
 * places at once and only so many of its requests may wait; the next one is told at once to come back later, and so is
 * who waited in vain. Where some have proven more than others, three of four places that become free are theirs first,
 * and there is room for them to wait when it is full for the rest.
 *
 * The one implementation for everything that is scarce: slow looks, RSA keys, passwords, mails.
 */
import { Problem, tooManyRequests } from "./problem.ts";

export interface FairQueueOptions {
  /** What there is too little of, in words that fit "Too many … at the moment." */
  readonly what: string;
  readonly places: number;
  /** One tenant never holds more of them, so that one is soon free for who comes next. All of them unless told. */
  readonly perTenant?: number;
  readonly waitingPerTenant: number;
  /** Of all tenants together. */
  readonly waiting: number;
  readonly patienceMs: number;
  /** Those who come first, and how many of them may wait; they take no room from the others. Nobody unless told. */
  readonly first?: { readonly isOf: (tenant: string) => boolean; readonly waiting: number };
}

interface FairQueue {
  /** Does the work when it is this tenant's turn. */
  run<T>(tenant: string, work: () => Promise<T>): Promise<T>;
  /** Waits for a place; whoever has it gives it back by calling what this answers, once. */
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

/** Every so many places that become free, the first are like everybody else: a crowd of them keeps nobody out. */
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
    // Whoever is not known has had no turn for long.
    if (!line) {
      const isFirst = options.first?.isOf(tenant) ?? false;
      lines.set(tenant, (line = { held: 0, lastTurn: 0, isFirst, waiters: new Set() }));
    }
    if (held < places && line.held < perTenant) {
      // There is a place and this tenant may have it: then nobody waits who may have it too.
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
