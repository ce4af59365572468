/** When tokens and client secrets were last used, stored by several nodes at once. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type pg from "pg";
import { anIdentity, aProject, login } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import type { House } from "../house.ts";

const TOKENS = 300;
/** For each of them, of which nobody hears. */
const OTHERS = 70;
const caller = { requestId: "r", ip: "127.0.0.1", userAgent: "test" };

describe("last uses", () => {
  let house: TestHouse;
  let other: { readonly house: House; close(): Promise<void> };
  let tokens: string[];
  let clientSecretId: string;
  let projectId: string;
  const ask = <T>(work: (client: pg.Client) => Promise<T>): Promise<T> =>
    withClient(house.database.server, house.database.connection.database, work);
  const number = async (text: string, values: unknown[] = []): Promise<number> =>
    ask(async (client) => Number(((await client.query(text, values)).rows[0] as { n: string }).n));
  const useAll = async (node: House, some: readonly string[]): Promise<void> => {
    for (const token of some) await node.authentication.authenticate(`Bearer ${token}`, caller);
  };
  const lockedBy = async (client: pg.Client, text: string): Promise<void> => {
    await client.query("BEGIN");
    await client.query(text);
  };

  before(async () => {
    house = await openTestHouse();
    other = await house.openNode();
    const project = await aProject(house.owner);
    projectId = project.id;
    const made = await anIdentity(house.owner, house.base, projectId);
    tokens = [];
    for (let n = 0; n < TOKENS; n += 1)
      tokens.push(await login(house.base, made.clientId, made.clientSecret));
    clientSecretId = await ask(async (client) => {
      const { rows } = await client.query("SELECT id FROM client_secrets");
      await client.query(`
        CREATE TABLE touched (id uuid);
        CREATE FUNCTION note_touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO touched VALUES (NEW.id); RETURN NEW; END $$;
        CREATE TRIGGER note_touch AFTER UPDATE ON access_tokens FOR EACH ROW EXECUTE FUNCTION note_touch()`);
      // Among many, each is looked up by its key in the order it is asked for; of few, all would be read as they lie.
      await client.query(`
        INSERT INTO access_tokens SELECT (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()))).*
        FROM access_tokens t, generate_series(1, ${OTHERS})`);
      await client.query("ANALYZE access_tokens");
      return (rows[0] as { id: string }).id;
    });
  });
  after(() => house.close());

  /** How many sessions wait for a lock, seen from one that does not. */
  const waiting = () =>
    number(
      "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
    );
  /** Does it while one holds what all of them need, and answers the most that waited at the same time. */
  const mostWaiting = async (text: string, work: () => Promise<unknown>): Promise<number> => {
    let most = 0;
    await ask(async (client) => {
      await lockedBy(client, text);
      let isOver = false;
      const working = work().finally(() => (isOver = true));
      working.catch(() => undefined);
      // Long enough to get there on a busy machine, shorter than anybody's patience with a lock.
      for (const until = performance.now() + 800; performance.now() < until && !isOver;) {
        most = Math.max(most, await waiting());
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      await client.query("ROLLBACK");
      await working.catch(() => undefined);
    });
    return most;
  };

  it("F1 P-01 two nodes that used the same tokens in different order never wait for each other", async () => {
    await useAll(house.house, tokens);
    await house.house.flushUses();
    let waited = 0;
    for (let round = 0; round < 5; round += 1) {
      house.clock.advance(61_000);
      await useAll(house.house, tokens);
      await useAll(other.house, tokens.toReversed());
      // Who comes from either end and waits in the middle holds what the other needs next.
      const middle = `SELECT FROM access_tokens WHERE last_used_at IS NOT NULL ORDER BY id OFFSET ${TOKENS / 2} LIMIT 1 FOR UPDATE`;
      waited += await mostWaiting(middle, () =>
        Promise.all([house.house.flushUses(), other.house.flushUses()]),
      );
    }
    assert.equal(waited, 0, "nobody waits for a time");
    // What a backend counted is visible within a second.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    const deadlocks = "SELECT deadlocks AS n FROM pg_stat_database WHERE datname = current_database()";
    assert.equal(await number(deadlocks), 0);
  });

  it("F1 a node has at most one flush under way, however slow the database is", async () => {
    house.clock.advance(61_000);
    const most = await mostWaiting("LOCK TABLE access_tokens IN EXCLUSIVE MODE", async () => {
      const flushes: Promise<void>[] = [];
      for (let n = 0; n < 5; n += 1) {
        await useAll(house.house, tokens.slice(n * 10, n * 10 + 10));
        flushes.push(house.house.flushUses());
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      await Promise.all(flushes);
    });
    assert.ok(most <= 1, `${most} at once`);
    await house.house.flushUses();
  });

  it("P-02 a token is written down at most once a minute, whichever nodes it is used on", async () => {
    await ask((client) => client.query("TRUNCATE touched"));
    for (let step = 0; step < 9; step += 1) {
      house.clock.advance(20_000);
      for (const node of [house.house, other.house]) {
        await useAll(node, tokens);
        await node.flushUses();
      }
    }
    const updates = await number("SELECT count(*) AS n FROM touched");
    assert.ok(updates >= TOKENS * 2 && updates <= TOKENS * 3 * 1.1, `${updates} updates in three minutes`);
  });

  it("F1 a token that somebody holds is passed by, and comes again", async () => {
    house.clock.advance(61_000);
    const at = house.clock.now();
    await useAll(house.house, tokens);
    const untouched = () => number("SELECT count(*) AS n FROM access_tokens WHERE last_used_at < $1", [at]);
    const before = await untouched();
    await ask(async (client) => {
      await lockedBy(
        client,
        "SELECT FROM access_tokens WHERE last_used_at IS NOT NULL ORDER BY id DESC LIMIT 3 FOR UPDATE",
      );
      await house.house.flushUses();
      assert.equal(before - (await untouched()), TOKENS - 3);
      await client.query("ROLLBACK");
    });
    await house.house.flushUses();
    assert.equal(before - (await untouched()), TOKENS);
  });

  it("F1 what could not be written down is written down later; times never go back", async () => {
    house.clock.advance(61_000);
    const at = house.clock.now();
    await useAll(house.house, tokens.slice(0, 10));
    const uses = () => number("SELECT uses AS n FROM client_secrets WHERE id = $1", [clientSecretId]);
    const before = await uses();
    await anIdentity(house.owner, house.base, projectId);
    await ask(async (client) => {
      await lockedBy(client, "LOCK TABLE access_tokens, client_secrets IN EXCLUSIVE MODE");
      await assert.rejects(house.house.flushUses());
      await client.query("ROLLBACK");
    });
    await ask((client) =>
      client.query("UPDATE client_secrets SET last_used_at = $1", [new Date(at.getTime() + 3_600_000)]),
    );
    await house.house.flushUses();
    assert.equal(await number("SELECT count(*) AS n FROM access_tokens WHERE last_used_at >= $1", [at]), 11); // with the one that the owner has
    assert.equal(await uses(), before);
    const counted =
      "SELECT count(*) AS n FROM client_secrets WHERE id <> $1 AND uses = 1 AND last_used_at > $2";
    assert.equal(await number(counted, [clientSecretId, new Date(at.getTime() + 60_000)]), 1);
  });
});
