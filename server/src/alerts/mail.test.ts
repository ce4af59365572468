import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { SMTPServer } from "smtp-server";
import { openTestHouse } from "../../test/harness.ts";
import { inventory } from "../../test/alert-receiver.ts";

const PATH = "/api/v1/cert-manager/alerts";
const DAY = 86_400_000;

test("real mail is sent when a mail server is configured", async () => {
  const mails: string[] = [];
  const receivers: string[][] = [];
  let isBusy = false;
  const smtp = new SMTPServer({
    authOptional: true,
    closeTimeout: 500,
    disabledCommands: ["STARTTLS"],
    logger: false,
    onRcptTo: ({ address }, _session, done) =>
      done(
        isBusy && address.startsWith("busy")
          ? Object.assign(new Error("mailbox full"), { responseCode: 452 })
          : null,
      ),
    onData: (stream, session, done) => {
      receivers.push(session.envelope.rcptTo.map((one) => one.address));
      const parts: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => parts.push(chunk));
      stream.on("end", () => {
        mails.push(Buffer.concat(parts).toString());
        done();
      });
    },
  });
  await new Promise<void>((ready) => void smtp.listen(0, "127.0.0.1", ready));
  const port = (smtp.server.address() as AddressInfo).port;
  const own = await openTestHouse({
    env: { KEYWARD_SMTP_URL: `smtp://127.0.0.1:${port}`, KEYWARD_MAIL_FROM: "Keyward <k@keyward.example>" },
  });
  try {
    assert.equal((await own.anonymous.get("/api/status")).body.emailConfigured, true);
    const made = await own.owner.post(PATH, {
      name: "mail",
      eventType: "expiration",
      filters: [{ value: "example" }],
      channels: [{ config: { recipients: ["a@example.com"] } }],
    });
    const notBefore = own.clock.now();
    await inventory(own.house.database, own.owner.orgId).issue({
      projectId: made.body.alert.projectId,
      notBefore,
      notAfter: new Date(notBefore.getTime() + 5 * DAY),
    });
    await own.house.alertWork.runNow();
    assert.equal(mails.length, 1);
    const { deliveries: list } = (await own.owner.get(`${PATH}/${made.body.alert.id}/deliveries`)).body;
    assert.ok(mails[0]?.includes(`Message-ID: <${list[0].id}@keyward.example>`));
    assert.equal(list[0].status, "delivered");

    // One of two has a full mailbox at first: it gets the mail later, the other one gets it once.
    isBusy = true;
    await own.owner.patch(`${PATH}/${made.body.alert.id}`, {
      channels: [{ config: { recipients: ["a@example.com", "busy@example.com"] } }],
    });
    mails.length = 0;
    await inventory(own.house.database, own.owner.orgId).issue({
      projectId: made.body.alert.projectId,
      notBefore,
      notAfter: new Date(notBefore.getTime() + 6 * DAY),
    });
    const outcome = async () => {
      await own.house.alertWork.runNow();
      return (await own.owner.get(`${PATH}/${made.body.alert.id}/deliveries`)).body.deliveries[0];
    };
    const first = await outcome();
    assert.equal(first.status, "pending");
    assert.match(first.error, /busy@example\.com: 45\d/);
    isBusy = false;
    own.clock.advance(60_000);
    const second = await outcome();
    assert.deepEqual([second.id, second.status, second.error], [first.id, "delivered", null]);
    assert.deepEqual(receivers.slice(-2), [["a@example.com"], ["busy@example.com"]]);
  } finally {
    await own.close();
    await new Promise<void>((done) => smtp.close(() => done()));
  }
});
