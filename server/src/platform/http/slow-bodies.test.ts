/** M1: a caller who was authenticated by the headers must still be when the last byte of the body arrives. */
import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { aProject, anIdentity } from "../../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

/** Half of the body, then whatever happens meanwhile, then the rest. */
async function slowly(
  token: string,
  path: string,
  body: unknown,
  meanwhile: () => Promise<unknown>,
): Promise<number> {
  const text = JSON.stringify(body);
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
  };
  const sending = request(`${house.base}${path}`, { method: "POST", headers });
  const answered = new Promise<number>((resolve, reject) => {
    sending.once("response", (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    sending.once("error", reject);
  });
  sending.write(text.slice(0, 10));
  await wait(1100);
  await meanwhile();
  sending.end(text.slice(10));
  return answered;
}

const someone = async () => {
  const { id: projectId } = await aProject(house.owner);
  const identity = await anIdentity(house.owner, house.base, projectId, { roles: [{ role: "admin" }] });
  const body = { projectId, environment: "dev", secretValue: "x" };
  return { ...identity, projectId, body };
};

test("M1 a token that was revoked while the body came does nothing", async () => {
  const { token, projectId, body } = await someone();
  const revoke = () =>
    house.anonymous.post("/api/v1/auth/token/revoke", { accessToken: token }).then(({ status }) => {
      assert.equal(status, 200);
    });
  assert.equal(await slowly(token, "/api/v4/secrets/A", body, revoke), 401);
  assert.equal(
    (await house.owner.get(`/api/v4/secrets/A?projectId=${projectId}&environment=dev`)).status,
    404,
  );
});

test("M1 nor does one that has ended, or whose identity has lost its rights", async () => {
  const lost = await someone();
  const remove = () =>
    house.owner.patch(`/api/v1/projects/${lost.projectId}/memberships/identities/${lost.id}`, {
      roles: [{ role: "no-access" }],
    });
  const path = `/api/v1/projects/${lost.projectId}/tags`;
  assert.equal(await slowly(lost.token, path, { slug: "a", color: "red" }, remove), 403);
  const ended = await someone();
  const later = async () => house.clock.advance(40 * 86_400_000);
  assert.equal(await slowly(ended.token, "/api/v4/secrets/A", ended.body, later), 401);
});

test("a slow body of a caller who is still allowed is accepted", async () => {
  const { token, body } = await someone();
  assert.equal(await slowly(token, "/api/v4/secrets/A", body, async () => undefined), 200);
});
