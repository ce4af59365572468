import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Problem } from "./problem.ts";
import { createFairQueue, type FairQueueOptions } from "./fair-queue.ts";

/** A generator of our own with a seed, so that a failure can be seen again. */
function chance(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

interface Wish {
  readonly id: number;
  readonly tenant: string;
}

/** The same rules in the slow and obvious way: lists that are searched from their beginning each time. */
class Model {
  readonly #options: FairQueueOptions;
  readonly held: Wish[] = [];
  readonly waiting: Wish[] = [];
  readonly refused: number[] = [];
  readonly #turns = new Map<string, number>();
  #turn = 0;

  constructor(options: FairQueueOptions) {
    this.#options = options;
  }

  #holds(tenant: string): number {
    return this.held.filter((wish) => wish.tenant === tenant).length;
  }

  #mayEnter(tenant: string): boolean {
    const { places, perTenant = places } = this.#options;
    return this.held.length < places && this.#holds(tenant) < perTenant;
  }

  #enter(wish: Wish): void {
    this.held.push(wish);
    this.#turns.set(wish.tenant, (this.#turn += 1));
  }

  /** Somebody who neither holds nor waits is forgotten. */
  #forget(): void {
    for (const tenant of this.#turns.keys())
      if (![...this.held, ...this.waiting].some((wish) => wish.tenant === tenant)) this.#turns.delete(tenant);
  }

  ask(wish: Wish): void {
    const mine = this.waiting.filter(({ tenant }) => tenant === wish.tenant).length;
    if (this.#mayEnter(wish.tenant)) this.#enter(wish);
    else if (mine >= this.#options.waitingPerTenant || this.waiting.length >= this.#options.waiting)
      this.refused.push(wish.id);
    else this.waiting.push(wish);
  }

  leave(id: number): void {
    this.held.splice(
      this.held.findIndex((wish) => wish.id === id),
      1,
    );
    for (;;) {
      const able = this.waiting.filter(({ tenant }) => this.#mayEnter(tenant));
      const [first] = able.toSorted(
        (a, b) =>
          this.#holds(a.tenant) - this.#holds(b.tenant) ||
          (this.#turns.get(a.tenant) ?? 0) - (this.#turns.get(b.tenant) ?? 0) ||
          a.id - b.id,
      );
      if (!first) break;
      this.waiting.splice(this.waiting.indexOf(first), 1);
      this.#enter(first);
    }
    this.#forget();
  }
}

const settle = () => new Promise((resolve) => setImmediate(resolve));
const OPTIONS = { what: "tests", places: 2, waitingPerTenant: 3, waiting: 10, patienceMs: 60_000 };

describe("turns", () => {
  test("hold, let wait and refuse exactly whom a slow and obvious model does, over many schedules", async () => {
    for (let seed = 1; seed <= 60; seed += 1) {
      const draw = chance(seed);
      const places = 1 + draw(5);
      const options: FairQueueOptions = {
        what: "tests",
        places,
        perTenant: 1 + draw(places),
        waitingPerTenant: draw(5),
        waiting: draw(12),
        patienceMs: 60_000,
      };
      const [turns, model] = [createFairQueue(options), new Model(options)];
      const inside = new Map<number, () => void>();
      const refused: number[] = [];
      for (let id = 1; id <= 150; id += 1) {
        if (inside.size > 0 && draw(100) < 45) {
          const ids = [...inside.keys()];
          const gone = ids[draw(ids.length)] as number;
          inside.get(gone)?.();
          inside.delete(gone);
          model.leave(gone);
        } else {
          const tenant = `t${draw(4)}`;
          void turns.take(tenant).then(
            (leave) => inside.set(id, leave),
            () => refused.push(id),
          );
          model.ask({ id, tenant });
        }
        await settle();
        const seen = [[...inside.keys()].toSorted((a, b) => a - b), refused, turns.waiting];
        const wanted = [
          model.held.map((w) => w.id).toSorted((a, b) => a - b),
          model.refused,
          model.waiting.length,
        ];
        assert.deepEqual(seen, wanted, `seed ${seed}, step ${id}`);
      }
      while (inside.size > 0) {
        for (const [id, leave] of inside) {
          inside.delete(id);
          leave();
        }
        await settle();
      }
      assert.deepEqual([turns.held, turns.waiting], [0, 0]);
    }
  });

  test("one tenant's burst takes turns with tenants that come later", async () => {
    const turns = createFairQueue({ ...OPTIONS, waitingPerTenant: 20, waiting: 40 });
    const order: string[] = [];
    const work = (name: string) => async () => {
      order.push(name);
      await settle();
    };
    const crowd = Array.from({ length: 12 }, () => turns.run("crowd", work("crowd")));
    const other = Array.from({ length: 3 }, () => turns.run("other", work("other")));
    await Promise.all([...crowd, ...other]);
    assert.ok(order.lastIndexOf("other") <= 8, order.join(" "));
  });

  test("prioritised callers get three of four slots that become free, and room to wait when others have none", async () => {
    const first = { isOf: (tenant: string) => tenant.startsWith("known"), waiting: 20 };
    const turns = createFairQueue({ ...OPTIONS, places: 1, waiting: 8, waitingPerTenant: 20, first });
    const leave = await turns.take("nobody");
    const order: string[] = [];
    const ask = (tenant: string) => turns.run(tenant, async () => order.push(tenant.slice(0, 5)));
    const strangers = Array.from({ length: 8 }, (_none, n) => ask(`fresh${n}`));
    await assert.rejects(ask("fresh9"), (error) => error instanceof Problem && error.status === 429);
    const known = Array.from({ length: 12 }, (_none, n) => ask(`known${n}`));
    leave();
    await Promise.all([...strangers, ...known]);
    const early = order.slice(0, 16).filter((one) => one === "known").length;
    assert.equal(early, 12, order.join(" "));
    assert.equal(order.slice(0, 8).filter((one) => one === "fresh").length, 2, "nobody is kept out");
  });

  test("a burst of prioritised callers takes no room from the others", async () => {
    const first = { isOf: (tenant: string) => tenant.startsWith("known"), waiting: 20 };
    const turns = createFairQueue({ ...OPTIONS, places: 1, waiting: 8, waitingPerTenant: 20, first });
    const leave = await turns.take("nobody");
    const ask = (tenant: string) => turns.run(tenant, async () => tenant);
    const known = Array.from({ length: 20 }, (_none, n) => ask(`known${n}`));
    await assert.rejects(ask("known20"), (error) => error instanceof Problem && error.status === 429);
    const stranger = ask("fresh");
    leave();
    assert.equal(await stranger, "fresh");
    await Promise.all(known);
  });

  test("a tenant never holds more than its part, also while nobody else wants one", async () => {
    const turns = createFairQueue({ ...OPTIONS, places: 4, perTenant: 2 });
    let most = 0;
    const work = async () => {
      most = Math.max(most, turns.held);
      await settle();
    };
    await Promise.all(Array.from({ length: 5 }, () => turns.run("one", work)));
    assert.equal(most, 2);
  });

  test("beyond the bounds 429 at once, 503 after waiting in vain; a failure passes its turn on", async () => {
    const turns = createFairQueue({ ...OPTIONS, places: 1, patienceMs: 30 });
    const leave = await turns.take("a");
    const statusOf = (error: unknown) =>
      error instanceof Problem && error.retryAfterSeconds !== undefined ? error.status : error;
    const ends = await Promise.all(
      Array.from({ length: 5 }, () => turns.take("a").then(() => 200, statusOf)),
    );
    assert.deepEqual(ends, [503, 503, 503, 429, 429]);
    assert.equal(turns.waiting, 0);
    leave();
    leave(); // twice is once
    await assert.rejects(
      turns.run("a", async () => {
        throw new Error("no luck");
      }),
      /no luck/,
    );
    assert.equal(await turns.run("a", async () => turns.held), 1);
    assert.equal(turns.held, 0);
  });
});
