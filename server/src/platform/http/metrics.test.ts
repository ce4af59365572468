import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";
import type { Measure } from "../measure.ts";
import { createMetrics } from "./metrics.ts";

const gauge = (name: Measure["name"], read: Measure["read"]): Measure => ({
  name,
  help: "For a test.",
  kind: "gauge",
  read,
});

describe("measures", () => {
  it("are read at each scrape, counters and gauges alike", async () => {
    let value = 3;
    const labels = ["outcome"];
    const { registry } = createMetrics([
      gauge("keyward_test_level", () => [{ value }]),
      {
        name: "keyward_test_total",
        help: "For a test.",
        kind: "counter",
        labels,
        read: () => [{ of: ["good"], value }],
      },
    ]);
    for (value of [3, 3, 5]) {
      const text = await registry.metrics();
      assert.match(text, new RegExp(`^keyward_test_level ${value}$`, "m"));
      assert.match(text, new RegExp(`^keyward_test_total\\{outcome="good"\\} ${value}$`, "m"));
    }
  });

  it("that fail or do not answer are left out, and the others are shown", async () => {
    const { registry } = createMetrics([
      gauge("keyward_test_failing", () => Promise.reject(new Error("away"))),
      gauge("keyward_test_silent", () => new Promise(() => undefined)),
      gauge("keyward_test_well", () => [{ value: 1 }]),
    ]);
    const text = await registry.metrics();
    assert.match(text, /^keyward_test_failing Nan$/m);
    assert.match(text, /^keyward_test_silent Nan$/m);
    assert.match(text, /^keyward_test_well 1$/m);
  });
});

const TOKEN = "a token for the metrics";

describe("the metrics of a server", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse({ env: { KEYWARD_METRICS_TOKEN: TOKEN } });
  });
  after(() => house.close());

  const look = () => house.anonymous.get("/metrics", { token: TOKEN });

  it("M6 need the token", async () => {
    assert.equal((await look()).status, 200);
    assert.match(String((await look()).body), /keyward_http_requests_total\{/);
    assert.equal((await house.anonymous.get("/metrics")).status, 404);
    assert.equal((await house.anonymous.get("/metrics", { token: `${TOKEN}x` })).status, 404);
  });

  it("show streams, deliveries, jobs, the outbox and connections", async () => {
    await house.house.jobs.runDue();
    const { body } = await look();
    const text = String(body);
    assert.match(text, /^keyward_event_streams 0$/m);
    assert.match(text, /^keyward_deliveries_waiting 0$/m);
    assert.match(text, /^keyward_deliveries_oldest_seconds 0$/m);
    assert.match(text, /^keyward_job_failing\{job="alert-due"\} 0$/m);
    const finished = /^keyward_job_finished_timestamp_seconds\{job="alert-due"\} (\d+)/m.exec(text)?.[1];
    const secondsAgo = house.clock.millis() / 1000 - Number(finished);
    assert.ok(secondsAgo >= 0 && secondsAgo < 60, `${secondsAgo} seconds ago`);
    for (const name of ["lag", "deaf"])
      assert.match(text, new RegExp(`^keyward_outbox_${name}_seconds [\\d.e-]+$`, "m"));
    assert.match(text, /^keyward_database_connections\{state="awaited"\} 0$/m);
  });

  it("name a job that fails", async () => {
    house.house.jobs.add({
      name: "test-broken",
      everySeconds: 60,
      run: () => Promise.reject(new Error("broken")),
    });
    await house.house.jobs.runDue();
    const { body } = await look();
    assert.match(String(body), /^keyward_job_failing\{job="test-broken"\} 1$/m);
  });
});
