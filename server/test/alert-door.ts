/** A house whose alerts are asked for through the door; importing it opens it before the file's first test. */
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { aProject } from "./builders.ts";
import { openTestHouse, type Tenant, type TestHouse } from "./harness.ts";
import { openReceiver, type Receiver } from "./alert-receiver.ts";

export const PATH = "/api/v1/cert-manager/alerts";
export const KEY = "0123456789abcdef0123456789abcdef";
export const email = { config: { recipients: ["ops@example.com"] } };
export const DAY = 86_400_000;

export let house: TestHouse;
export let owner: Tenant;
export let receiver: Receiver;
export let projectId: string;

before(async () => {
  house = await openTestHouse({ env: { KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" } });
  owner = house.owner;
  receiver = await openReceiver();
  projectId = (await aProject(owner, { type: "cert-manager" })).id;
});
after(async () => {
  await receiver.close();
  await house.close();
});

export const minimal = () => ({ name: "an alert", eventType: "expiration", filters: [], channels: [email] });
export const create = async (more: Record<string, unknown> = {}) => {
  const made = await owner.post(PATH, { ...minimal(), projectId, ...more });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  return made.body.alert;
};
