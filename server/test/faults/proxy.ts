/**
 * A TCP proxy between server and database that injects faults: slow, cut, closed, or cut in the worst moment of all, when
 * COMMIT was done and its answer is on the way back. It understands nothing of the protocol but that answer.
 */
import { createServer, connect, type Socket, type Server, type AddressInfo } from "node:net";

export type Weather =
  | { readonly kind: "fair" }
  | { readonly kind: "slow"; readonly ms: number }
  /** New connections are refused and open ones cut. */
  | { readonly kind: "away" }
  /** Bytes go nowhere and nobody says so: a pulled cable. */
  | { readonly kind: "silent" }
  /** The same, but only on connections on which a transaction was ever begun: reads notice nothing. */
  | { readonly kind: "silent-changes" }
  /** Every n-th COMMIT goes through and its answer does not. */
  | { readonly kind: "cut-after-commit"; readonly every: number };

/** What PostgreSQL says when it has committed, however it was told to. */
const COMMIT = Buffer.from("COMMIT\0");
const BEGIN = Buffer.from("BEGIN");

export interface Proxy {
  readonly port: number;
  /** How often an answer to COMMIT was withheld. */
  readonly cuts: () => number;
  set(weather: Weather): void;
  /** Ends every connection at once, as a restarting load balancer does. */
  cut(): void;
  close(): Promise<void>;
}

export async function openProxy(target: { readonly host: string; readonly port: number }): Promise<Proxy> {
  let weather: Weather = { kind: "fair" };
  let commits = 0;
  let cuts = 0;
  const pairs = new Set<() => void>();
  const unheard = new Set<() => void>();

  /** Bytes in one direction: late or not at all, but never one before the other, also when the weather changes. */
  const lane = (to: Socket, pair: { isForChanges: boolean }) => {
    let tail = Promise.resolve();
    return (chunk: Buffer): void => {
      pair.isForChanges ||= chunk.includes(BEGIN);
      if (weather.kind === "silent" || (weather.kind === "silent-changes" && pair.isForChanges)) return;
      const dueAt = performance.now() + (weather.kind === "slow" ? weather.ms : 0);
      tail = tail.then(async () => {
        const left = dueAt - performance.now();
        if (left > 0) await new Promise((resolve) => setTimeout(resolve, left));
        if (to.writable) to.write(chunk);
      });
    };
  };

  const serve = (client: Socket): void => {
    if (weather.kind === "away") return void client.destroy();
    const database = connect(
      target.host.startsWith("/") ? { path: `${target.host}/.s.PGSQL.${target.port}` } : target,
    );
    const end = (): void => {
      pairs.delete(end);
      client.destroy();
      database.destroy();
    };
    pairs.add(end);
    const pair = { isForChanges: false };
    const [toDatabase, toClient] = [lane(database, pair), lane(client, pair)];
    const isWithheld = (chunk: Buffer): boolean => {
      if (weather.kind !== "cut-after-commit" || !chunk.includes(COMMIT)) return false;
      commits += 1;
      return commits % weather.every === 0;
    };
    client.on("data", toDatabase);
    database.on("data", (chunk: Buffer) => {
      if (!isWithheld(chunk)) return toClient(chunk);
      cuts += 1;
      end();
    });
    // Nor does anybody hear that the other side has gone.
    const endAloud = (): void => (weather.kind === "silent" ? void unheard.add(end) : end());
    for (const side of [client, database]) {
      side.on("error", endAloud);
      side.on("close", endAloud);
    }
  };

  const server: Server = createServer({ noDelay: true }, serve);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = (): void => [...pairs].forEach((end) => end());
  return {
    port: (server.address() as AddressInfo).port,
    cuts: () => cuts,
    set(next) {
      weather = next;
      if (next.kind === "away") cut();
      if (next.kind === "silent") return;
      for (const end of unheard) end();
      unheard.clear();
    },
    cut,
    async close() {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
