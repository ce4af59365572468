import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import { aProject } from "../../test/builders.ts";
import { putCertificate } from "../../test/alert-receiver.ts";
import {
  addAlert,
  anAlert,
  DAY,
  goOnIn,
  HOUR,
  house,
  pager,
  PATH,
  projectId,
  receiver,
  run,
  store,
  take,
  told,
  wish,
} from "../../test/alert-stage.ts";

describe("facts", () => {
  test("issued, renewed, revoked and failed each reach their own kind of alert; a renewal is no issuance", async () => {
    await anAlert({ eventType: "issuance" });
    for (const eventType of ["renewal", "revocation", "renewal-failed"]) await addAlert({ eventType });
    const first = await store.issue(wish(90, { commonName: "x.example" }));
    const second = await store.renew(first, wish(90));
    await store.revoke(second, projectId, house.clock.now(), 1);
    await store.failRenewal(first, projectId, "the policy says no");
    await run();
    const got = take();
    assert.deepEqual(
      got.map(({ json }) => [json.type, json.data.certificates[0].id]).sort(),
      [
        ["dev.keyward.certificate.issuance", first],
        ["dev.keyward.certificate.renewal", second],
        ["dev.keyward.certificate.renewal-failed", first],
        ["dev.keyward.certificate.revocation", second],
      ].sort(),
    );
    const revocation = got.find(({ json }) => json.type.endsWith("revocation"))?.json.data.certificates[0];
    assert.deepEqual(
      [revocation.status, revocation.revocationReason, typeof revocation.revokedAt],
      ["revoked", "KEY_COMPROMISE", "string"],
    );
    assert.equal(
      got.find(({ json }) => json.type.endsWith("renewal-failed"))?.json.data.certificates[0].failure,
      "the policy says no",
    );
    await run();
    assert.equal(take().length, 0);
  });

  test("each certificate is a message of its own", async () => {
    await anAlert({ eventType: "issuance" });
    const ids = [];
    for (let count = 0; count < 5; count += 1) ids.push(await store.issue(wish(90)));
    await run();
    assert.deepEqual(
      told()
        .map(([, certificates]) => certificates[0])
        .sort(),
      ids.sort(),
    );
  });

  test("failed renewals are reported together, with their reasons, and once a day each", async () => {
    await anAlert({ eventType: "renewal-failed" });
    const ids = await store.seed(Array.from({ length: 25 }, (_, index) => wish(10 + index)));
    for (let round = 0; round < 3; round += 1) {
      for (const id of ids) await store.failRenewal(id, projectId, `the authority is away (${round})`);
      await run();
      house.clock.advance(HOUR);
    }
    const [message, ...more] = take();
    assert.equal(more.length, 0);
    const { certificates, metadata } = message?.json.data ?? {};
    assert.deepEqual([certificates.length, metadata.totalCertificates], [20, 25]);
    assert.deepEqual([certificates[0].id, certificates[0].failure], [ids[0], "the authority is away (0)"]);
    house.clock.advance(DAY);
    await store.failRenewal(ids[0] ?? "", projectId, "still away");
    await run();
    assert.deepEqual(told(), [["renewal-failed", [ids[0]]]]);
  });

  test("a change that was rolled back is not reported", async () => {
    await anAlert({ eventType: "issuance" });
    await assert.rejects(
      house.house.database.write(async (tx) => {
        putCertificate(tx, wish(90));
        tx.emit({
          name: "certificate.issued",
          data: { orgId: house.owner.orgId, projectId, certificateId: randomUUID() },
        });
        throw new Error("no");
      }),
    );
    await run();
    assert.equal(take().length, 0);
  });

  test("facts survive the clean-up of the outbox and the death of every node", async () => {
    await anAlert({ eventType: "issuance" });
    const id = await store.issue(wish(90));
    await house.house.database.write(
      (tx) => tx.rows({ name: undefined, isSlow: false, text: "DELETE FROM outbox" }),
      { audited: false },
    );
    const other = await house.openNode();
    await other.house.alertWork.runNow();
    assert.deepEqual(told(), [["issuance", [id]]]);
  });

  test("a project without alerts keeps nothing, another project's facts are not this one's", async () => {
    await anAlert({ eventType: "issuance" });
    const mine = projectId;
    const elsewhere = (await aProject(house.owner, { type: "cert-manager" })).id;
    await store.issue({ ...wish(90), projectId: elsewhere });
    const [kept] = await house.house.database.read((q) =>
      q.rows<{ count: number }>({
        name: undefined,
        isSlow: false,
        text: "SELECT count(*) AS count FROM alert_inbox",
      }),
    );
    assert.equal(kept?.count, 0);
    goOnIn(mine);
    await run();
    assert.equal(take().length, 0);
  });

  test("a digest collects an hour into one message", async () => {
    await anAlert({ eventType: "issuance", notificationConfig: { digest: "hourly" } });
    for (let count = 0; count < 25; count += 1) await store.issue(wish(90));
    await run();
    assert.equal(take().length, 0);
    house.clock.advance(HOUR);
    await run();
    const [message, ...more] = take();
    assert.equal(more.length, 0);
    assert.deepEqual(
      [message?.json.data.certificates.length, message?.json.data.metadata.totalCertificates],
      [20, 25],
    );
  });

  test("what waits for a digest is not reported by an alert that watches for something else by then", async () => {
    const digest = { notificationConfig: { digest: "hourly" } };
    const changes = [
      ["expiration", "revocation"],
      ["expiration", "issuance"],
      ["issuance", "revocation"],
      ["revocation", "expiration"],
      ["renewal-failed", "renewal"],
    ];
    for (const [from, to] of changes) {
      const alert = await anAlert({ eventType: from, ...digest });
      const id = await store.issue(wish(3, { commonName: "x" }));
      await store.failRenewal(id, projectId, "no");
      await store.revoke(await store.issue(wish(90)), projectId, house.clock.now());
      await run();
      assert.equal((await house.owner.patch(`${PATH}/${alert.id}`, { eventType: to })).status, 200);
      house.clock.advance(HOUR);
      await run();
      const expected = to === "expiration" ? [["expiration", [id]]] : [];
      assert.deepEqual(told(), expected, `${from} → ${to}`);
    }
  });

  test("what waits for a digest follows later changes of the alert", async () => {
    const alert = await anAlert({ notificationConfig: { digest: "hourly" } });
    const [soon] = await store.seed([
      wish(2, { commonName: "a" }),
      wish(2, { commonName: "b" }),
      wish(6, { commonName: "a" }),
    ]);
    await run();
    await house.owner.patch(`${PATH}/${alert.id}`, {
      filters: [{ field: "common_name", operator: "equals", value: "a" }],
      alertBefore: "3d",
    });
    house.clock.advance(HOUR);
    await run();
    assert.deepEqual(told(), [["expiration", [soon]]]);
  });

  test("H4 what many facts mean to many alerts is one message per alert, which counts them all", async () => {
    await anAlert({ eventType: "issuance" });
    const sql = <Row>(text: string, values: unknown[]): Promise<Row[]> =>
      house.house.database.write((tx) => tx.rows<Row>({ name: undefined, isSlow: false, text }, values), {
        audited: false,
      });
    await sql(
      `WITH copies AS (
         INSERT INTO alerts SELECT gen_random_uuid(), org_id, project_id, application_id, name, description, event_type, alert_before, filters,
           enabled, is_daily, digest, looked_at, gathered_at, created_at, updated_at FROM alerts, generate_series(1, 79) WHERE project_id = $1 RETURNING id)
       INSERT INTO alert_channels SELECT gen_random_uuid(), copies.id, c.position, c.channel_type, c.enabled, c.destination, c.data_key_id, c.settings, c.created_at, c.updated_at
       FROM copies, alert_channels c JOIN alerts a ON a.id = c.alert_id WHERE a.project_id = $1`,
      [projectId],
    );
    for (let part = 0; part < 10; part += 1)
      await Promise.all(Array.from({ length: 20 }, () => store.issue(wish(90))));
    await house.house.alertWork.jobs.find((job) => job.name === "alert-facts")?.run();
    const messages = await sql<{ total: number }>(
      `SELECT m.total FROM alert_messages m JOIN alerts a ON a.id = m.alert_id WHERE a.project_id = $1`,
      [projectId],
    );
    assert.deepEqual(
      messages.map(({ total }) => total),
      Array.from({ length: 80 }, () => 200),
    );
  });

  test("PagerDuty gets a resolution when the reported certificate is replaced", async () => {
    await anAlert({
      channels: [
        { config: { integrationKey: "0123456789abcdef0123456789abcdef" } },
        { config: { url: `${receiver.url}/in` } },
      ],
    });
    const id = await store.issue(wish(3));
    const untold = await store.issue(wish(30));
    await run();
    await store.renew(id, wish(90));
    await store.renew(untold, wish(90));
    await run();
    assert.deepEqual(
      pager.received.map(({ json }) => [json.event_action, json.dedup_key.split(":")[2]]),
      [
        ["trigger", id],
        ["resolve", id],
      ],
    );
    assert.equal(take().length, 1);
  });
});
