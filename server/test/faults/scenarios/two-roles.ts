/** P-06, F3: two nodes with database users of their own, one of them slow between a fact's number and its commit. */
import { unique } from "../../builders.ts";
import { openStream, type StreamReader } from "../../event-streams.ts";
import { clientOf } from "../../harness.ts";
import { withClient } from "../../postgres.ts";
import type { ServerProcess } from "../../process.ts";
import { holds, openCluster, pause, ROLE, type Outcome, type ScenarioOptions } from "../ground.ts";

/** The commits of the second role take this long, and each tenth as long as five seconds in a full run. */
const SLOW_SECONDS = 0.3;

const SLOW = (role: string, longest: number): string => `
  CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF session_user = '${role}' THEN
      PERFORM pg_sleep(CASE WHEN NEW.seq % 10 = 0 THEN ${longest} ELSE ${SLOW_SECONDS} END);
    END IF;
    RETURN NULL;
  END $$;
  CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON outbox
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow_commit()`;

export async function twoRoles({ seconds, say }: ScenarioOptions): Promise<Outcome> {
  const role = unique("second").replace(/-/g, "_");
  const cluster = await openCluster(2, (node) => (node === 1 ? { [ROLE]: role } : {}));
  const { database, nodes, place } = cluster;
  const [fast, slow] = nodes as [ServerProcess, ServerProcess];
  const faults: string[] = [];
  const inDatabase = (text: string) =>
    withClient(database.server, database.connection.database, (client) => client.query(text));
  const streams: StreamReader[] = [];
  let isOver = false;
  let made = 0;
  try {
    for (const { base } of nodes)
      streams.push(await openStream(base, place.token, { projectId: place.projectId }));
    const atFast = clientOf(fast.base, place.token);
    const tokens: string[] = [];
    for (let n = 0; n < 6; n += 1) {
      const path = `/api/v1/auth/token-auth/identities/${place.identityId}/tokens`;
      tokens.push((await atFast.post(path, { name: unique("token") })).body.accessToken as string);
    }
    const isTaken = async (token: string): Promise<boolean> =>
      (await clientOf(fast.base, token).post("/api/v1/auth/checkAuth")).status === 200;
    for (const token of tokens) if (!(await isTaken(token))) faults.push("a token does not work");
    await inDatabase(SLOW(role, seconds < 10 ? 1 : 5));
    const secret = (n: number) =>
      [
        `/api/v4/secrets/SEEN_${n}`,
        { projectId: place.projectId, environment: "dev", secretPath: "/", secretValue: "v" },
      ] as const;
    const writing = [fast, slow, fast].map(async ({ base }) => {
      while (!isOver) {
        const answer = await clientOf(base, place.token).post(...secret((made += 1)));
        if (answer.status !== 200) faults.push(`a change was answered ${answer.status}`);
        await pause(10);
      }
    });
    for (const token of tokens) {
      await clientOf(slow.base, place.token).post("/api/v1/auth/token/revoke", { accessToken: token });
      await pause(100);
    }
    const until = performance.now() + seconds * 500;
    while (performance.now() < until) await pause(100);
    isOver = true;
    await Promise.all(writing);
    for (const token of tokens)
      if (!(await holds(async () => !(await isTaken(token)), 3)))
        faults.push("a revoked token is taken for good");
    say?.(`${made} changes, ${tokens.length} revocations`);
    for (const [index, stream] of streams.entries()) {
      const heard = (): string[] => stream.told.flatMap((line) => line.split(" ").at(-1)?.split(",") ?? []);
      await holds(async () => stream.isEnded || heard().length >= made, 15);
      const told = heard();
      if (new Set(told).size !== told.length) faults.push(`stream ${index} heard something twice`);
      if (told.length < made) faults.push(`stream ${index} heard ${told.length} of ${made} changes`);
      stream.close();
    }
    const [one, other] = streams.map(({ told }) => told.join("\n"));
    if (one !== other) faults.push("two streams heard the same changes in another order");
  } finally {
    isOver = true;
    await cluster.close();
    await withClient(database.server, "postgres", (client) => client.query(`DROP ROLE IF EXISTS ${role}`));
  }
  return { faults, seen: { changes: made } };
}
