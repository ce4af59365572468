import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { openReceiver, type Receiver } from "../../../../test/alert-receiver.ts";
import { aPki, certProject, issue, ok, type Pki } from "../../../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../../../test/harness.ts";
import { withClient } from "../../../../test/postgres.ts";

const IMPORT = "/api/v1/cert-manager/certificates/import-certificate";

describe("a certificate from elsewhere", () => {
  let house: TestHouse;
  let elsewhere: Pki;
  let receiver: Receiver;
  before(async () => {
    receiver = await openReceiver();
    house = await openTestHouse({ env: { KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" } });
    elsewhere = await aPki(house);
  });
  after(async () => {
    await house.close();
    await receiver.close();
  });

  const factsOf = async (projectId: string) => {
    const { database, ...server } = house.database.connection;
    const { rows } = await withClient(server, database, (client) =>
      client.query(
        "SELECT name, data FROM outbox WHERE name LIKE 'certificate.%' AND data->>'projectId' = $1",
        [projectId],
      ),
    );
    return rows as { name: string; data: Record<string, unknown> }[];
  };

  test("states one fact when it is taken in, and none when it is refused", async () => {
    const { id: projectId } = await certProject(house.owner);
    const foreign = await issue(house.owner, elsewhere.profile.id);
    const other = await issue(house.owner, elsewhere.profile.id);
    const body = { certificatePem: foreign.certificate, projectId };
    assert.equal((await house.owner.post(IMPORT, { ...body, privateKeyPem: other.privateKey })).status, 400);
    assert.deepEqual(await factsOf(projectId), []);
    const { certificateId } = ok(await house.owner.post(IMPORT, body));
    assert.deepEqual(await factsOf(projectId), [
      { name: "certificate.imported", data: { orgId: house.owner.orgId, projectId, certificateId } },
    ]);
  });

  test("that is about to end is told by an expiry alert at once, not only when a later look finds it", async () => {
    const { id: projectId } = await certProject(house.owner);
    const alert = {
      name: "watch",
      eventType: "expiration",
      alertBefore: "30d",
      filters: [],
      channels: [{ config: { url: `${receiver.url}/in` } }],
      projectId,
    };
    ok(await house.owner.post("/api/v1/cert-manager/alerts", alert));
    // A first look passes the moment at which this certificate would have become due.
    await house.house.alertWork.runNow();
    const foreign = await issue(house.owner, elsewhere.profile.id, { ttl: "5d" });
    const { certificateId } = ok(
      await house.owner.post(IMPORT, { certificatePem: foreign.certificate, projectId }),
    );
    await house.house.alertWork.runNow();
    const told = receiver.received.map(({ json }) =>
      json.data.certificates.map(({ id }: { id: string }) => id),
    );
    assert.deepEqual(told, [[certificateId]]);
  });
});
