import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { after, before, test } from "node:test";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

/** Asks, reads the first bytes of the answer and no more. */
async function askAndLeave(path: string, token: string): Promise<{ status: number; socket: Socket }> {
  const { hostname, port } = new URL(house.base);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => undefined);
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  const [first] = (await once(socket, "data")) as [Buffer];
  socket.pause();
  return { status: Number(first.toString("latin1", 9, 12)), socket };
}

test("large pages of the audit log that nobody reads are bounded for an organisation, and nobody else feels it", async () => {
  const [greedy, other] = [await house.newTenant(), await house.newTenant()];
  for (const { orgId } of [greedy, other])
    await house.house.database.write(
      (tx) =>
        tx.rows(
          {
            name: undefined,
            isSlow: true,
            text: `INSERT INTO audit_log (id, at, org_id, event, actor_type, actor_name, metadata)
              SELECT gen_random_uuid(), $2, $1, 'test', 'system', 's', jsonb_build_object('text', repeat('x', 15000)) FROM generate_series(1, 1000)`,
          },
          [orgId, house.clock.now()],
        ),
      { audited: false },
    );
  const path = "/api/v1/organization/audit-logs?limit=1000";
  const sockets: Socket[] = [];
  const statuses: number[] = [];
  for (let n = 0; n < 8; n += 1) {
    const { status, socket } = await askAndLeave(path, greedy.token);
    statuses.push(status);
    sockets.push(socket);
  }
  const others = await askAndLeave(path, other.token);
  const small = await greedy.get("/api/v1/organization/audit-logs?limit=10");
  for (const socket of [...sockets, others.socket]) socket.destroy();
  assert.deepEqual([statuses[0], statuses.at(-1)], [200, 429], statuses.join());
  assert.equal(others.status, 200);
  assert.equal(small.status, 200);
});
