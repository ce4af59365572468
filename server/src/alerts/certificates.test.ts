import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import { aProject } from "../../test/builders.ts";
import { aPki, aRoot, issue } from "../../test/certificates.ts";
import {
  addAlert,
  anAlert,
  DAY,
  goOnIn,
  house,
  PATH,
  projectId,
  receiver,
  run,
  store,
  take,
  told,
  wish,
} from "../../test/alert-stage.ts";

describe("with the certificates room itself", () => {
  test("what is issued, renewed, held, released and revoked through the API is reported", async () => {
    const pki = await aPki(house);
    goOnIn(pki.project.id);
    receiver.received.length = 0;
    for (const eventType of ["issuance", "renewal", "revocation"])
      await addAlert({
        eventType,
        filters: [{ field: "profile_name", operator: "equals", value: pki.profile.slug }],
      });
    const issued = await issue(pki.client, pki.profile.id, { ttl: "90d" });
    const renewed = await pki.client.post(
      `/api/v1/cert-manager/certificates/${issued.certificateId}/renew`,
      {},
    );
    assert.equal(renewed.status, 200, JSON.stringify(renewed.body));
    const revoked = await pki.client.post(
      `/api/v1/cert-manager/certificates/${issued.certificateId}/revoke`,
      {
        revocationReason: "KEY_COMPROMISE",
      },
    );
    assert.equal(revoked.status, 200, JSON.stringify(revoked.body));
    await run();
    const messages = take();
    assert.deepEqual(messages.map(({ json }) => json.type.split(".").at(-1)).sort(), [
      "issuance",
      "renewal",
      "revocation",
    ]);
    const issuance = messages.find(({ json }) => json.type.endsWith("issuance"))?.json.data.certificates[0];
    assert.deepEqual(
      [issuance.id, issuance.serialNumber, issuance.profileName],
      [issued.certificateId, issued.serialNumber, pki.profile.slug],
    );
  });

  test("a root CA that is about to expire is reported to alerts with include_cas", async () => {
    const client = house.owner;
    goOnIn((await aProject(client, { type: "cert-manager" })).id);
    receiver.received.length = 0;
    const root = await aRoot(client, projectId, {
      notAfter: new Date(house.clock.millis() + 20 * DAY).toISOString(),
    });
    await addAlert({ alertBefore: "30d" });
    await addAlert({ alertBefore: "30d", filters: [{ field: "include_cas", value: true }] });
    await run();
    const messages = take();
    assert.equal(messages.length, 1);
    assert.deepEqual(
      messages[0]?.json.data.certificates.map((one: { commonName: string }) => one.commonName),
      [root.name],
    );
  });

  test("one that is released from hold is reported if it is due by then", async () => {
    const pki = await aPki(house);
    goOnIn(pki.project.id);
    receiver.received.length = 0;
    await addAlert({ alertBefore: "30d" });
    const issued = await issue(pki.client, pki.profile.id, { ttl: "31d" });
    const path = `/api/v1/cert-manager/certificates/${issued.certificateId}`;
    await run();
    const held = await pki.client.post(`${path}/revoke`, { revocationReason: "CERTIFICATE_HOLD" });
    assert.equal(held.status, 200, JSON.stringify(held.body));
    house.clock.advance(2 * DAY);
    await run();
    assert.deepEqual(told(), []);
    const released = await pki.client.post(`${path}/unhold`, {});
    assert.equal(released.status, 200, JSON.stringify(released.body));
    await run();
    assert.deepEqual(told(), [["expiration", [issued.certificateId]]]);
  });
});

describe("the calendar", () => {
  test("a link shows upcoming expiries without a token until it is revoked", async () => {
    await anAlert();
    await store.issue(wish(5, { commonName: `long, with; signs \\ and ${"ü".repeat(60)}` }));
    await store.issue(wish(2, { commonName: "soon" }));
    const made = await house.owner.post(`${PATH}/calendars`, { projectId });
    assert.equal(made.status, 200, JSON.stringify(made.body));
    const path = made.body.calendar.url.replace("https://keyward.example", "");
    const shown = await house.anonymous.get(path);
    assert.equal(shown.status, 200);
    assert.match(shown.headers.get("content-type") ?? "", /^text\/calendar/);
    assert.ok(shown.body.split("\r\n").every((line: string) => Buffer.byteLength(line) <= 75));
    const unfolded = shown.body.replaceAll("\r\n ", "");
    assert.ok(unfolded.includes("SUMMARY:long\\, with\\; signs \\\\ and"));
    assert.ok(unfolded.indexOf("soon expires") < unfolded.indexOf("SUMMARY:long"));
    const key = path.split("key=")[1] ?? "";
    const [id = "", mac = ""] = key.split(".");
    for (const forged of [`${id}.${"A".repeat(43)}`, `${randomUUID()}.${mac}`, id, "x", `${key}A`]) {
      assert.equal((await house.anonymous.get(`${PATH}/calendar.ics?key=${forged}`)).status, 404, forged);
    }
    assert.equal((await house.anonymous.get(`${PATH}/calendar.ics`)).status, 422);
    const { calendars } = (await house.owner.get(`${PATH}/calendars?projectId=${projectId}`)).body;
    assert.equal(calendars.length, 1);
    assert.ok(!JSON.stringify(calendars).includes(mac));
    const other = await house.newTenant();
    assert.equal((await other.delete(`${PATH}/calendars/${id}`)).status, 404);
    assert.equal((await house.owner.delete(`${PATH}/calendars/${id}`)).status, 200);
    assert.equal((await house.anonymous.get(path)).status, 404);
  });
});
