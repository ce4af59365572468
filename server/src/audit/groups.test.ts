/** However the database behaves, what waits to be written into the audit log is bounded, and strict means durable. */
import assert from "node:assert/strict";
import { setImmediate as tick, setTimeout as wait } from "node:timers/promises";
import { after, before, test } from "node:test";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import type { MemberActor } from "../platform/actor.ts";
import { systemClock } from "../platform/clock.ts";
import { Unconfirmed, type Db } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { silentLog, type Log } from "../platform/log.ts";
import type { ProjectRow } from "../projects/index.ts";
import { createReadAudit } from "../secrets/read-audit.ts";
import { createAuditGroups, createRefusals } from "./index.ts";

let house: TestHouse;
let real: Db;
before(async () => {
  house = await openTestHouse();
  real = house.house.database;
});
after(() => house.close());

const MAX = 100;
const needs = { clock: systemClock, log: silentLog };
const reader = (): MemberActor =>
  ({
    kind: "identity",
    id: newId(),
    name: "reader",
    orgId: house.owner.orgId,
    caller: { ip: "192.0.2.1", userAgent: "test", requestId: "req" },
  }) as unknown as MemberActor;
const entryOf = () => ({ event: "get-secret", orgId: house.owner.orgId });

/** The real database behind a latch: a write waits until the latch opens, then goes on or fails. */
function gated() {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  let fault: Error | undefined;
  const db: Db = {
    ...real,
    write: async (change, options) => {
      await opened;
      if (fault) throw fault;
      return real.write(change, options);
    },
  };
  return { db, open: () => open(), fail: (error: Error | undefined) => void (fault = error) };
}

function outcomes(notes: readonly Promise<void>[]) {
  const seen = { answered: 0, refused: 0 };
  for (const note of notes)
    note.then(
      () => (seen.answered += 1),
      () => (seen.refused += 1),
    );
  return seen;
}

test("readers are held back while the database hangs, and all are written when it is back", async () => {
  const { db, open } = gated();
  const groups = createAuditGroups({ ...needs, db, what: "readings", maxGroups: MAX });
  const notes = Array.from({ length: 5 * MAX }, (_none, n) => groups.note(`key ${n}`, reader(), entryOf()));
  const seen = outcomes(notes);
  await tick();
  assert.ok(seen.answered <= MAX, `${seen.answered} were answered`);
  assert.ok(groups.unwritten() <= MAX, `${groups.unwritten()} are held`);
  open();
  await Promise.allSettled(notes);
  await groups.flush();
  assert.equal(groups.unwritten(), 0);
  assert.ok(seen.answered >= MAX);
});

test("what a failing database does not take is kept up to the bound, and beyond it nobody is answered", async () => {
  const { db, open, fail } = gated();
  open();
  fail(new Error("Connection terminated"));
  const groups = createAuditGroups({ ...needs, db, what: "readings", maxGroups: MAX });
  let [answered, refused] = [0, 0];
  for (let n = 0; n < 3 * MAX; n += 1)
    await groups.note(`key ${n}`, reader(), entryOf()).then(
      () => (answered += 1),
      () => (refused += 1),
    );
  assert.deepEqual([answered, refused, groups.unwritten()], [MAX, 2 * MAX, MAX]);
  await groups.note("key 5", reader(), entryOf()).catch(() => undefined);
  fail(undefined);
  await groups.flush();
  assert.equal(groups.unwritten(), 0);
});

test("refusals beyond the bound are forgotten, counted and said", async () => {
  const { db, open } = gated();
  const said: number[] = [];
  const log = {
    ...silentLog,
    warn: ({ forgotten }: { forgotten?: number }) => void (forgotten && said.push(forgotten)),
  } as unknown as Log;
  const refusals = createRefusals({ clock: systemClock, log, db });
  const COUNT = 12_000;
  for (let n = 0; n < COUNT; n += 1)
    refusals.note({ actor: reader(), endpoint: "x", projectId: null, reason: "no" });
  await tick();
  open();
  await refusals.flush();
  assert.deepEqual(said, [COUNT - 5000]);
});

const project = () => ({ id: newId(), orgId: house.owner.orgId }) as ProjectRow;

test("a strict reading whose commit was lost is not answered before its fate is known", async () => {
  let learn: (isMade: boolean) => void = () => undefined;
  for (const isMade of [true, false]) {
    const fate = new Promise<boolean>((resolve) => (learn = resolve));
    let [count, release]: [number, () => void] = [0, () => undefined];
    const first = new Promise<void>((resolve) => (release = resolve));
    const db: Db = {
      ...real,
      write: async (change, options) => {
        count += 1;
        if (count === 1) await first;
        if (count === 2) throw new Unconfirmed(fate, "The database's answer was lost.");
        return real.write(change, options);
      },
    };
    const audit = createReadAudit({ ...needs, db, mode: "strict" });
    const one = audit.note(reader(), project(), "get-secret", {});
    await tick();
    const two = audit.note(reader(), project(), "get-secret", {}).then(
      () => "answered",
      () => "refused",
    );
    await tick();
    release();
    await one;
    assert.equal(await Promise.race([two, wait(300, "waits")]), "waits");
    learn(isMade);
    assert.equal(await two, isMade ? "answered" : "refused");
    await audit.flush();
    assert.equal(audit.unwritten(), 0);
  }
});

test("single readings are bounded too, also those of a commit whose answer was lost", async () => {
  const db: Db = {
    ...real,
    write: async () => {
      throw new Unconfirmed(new Promise<boolean>(() => undefined), "The database's answer was lost.");
    },
  };
  const audit = createReadAudit({ ...needs, db, mode: "async" });
  const [actor, where] = [reader(), project()];
  const COUNT = 50_000;
  let [answered, refused] = [0, 0];
  for (let n = 0; n < COUNT + 4000; n += 1)
    await audit.note(actor, where, "get-secret", {}).then(
      () => (answered += 1),
      () => (refused += 1),
    );
  assert.deepEqual([answered, refused, audit.unwritten()], [COUNT, 4000, COUNT]);
});
