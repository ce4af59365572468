import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { openReceiver, type Receiver } from "../alert-receiver.ts";
import { until } from "../builders.ts";
import { ok } from "../certificates.ts";
import { stopOwnPostgres } from "../postgres.ts";
import { startKeyward, type RunningKeyward } from "./keyward.ts";
import { ask, requireModule } from "./programs.ts";

const PATIENCE_MS = 60_000;
let keyward: RunningKeyward;
let receiver: Receiver;
before(async () => {
  receiver = await openReceiver();
  keyward = await startKeyward();
});
after(async () => {
  await keyward?.close();
  await receiver?.close();
  await stopOwnPostgres();
});

describe("the calendar, read by python3-icalendar", () => {
  interface ReadCalendar {
    readonly version: string;
    readonly errors: string[];
    readonly events: readonly {
      readonly uid: string;
      readonly stamp: number;
      readonly start: number;
      readonly summary: string;
      readonly description: string;
      readonly url: string;
    }[];
  }

  test("says of each certificate when it ends, whatever its name", async () => {
    requireModule("icalendar", "python3-icalendar");
    const names = ["soon.example.com", 'signs \\ , ; : and "quotes"', `${"ü".repeat(60)} 東京`];
    const issued = [];
    for (const [index, commonName] of names.entries())
      issued.push(await keyward.issue({ commonName, ttl: `${5 + index}d` }));
    const made = ok(
      await keyward.owner.post("/api/v1/cert-manager/alerts/calendars", { projectId: keyward.projectId }),
    );
    const path = (made.calendar.url as string).replace("https://keyward.example", "");
    const response = await fetch(`${keyward.base}${path}`);
    const calendar = ask<ReadCalendar>("read_calendar.py", Buffer.from(await response.arrayBuffer()));
    assert.deepEqual([calendar.version, calendar.errors], ["2.0", []]);
    const events = calendar.events.slice(0, names.length);
    assert.deepEqual(
      events.map((event) => [event.uid, event.summary, event.url]),
      issued.map(({ certificateId }, index) => [
        `${certificateId}@keyward`,
        `${names[index]} expires`,
        `https://keyward.example/projects/${keyward.projectId}/certificates/${certificateId}`,
      ]),
    );
    // The root ends too, years later.
    assert.match(calendar.events.at(-1)?.summary ?? "", /^root-\S+ expires$/);
    assert.equal(calendar.events.length, names.length + 1);
    for (const [index, event] of events.entries()) {
      assert.ok(Math.abs(event.stamp - Date.now() / 1000) < 600);
      assert.ok(Math.abs(event.start - event.stamp - (5 + index) * 86_400) < 600, String(event.start));
      assert.ok(event.description.includes(issued[index]?.serialNumber ?? "?"));
    }
  });
});

describe("a webhook's signature, checked by a receiver written in Python from the specification", () => {
  test("is accepted as it came, and refused after any change", async () => {
    const secret = `whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`;
    await keyward.addAlert({
      name: "Wächter – 守",
      channels: [{ config: { url: `${receiver.url}/in`, signingSecret: secret } }],
    });
    await keyward.issue({ commonName: "signed.example.com" });
    await until(async () => receiver.received.length > 0, PATIENCE_MS);
    const [got] = receiver.received;
    assert.ok(got);
    const { headers, body } = got;
    const isGenuine = (more: Record<string, unknown> = {}): boolean =>
      ask<boolean>("verify_webhook.py", JSON.stringify({ headers, body, secret, ...more }));
    assert.equal(isGenuine(), true);
    assert.equal(isGenuine({ body: `${body} ` }), false);
    assert.equal(isGenuine({ secret: `whsec_${Buffer.from("another").toString("base64")}` }), false);
    const stamp = Number(headers["webhook-timestamp"]);
    for (const changed of [
      { "webhook-id": "other" },
      { "webhook-timestamp": String(stamp - 1) },
      { "webhook-timestamp": String(stamp - 3600) },
      { "webhook-signature": "v1," },
    ])
      assert.equal(isGenuine({ headers: { ...headers, ...changed } }), false, JSON.stringify(changed));
  });
});
