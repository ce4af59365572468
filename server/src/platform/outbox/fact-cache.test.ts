import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createFactCache, Touches } from "./index.ts";

describe("a cache that facts keep true", () => {
  const stub = (fresh: () => boolean) => ({ isFresh: fresh, onReconnect: () => undefined });

  it("serves nothing while the tail is not fresh", async () => {
    let isFresh = true;
    const cache = createFactCache<{ v: number }>(
      stub(() => isFresh),
      10,
    );
    let loads = 0;
    const load = async () => ({ v: (loads += 1) });
    await cache.get("k", load);
    assert.equal((await cache.get("k", load))?.v, 1);
    isFresh = false;
    assert.equal((await cache.get("k", load))?.v, 2);
    assert.equal(cache.peek("k"), undefined);
  });

  it("keeps nothing that was read while the tail was not fresh", async () => {
    let isFresh = false;
    const cache = createFactCache<{ v: string }>(
      stub(() => isFresh),
      10,
    );
    const slow = cache.get("k", async () => {
      isFresh = true;
      return { v: "from a standby" };
    });
    assert.equal((await slow)?.v, "from a standby");
    assert.equal((await cache.get("k", async () => ({ v: "from the primary" })))?.v, "from the primary");
  });

  it("drops a group and nothing else, also after entries were evicted and replaced", async () => {
    const cache = createFactCache<{ group: string }>(
      stub(() => true),
      3,
      (value) => [value.group],
    );
    const put = (key: string, group: string) => cache.get(key, async () => ({ group }));
    await put("a", "one");
    await put("b", "two");
    await put("c", "one");
    await put("d", "one");
    cache.drop("c");
    await put("c", "two");
    cache.dropGroup("one");
    assert.deepEqual(
      [cache.peek("a"), cache.peek("b")?.group, cache.peek("c")?.group, cache.peek("d")],
      [undefined, "two", "two", undefined],
    );
  });

  it("does not keep what was read before an invalidation and arrived after it", async () => {
    const cache = createFactCache<{ v: string }>(
      stub(() => true),
      10,
    );
    let finish: (value: { v: string }) => void = () => undefined;
    const slow = cache.get("k", () => new Promise((resolve) => (finish = resolve)));
    cache.drop("k");
    finish({ v: "old" });
    await slow;
    assert.equal((await cache.get("k", async () => ({ v: "new" })))?.v, "new");
  });

  it("F5 P-08 keeps what was loaded while other keys and groups were invalidated", async () => {
    const cache = createFactCache<{ group: string }>(
      stub(() => true),
      10_000,
      (value) => [value.group],
    );
    let kept = 0;
    for (let n = 0; n < 500; n += 1) {
      const loading = cache.get(`k${n}`, async () => {
        // Another tenant's, while this one is under way.
        for (let other = 0; other < 4; other += 1) {
          cache.drop(`other ${other}`);
          cache.dropGroup(`tenant ${other}`);
          cache.dropWhere((value) => value.group === "somebody else's");
          await Promise.resolve();
        }
        return { group: "mine" };
      });
      await loading;
      if (cache.peek(`k${n}`)) kept += 1;
    }
    assert.ok(kept >= 495, `${kept} of 500 loads were kept`);
  });

  it("F5 does not keep what was read before its group, its key or everything was invalidated", async () => {
    let reconnect: () => void = () => undefined;
    const cache = createFactCache<{ group: string }>(
      { isFresh: () => true, onReconnect: (listener) => (reconnect = listener) },
      10,
      (value) => [value.group],
    );
    const spoil = async (invalidate: () => void): Promise<boolean> => {
      await cache.get("k", async () => {
        // Nobody knows its group yet.
        invalidate();
        return { group: "mine" };
      });
      const isKept = cache.peek("k") !== undefined;
      cache.drop("k");
      return !isKept;
    };
    assert.ok(await spoil(() => cache.dropGroup("mine")));
    assert.ok(await spoil(() => cache.dropWhere(({ group }) => group === "mine")));
    assert.ok(await spoil(() => cache.clear()));
    assert.ok(await spoil(() => reconnect()));
    assert.ok(await spoil(() => cache.drop("k")));
    assert.ok(!(await spoil(() => undefined)), "nothing happened");
  });

  it("F5 forgets what nobody asks for any more, and lets nobody keep anything it cannot be sure of", async () => {
    const touches = new Touches();
    const patient = touches.begin();
    for (let n = 0; n < 250_000; n += 1) touches.touch(`topic ${n}`);
    assert.ok(touches.isTouched(patient, ["topic 3"]));
    assert.ok(touches.isTouched(patient, ["never touched"]), "there was too much to remember");
    const late = touches.begin();
    assert.ok(!touches.isTouched(late, ["topic 3"]));
    touches.touch("topic 3");
    assert.ok(touches.isTouched(late, ["topic 4", "topic 3"]));
  });
});
