/** Bursts and stalled readers, through the whole house. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject } from "../builders.ts";
import { changed, commit, openStream, until } from "../event-streams.ts";
import { openTestHouse, type TestHouse } from "../harness.ts";

describe("many events at once", () => {
  let test: TestHouse;
  before(async () => {
    test = await openTestHouse();
  });
  after(() => test.close());

  it("E-06 a burst of 10,000 events in one transaction reaches a healthy reader whole and in order, on every node", async () => {
    const { id } = await aProject(test.owner);
    const place = { orgId: test.owner.orgId, projectId: id };
    const far = await test.openNode();
    const readers = await Promise.all(
      [test.base, far.base].map((base) => openStream(base, test.owner.token, { projectId: id })),
    );
    const keys = Array.from({ length: 10_000 }, (_, n) => `KEY_NUMBER_${n}`);
    await commit(test.house, ...keys.map((key) => changed(place, "update", key)));
    for (const reader of readers) {
      await until(() => reader.frames.length >= 10_000 || reader.isEnded, "10,000 events", 60);
      assert.equal(reader.error, undefined);
      assert.deepEqual(
        reader.told,
        keys.map((key) => `secret:update dev / ${key}`),
      );
      const ids = reader.events.map((event) => event.id ?? 0);
      assert.ok(ids.every((one, index) => index === 0 || one > (ids[index - 1] ?? 0)));
      reader.close();
    }
  });

  it("E-06 a reader that stalls is left with an error event; another of the same project hears everything", async () => {
    const { id } = await aProject(test.owner);
    const place = { orgId: test.owner.orgId, projectId: id };
    const [stalled, healthy] = [
      await openStream(test.base, test.owner.token, { projectId: id }),
      await openStream(test.base, test.owner.token, { projectId: id }),
    ];
    stalled.pause();
    const before = test.house.events.openStreams();
    // Some fifteen megabytes: more than the kernel's buffers on both sides and ours together.
    const padding = "X".repeat(200);
    for (let sent = 0; sent < 600; sent += 20) {
      const keys = Array.from({ length: 100 }, (_, k) => `${padding}_${sent}_${k}`);
      await commit(test.house, ...Array.from({ length: 20 }, () => changed(place, "create", ...keys)));
    }
    await commit(test.house, changed(place, "delete", "LAST"));
    await until(
      () => healthy.told.at(-1) === "secret:delete dev / LAST",
      "the healthy reader to hear everything",
      60,
    );
    assert.equal(healthy.error, undefined);
    stalled.resume();
    await until(() => stalled.isEnded, "the stalled reader to read its end", 60);
    assert.match(stalled.error ?? "no error event", /too slowly/);
    await until(() => test.house.events.openStreams() === before - 1, "its place to be free");
    const heard = stalled.told;
    assert.deepEqual(heard, healthy.told.slice(0, heard.length), "what it did hear has no holes");
    healthy.close();
  });
});
