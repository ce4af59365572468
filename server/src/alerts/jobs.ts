/** Background jobs: at once on the node that committed a fact, and on the cluster's schedule as a safety net. */
import type { Clock } from "../platform/clock.ts";
import type { Job } from "../platform/jobs/index.ts";
import type { Log } from "../platform/log.ts";
import type { Measure } from "../platform/measure.ts";
import type { Fact } from "../platform/outbox/index.ts";
import type { Deliveries } from "./deliveries/service.ts";
import type { PendingNotices } from "./notices/service.ts";

interface AlertWorkNeeds {
  readonly clock: Clock;
  readonly log: Log;
  /** Called with the facts of this node's own commits. */
  readonly onCommitted: (listener: (facts: readonly Fact[]) => void) => void;
  readonly notices: PendingNotices;
  readonly deliveries: Deliveries;
  readonly onStop?: (() => void) | undefined;
}

export interface AlertWork {
  readonly jobs: readonly Job[];
  readonly measures: readonly Measure[];
  start(): void;
  stop(): Promise<void>;
  /** Does everything that is due now, to its end; tests call it instead of waiting. */
  runNow(): Promise<void>;
}

/** From the end of one scan to the next: what is due is reported within ten seconds, unless there is much. */
const LOOK_SECONDS = 5;
/** An organisation with more than fits goes on in the next scan; nobody else waits for that. */
const LOOK_BUDGET_MS = 5000;
/**
 * A moment for further facts to join the first: under load one round takes many, and nobody notices the wait. The
 * longer a round takes, the longer the next one waits: however slow the machine, most of its time is for requests.
 */
const GATHER_MS = 100;
const LONGEST_GATHER_MS = 1000;
const REST_PER_WORK = 4;
const isAboutCertificates = (fact: Fact): boolean => fact.name.startsWith("certificate.");

export function createAlertWork({
  clock,
  log,
  onCommitted,
  notices,
  deliveries,
  onStop,
}: AlertWorkNeeds): AlertWork {
  let isStarted = false;
  let reacting: Promise<void> | undefined;
  let again = false;

  /** Answers in how many milliseconds there is more to take, if an organisation has to wait for its turn. */
  const takeFacts = async (): Promise<number | undefined> => {
    const { taken, nextMs } = await notices.takeFacts();
    if (taken > 0) deliveries.wake();
    return nextMs;
  };
  const look = async (): Promise<void> => {
    await notices.scanForDue(LOOK_BUDGET_MS);
    deliveries.wake();
  };

  /** One reaction at a time; facts that arrive meanwhile cause one more, not one each. */
  const react = (): void => {
    again = true;
    reacting ??= (async () => {
      let pause = GATHER_MS;
      while (again) {
        again = false;
        await new Promise((done) => setTimeout(done, pause));
        const began = clock.elapsed();
        const nextMs = await takeFacts().catch((error: unknown) => {
          log.warn(
            { reason: (error as Error).message },
            "facts about certificates wait; the next turn takes them",
          );
          return undefined;
        });
        const wish = (clock.elapsed() - began) * REST_PER_WORK;
        pause = Math.min(LONGEST_GATHER_MS, Math.max(GATHER_MS, wish));
        if (nextMs !== undefined) reactIn(nextMs);
      }
      reacting = undefined;
    })();
  };
  let waiting: NodeJS.Timeout | undefined;
  const reactIn = (ms: number): void => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (isStarted) react();
    }, ms);
    waiting.unref();
  };
  // The node that committed it; the schedule of the others covers a node that died right after.
  onCommitted((facts) => {
    if (isStarted && facts.some(isAboutCertificates)) react();
  });

  return {
    jobs: [
      {
        name: "alert-facts",
        everySeconds: 5,
        run: async () => {
          await takeFacts();
        },
      },
      { name: "alert-due", everySeconds: LOOK_SECONDS, leaseSeconds: 300, run: look },
      { name: "alert-sweep", everySeconds: 6 * 3600, run: () => notices.sweep(clock.now()) },
    ],
    measures: deliveries.measures,
    start() {
      isStarted = true;
      deliveries.start();
    },
    async stop() {
      isStarted = false;
      clearTimeout(waiting);
      await reacting;
      await deliveries.stop();
      onStop?.();
    },
    async runNow() {
      await notices.takeFacts({ isPatient: false });
      await notices.scanForDue();
      await deliveries.sendDue();
    },
  };
}
