/**
 * How many streams a project and an identity have open, over all nodes. Each node stores its own counts and
 * renews a lease every few seconds; the counts of a node whose lease expired no longer count. So a
 * crash leaks nothing, and nobody has to clean up after it. The audit row of a new stream is part of the same write.
 */
import type { MemberActor } from "../platform/actor.ts";
import type { Db, Tx } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import { readSnapshot, tooManyStreams, type Since } from "./model.ts";
import {
  releaseQuota,
  removeNode,
  restateCounts,
  showNode,
  sweepNodes,
  takeQuota,
  type StreamCounts,
} from "./stream-quota.store.ts";

interface StreamQuotaNeeds {
  readonly db: Db;
  readonly log: Log;
  readonly perProject: number;
  readonly perActor: number;
}

export const BEAT_SECONDS = 2;
const LEASE_SECONDS = 7;
const DEAD_SECONDS = 60;
const BEATS_PER_SWEEP = 15;
const RELEASE_DELAY_MS = 100;

/** A stream that someone wants to open. */
interface StreamRequest {
  readonly project: { readonly id: string; readonly orgId: string };
  readonly actor: MemberActor;
  readonly events: readonly string[];
}

export interface StreamQuota {
  /** Throws if the project or the actor has too many open; answers what was committed at that moment. */
  take(wish: StreamRequest): Promise<Since>;
  release(projectId: string, actorId: string): void;
  /** To be called every BEAT_SECONDS while a slot is taken. */
  beat(): Promise<void>;
  leave(): Promise<void>;
}

interface Asked {
  readonly projectId: string;
  readonly actorId: string;
  readonly askers: Asker[];
}

interface Asker {
  readonly wish: StreamRequest;
  readonly resolve: (since: Since) => void;
  readonly reject: (error: unknown) => void;
}

export const createStreamQuota = (needs: StreamQuotaNeeds): StreamQuota => new NodeStreamQuota(needs);

class NodeStreamQuota implements StreamQuota {
  readonly #needs: StreamQuotaNeeds;
  readonly #nodeId = newId();
  readonly #open = new Map<string, number>();
  #waiting = new Map<string, Asked>();
  #isTaking = false;
  #freed = new Map<string, number>();
  #releasing: NodeJS.Timeout | undefined;
  #isKnown = false;
  #beats = 0;

  constructor(needs: StreamQuotaNeeds) {
    this.#needs = needs;
  }

  take(wish: StreamRequest): Promise<Since> {
    const [projectId, actorId] = [wish.project.id, wish.actor.id];
    const key = `${projectId} ${actorId}`;
    const waiting = this.#waiting.get(key) ?? { projectId, actorId, askers: [] };
    this.#waiting.set(key, waiting);
    const answer = new Promise<Since>((resolve, reject) => waiting.askers.push({ wish, resolve, reject }));
    if (!this.#isTaking) void this.#takeWhileAsked();
    return answer;
  }

  release(projectId: string, actorId: string): void {
    for (const id of [projectId, actorId]) {
      count(this.#open, id, -1);
      count(this.#freed, id, 1);
    }
    // Many streams tend to end together; they are stored together. If that fails, the next beat or take does it.
    this.#releasing ??= setTimeout(() => {
      this.#releasing = undefined;
      if (this.#freed.size === 0) return;
      this.#writeFreed((tx, freed) => this.#show(tx, freed)).catch((error: unknown) =>
        this.#needs.log.debug({ reason: (error as Error).message }, "ended streams are written down later"),
      );
    }, RELEASE_DELAY_MS).unref();
  }

  async beat(): Promise<void> {
    this.#beats += 1;
    const isSweep = this.#beats % BEATS_PER_SWEEP === 0;
    await this.#writeFreed(async (tx, freed) => {
      await this.#show(tx, freed);
      if (isSweep) await sweepNodes(tx, this.#nodeId, DEAD_SECONDS);
    });
  }

  async leave(): Promise<void> {
    clearTimeout(this.#releasing);
    if (!this.#isKnown) return;
    await this.#needs.db
      .write((tx) => removeNode(tx, this.#nodeId), { audited: false })
      .catch(() => undefined); // the others stop counting us by themselves
  }

  /** After a restart thousands arrive at once: requests that come during one transaction share the next. */
  async #takeWhileAsked(): Promise<void> {
    this.#isTaking = true;
    while (this.#waiting.size > 0) {
      const asked = [...this.#waiting.values()];
      this.#waiting = new Map();
      await this.#takeFor(asked).catch((error: unknown) => {
        for (const { askers } of asked) for (const asker of askers) asker.reject(error);
      });
    }
    this.#isTaking = false;
  }

  async #takeFor(asked: readonly Asked[]): Promise<void> {
    const { perProject, perActor } = this.#needs;
    this.#isKnown = true;
    const limits = { nodeId: this.#nodeId, perProject, perActor, leaseSeconds: LEASE_SECONDS };
    const wanted = asked.map(({ projectId, actorId, askers }) => ({
      projectId,
      actorId,
      count: askers.length,
    }));
    const takings = await this.#writeFreed(async (tx, freed) => {
      // There is no heartbeat while no stream is open: the others must see this node together with its new counts.
      await this.#show(tx, freed);
      const taken = await takeQuota(tx, wanted, limits);
      for (const [index, { askers }] of asked.entries()) {
        for (const { wish } of askers.slice(0, taken[index]?.taken ?? 0))
          tx.audit(wish.actor, {
            event: "subscribe-to-project-events",
            orgId: wish.project.orgId,
            projectId: wish.project.id,
            metadata: { events: wish.events },
          });
      }
      return taken;
    });
    for (const [index, { projectId, actorId, askers }] of asked.entries()) {
      const { taken = 0, inProject = 0, snapshot = "" } = takings[index] ?? {};
      for (const id of [projectId, actorId]) count(this.#open, id, taken);
      const since = readSnapshot(snapshot);
      for (const asker of askers.slice(0, taken)) asker.resolve(since);
      const isProjectFull = inProject + taken >= perProject;
      const refusal = isProjectFull
        ? tooManyStreams("project", perProject)
        : tooManyStreams("identity", perActor);
      for (const asker of askers.slice(taken)) asker.reject(refusal);
    }
  }

  /** Comes first in every write: two writes of this node wait for each other here, and never at a row in between. */
  async #show(tx: Tx, freed: StreamCounts): Promise<void> {
    const shown = await showNode(tx, this.#nodeId);
    if (!shown?.isNew) {
      if (freed.size > 0) await releaseQuota(tx, this.#nodeId, freed);
      return;
    }
    // Our lease expired, or the database lost its unlogged tables in a crash: store again what is open, and what
    // has ended since this write began, because the next write subtracts that.
    const open = new Map(this.#open);
    for (const [id, n] of this.#freed) count(open, id, n);
    if (open.size > 0) await restateCounts(tx, this.#nodeId, open);
  }

  /** With what was freed until now; if it cannot be written, it is freed the next time. */
  async #writeFreed<T>(change: (tx: Tx, freed: StreamCounts) => Promise<T>): Promise<T> {
    const freed = this.#freed;
    this.#freed = new Map();
    try {
      // Heartbeats and ends are not audited; an admitted stream is.
      return await this.#needs.db.write((tx) => change(tx, freed), { audited: false });
    } catch (error) {
      for (const [id, n] of freed) count(this.#freed, id, n);
      throw error;
    }
  }
}

function count(counts: Map<string, number>, id: string, change: number): void {
  const next = (counts.get(id) ?? 0) + change;
  if (next > 0) counts.set(id, next);
  else counts.delete(id);
}
