/**
 * Stops a server of its own process at an exact statement, without a word to it: a trigger in the test's database
 * waits for a lock that the test holds. Once a session waits there, the server can be killed at that very step; then
 * its orphaned session is either let go on, as if the answer had been lost, or ended, as if the request had.
 */
import pg from "pg";
import type { TestDatabase } from "../postgres.ts";

export interface Step {
  readonly name: string;
  /** The statement at which to stop, such as `BEFORE INSERT ON certificates`; COMMIT is a deferred trigger. */
  readonly at: string;
}

const LOCK = 7_001;

export async function openTraps(database: TestDatabase) {
  const { database: name, ...server } = database.connection;
  const holder = new pg.Client({ ...server, database: name, ssl: false });
  const observer = new pg.Client({ ...server, database: name, ssl: false });
  await holder.connect();
  await observer.connect();
  await observer.query(`CREATE FUNCTION wait_in_trap() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock_shared(${LOCK}); RETURN NEW; END $$`);
  const trapped = async (): Promise<number[]> =>
    (
      await observer.query(
        `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = ${LOCK} AND NOT granted
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      )
    ).rows.map(({ pid }) => pid as number);
  let dropped: string | undefined;

  return {
    async set({ at }: Step): Promise<void> {
      const table = / ON (\w+)/.exec(at)?.[1] ?? "";
      const kind = at.startsWith("COMMIT")
        ? `CONSTRAINT TRIGGER trap AFTER INSERT ON ${table} DEFERRABLE INITIALLY DEFERRED`
        : `TRIGGER trap ${at}`;
      await holder.query(`SELECT pg_advisory_lock(${LOCK})`);
      await observer.query(`CREATE ${kind} FOR EACH ROW EXECUTE FUNCTION wait_in_trap()`);
      dropped = `DROP TRIGGER trap ON ${table}`;
    },

    /** Once somebody is in the trap. */
    async sprung(): Promise<void> {
      while ((await trapped()).length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    },

    /** Opens the trap; whoever is in it goes on or is ended, and is gone when this returns. */
    async open(fate: "goes on" | "is ended"): Promise<void> {
      const inside = await trapped();
      if (fate === "is ended")
        await observer.query("SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid", [inside]);
      else await holder.query(`SELECT pg_advisory_unlock(${LOCK})`);
      const isLeft = async () =>
        (await observer.query("SELECT 1 FROM pg_stat_activity WHERE pid = ANY($1)", [inside])).rows.length >
        0;
      while (await isLeft()) await new Promise((resolve) => setTimeout(resolve, 5));
      if (fate === "is ended") await holder.query(`SELECT pg_advisory_unlock(${LOCK})`);
      await observer.query(dropped ?? "");
    },

    async close(): Promise<void> {
      await Promise.all([holder.end(), observer.end()]);
    },
  };
}
