/**
 * A house with one receiver for webhooks and one in PagerDuty's place, for tests of what alerts tell. Importing it opens it
 * before the file's first test; each test has a project of its own, which goes afterwards.
 */
import assert from "node:assert/strict";
import { after, afterEach, before } from "node:test";
import { aProject } from "./builders.ts";
import { openTestHouse, type TestHouse } from "./harness.ts";
import { inventory, openReceiver, type CertificateWish, type Receiver } from "./alert-receiver.ts";

export const PATH = "/api/v1/cert-manager/alerts";
export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
const START = new Date("2026-05-10T10:00:00Z");

export let receiver: Receiver;
export let pager: Receiver;
export let house: TestHouse;
export let store: ReturnType<typeof inventory>;
export let projectId: string;
/** What a test leaves behind, undone after it. */
export const cleanUp: (() => Promise<unknown>)[] = [];

before(async () => {
  receiver = await openReceiver();
  pager = await openReceiver();
  house = await openTestHouse({
    start: START,
    env: {
      KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8",
      KEYWARD_PAGERDUTY_URL: `${pager.url}/v2/enqueue`,
      KEYWARD_PUBLIC_URL: "https://keyward.example",
    },
  });
  store = inventory(house.house.database, house.owner.orgId);
});
after(async () => {
  await house.close();
  await receiver.close();
  await pager.close();
});
afterEach(async () => {
  receiver.answer = () => 200;
  for (const undo of cleanUp.splice(0)) await undo();
});

/** The tests go on in a project that they made themselves. */
export const goOnIn = (id: string): void => {
  projectId = id;
};

/** A project of its own for each test, with an alert to the receiver; both are gone afterwards. */
export async function anAlert(more: Record<string, unknown> = {}) {
  projectId = (await aProject(house.owner, { type: "cert-manager" })).id;
  const ownProject = projectId;
  cleanUp.push(() => house.owner.delete(`/api/v1/projects/${ownProject}`));
  receiver.received.length = 0;
  pager.received.length = 0;
  return addAlert(more);
}
export async function addAlert(more: Record<string, unknown> = {}) {
  const made = await house.owner.post(PATH, {
    name: "watch",
    eventType: "expiration",
    alertBefore: "7d",
    filters: [],
    channels: [{ config: { url: `${receiver.url}/in` } }],
    projectId,
    ...more,
  });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  return made.body.alert;
}
export const wish = (days: number, more: Partial<CertificateWish> = {}): CertificateWish => ({
  projectId,
  notBefore: house.clock.now(),
  notAfter: new Date(house.clock.millis() + days * DAY),
  ...more,
});
export const run = () => house.house.alertWork.runNow();
export const take = () => receiver.received.splice(0);
export const told = () =>
  take().map(({ json }) => [
    json.type.split(".").at(-1),
    json.data.certificates.map((one: { id: string }) => one.id),
  ]);
export const deliveries = async (id: string) =>
  (await house.owner.get(`${PATH}/${id}/deliveries?limit=100`)).body;
/** A webhook at another path of the same receiver: another destination. */
export const to = (path: string) => ({ config: { url: `${receiver.url}${path}` } });
