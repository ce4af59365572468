// A process of its own: it waits for tens of seconds, and others need not wait with it.
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type pg from "pg";
import { Unconfirmed, UnconfirmedCommits, unlessMade } from "./unconfirmed.ts";

/** A commit that the server reports as waiting for this; answered on request. */
function aCommit(event: string | null) {
  const commits = new UnconfirmedCommits(async () => [{ event }] as never[], 60_000);
  const client = { processID: 1 } as unknown as pg.ClientBase;
  let answer: { resolve: (value: string) => void; reject: (error: Error) => void } | undefined;
  const commit = new Promise<string>((resolve, reject) => (answer = { resolve, reject }));
  commit.catch(() => undefined);
  return { commits, client, commit, answer: () => answer as NonNullable<typeof answer> };
}
const settle = () => new Promise((resolve) => setTimeout(resolve, 5));

describe("a commit that takes long", () => {
  // The watch keeps no process alive.
  const alive = setInterval(() => undefined, 1000);
  after(() => clearInterval(alive));

  it("is waited for while the server is at it", async () => {
    const { commits, client, commit, answer } = aCommit("WALSync");
    const watched = commits.watch(client, commit);
    setTimeout(() => answer().resolve("done"), 6500);
    assert.equal(await watched, "done");
    assert.equal(commits.heldCount, 0);
  });

  it("is called uncertain where it waits for a standby, its connection is held, and its outcome is reported", async () => {
    for (const isMade of [true, false]) {
      const { commits, client, commit, answer } = aCommit("SyncRep");
      const error = await commits.watch(client, commit).catch((problem: unknown) => problem);
      assert.ok(error instanceof Unconfirmed);
      assert.equal(error.status, 503);
      assert.deepEqual([commits.isHeld(client), commits.heldCount], [true, 1]);
      let putBack = 0;
      void unlessMade(error, () => (putBack += 1));
      await settle();
      assert.equal(putBack, 0, "not before it is known");
      if (isMade) answer().resolve("done");
      else answer().reject(new Error("rolled back"));
      await settle();
      assert.equal(putBack, isMade ? 0 : 1);
      assert.deepEqual([commits.isHeld(client), commits.heldCount], [false, 0]);
    }
  });

  it("is put back at once where it is certain that nothing was made", () => {
    let putBack = 0;
    void unlessMade(new Error("the name is taken"), () => (putBack += 1));
    assert.equal(putBack, 1);
  });
});
