/** Real nodes on a primary with a streaming standby, each with a proxy of its own. */
import { randomBytes } from "node:crypto";
import { startServer, type ServerProcess } from "../process.ts";
import { READY, watch } from "./ground.ts";
import { furnish, type Place } from "./load.ts";
import { Pair } from "./pair.ts";
import { openProxy, type Proxy } from "./proxy.ts";

export interface Stage {
  readonly pair: Pair;
  readonly nodes: readonly ServerProcess[];
  readonly proxies: readonly Proxy[];
  readonly place: Place;
  close(): Promise<void>;
}

export async function openStage(count: number, more: Record<string, string> = {}): Promise<Stage> {
  const pair = await Pair.open();
  const rootKey = randomBytes(32).toString("base64");
  const proxies: Proxy[] = [];
  const nodes: ServerProcess[] = [];
  for (let n = 0; n < count; n += 1) {
    const proxy = await openProxy(pair.address);
    proxies.push(proxy);
    const { user, database } = pair.connection;
    const url = `postgres://${user}@127.0.0.1:${proxy.port}/${database}?sslmode=disable`;
    const env = { ...READY, DATABASE_URL: url, KEYWARD_ROOT_KEY: rootKey, ...more };
    nodes.push(watch(await startServer(env)));
  }
  return {
    pair,
    nodes,
    proxies,
    place: await furnish(nodes[0]?.base ?? ""),
    async close() {
      for (const proxy of proxies) proxy.set({ kind: "fair" });
      for (const node of nodes) await node.stop();
      for (const proxy of proxies) await proxy.close();
      await pair.close();
    },
  };
}
