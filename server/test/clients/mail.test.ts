import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { until } from "../builders.ts";
import { stopOwnPostgres } from "../postgres.ts";
import { startKeyward, type RunningKeyward } from "./keyward.ts";
import {
  makeCertificate,
  startAiosmtpd,
  startPostfix,
  type MailServer,
  type ServerCertificate,
} from "./mail-servers.ts";
import { ask } from "./programs.ts";

/** What Python's email package makes of a message. */
interface ReadMail {
  readonly subject: string;
  readonly from: string[];
  readonly to: string[];
  readonly messageId: string;
  readonly date: number;
  readonly autoSubmitted: string;
  readonly headers: string[];
  readonly type: string;
  readonly parts: Readonly<Record<string, string>>;
  readonly defects: string[];
}

const LOGIN = { user: "me", password: "right, and with a sign: @" };
const PATIENCE_MS = 60_000;
const COMMON_NAME = "Gerät 東京.example.com";
let tls: ServerCertificate;

before(() => {
  tls = makeCertificate();
});
after(async () => {
  tls.remove();
  await stopOwnPostgres();
});

const mailChannel = (...recipients: string[]) => ({ channels: [{ config: { recipients } }] });
const smtpUrl = (port: number, password?: string): string =>
  `smtp://${password === undefined ? "" : `${LOGIN.user}:${encodeURIComponent(password)}@`}127.0.0.1:${port}`;

interface Place {
  readonly name: string;
  readonly start: () => Promise<MailServer>;
  readonly url: (port: number) => string;
  readonly isEncrypted: boolean;
  readonly user: string | null;
  /** Postfix hands each recipient a copy; the other shows the one message it took. */
  readonly copies: number;
}

const PLACES: readonly Place[] = [
  {
    name: "aiosmtpd, without encryption",
    start: () => startAiosmtpd(),
    url: (port) => smtpUrl(port),
    isEncrypted: false,
    user: null,
    copies: 1,
  },
  {
    name: "aiosmtpd, with STARTTLS and a login",
    start: () => startAiosmtpd({ tls, login: LOGIN }),
    url: (port) => `${smtpUrl(port, LOGIN.password)}?requireTLS=true`,
    isEncrypted: true,
    user: LOGIN.user,
    copies: 1,
  },
  {
    name: "Postfix, with STARTTLS",
    start: () => startPostfix(tls),
    url: (port) => smtpUrl(port),
    isEncrypted: true,
    user: null,
    copies: 2,
  },
];

for (const place of PLACES) {
  describe(`a mail to ${place.name}`, () => {
    let mail: MailServer;
    let keyward: RunningKeyward;
    before(async () => {
      mail = await place.start();
      keyward = await startKeyward({
        KEYWARD_SMTP_URL: place.url(mail.port),
        NODE_EXTRA_CA_CERTS: tls.authority,
      });
    });
    after(async () => {
      await keyward?.close();
      await mail?.close();
    });

    test("arrives once, and another implementation reads all of it", async () => {
      const alertId = await keyward.addAlert({
        name: "Wächter – 守",
        eventType: "expiration",
        alertBefore: "30d",
        ...mailChannel("a@example.com", "b@example.com"),
      });
      const { certificateId, serialNumber } = await keyward.issue({ commonName: COMMON_NAME, ttl: "10d" });
      const [delivery, ...more] = await keyward.deliveriesThat(alertId, (one) => one.status === "delivered");
      assert.ok(delivery);
      assert.deepEqual(more, []);
      await until(async () => mail.taken().length >= place.copies, PATIENCE_MS);
      const taken = mail.taken();
      assert.equal(taken.length, place.copies);
      assert.deepEqual(taken.flatMap((one) => one.to).sort(), ["a@example.com", "b@example.com"]);
      for (const one of taken) {
        assert.deepEqual(
          [one.from, one.isEncrypted, one.user],
          ["alerts@keyward.example", place.isEncrypted, place.user],
        );
        const read = ask<ReadMail>("read_mail.py", one.raw);
        assert.deepEqual(read.defects, []);
        assert.equal(read.subject, `[Keyward] ${COMMON_NAME} expires in 9 days – Wächter – 守`);
        assert.deepEqual(read.from, ["alerts@keyward.example"]);
        assert.deepEqual(read.to, ["a@example.com", "b@example.com"]);
        assert.equal(read.messageId, `<${delivery.id}@keyward.example>`);
        assert.ok(Math.abs(read.date - Date.now() / 1000) < 600);
        assert.equal(read.autoSubmitted, "auto-generated");
        for (const header of ["subject", "from", "to", "message-id", "date", "mime-version"])
          assert.equal(read.headers.filter((name) => name === header).length, 1, header);
        assert.equal(read.type, "multipart/alternative");
        assert.deepEqual(Object.keys(read.parts).sort(), ["text/html", "text/plain"]);
        const link = `https://keyward.example/projects/${keyward.projectId}/certificates/${certificateId}`;
        for (const part of Object.values(read.parts))
          for (const words of [COMMON_NAME, serialNumber, link, "in 9 days"])
            assert.ok(part.includes(words), `${words} is not in ${part}`);
      }
      assert.equal(
        (await keyward.owner.get(`/api/v1/cert-manager/alerts/${alertId}`)).body.alert.lastRun.status,
        "success",
      );
    });

    test("to a mailbox that is not there fails at once, with the server's words", async () => {
      const alertId = await keyward.addAlert(mailChannel("gone@example.com"));
      await keyward.issue({ ttl: "90d" });
      const [delivery] = await keyward.deliveriesThat(alertId, (one) => one.status !== "pending");
      assert.deepEqual([delivery?.status, delivery?.attempts], ["failed", 1]);
      assert.match(delivery?.error ?? "", /550 5\.1\.1/);
    });
  });
}

describe("a mail server that does not let us in", () => {
  let mail: MailServer;
  before(async () => {
    mail = await startAiosmtpd({ tls, login: LOGIN });
  });
  after(() => mail?.close());

  /** The delivery waits and says why, so does the alert; after a day it is failed; a test says it at once. */
  async function expectFailure(env: Record<string, string>, words: RegExp): Promise<void> {
    const keyward = await startKeyward(env);
    try {
      const alertId = await keyward.addAlert(mailChannel("a@example.com"));
      await keyward.issue({ ttl: "90d" });
      const [waiting] = await keyward.deliveriesThat(alertId, (one) => one.error !== null);
      assert.equal(waiting?.status, "pending");
      assert.match(waiting?.error ?? "", words);
      const { lastRun } = (await keyward.owner.get(`/api/v1/cert-manager/alerts/${alertId}`)).body.alert;
      assert.equal(lastRun.status, "failed");
      assert.match(lastRun.error, words);
      await keyward.letADayPass();
      const [failed] = await keyward.deliveriesThat(alertId, (one) => one.status === "failed");
      assert.match(failed?.error ?? "", words);
      assert.match(failed?.error ?? "", /given up after a day/);
      const tested = await keyward.owner.post(`/api/v1/cert-manager/alerts/${alertId}/test`);
      assert.deepEqual([tested.status, tested.body.success], [200, false]);
      assert.match(tested.body.results[0].error, words);
      assert.ok(!JSON.stringify([waiting, failed, tested.body]).includes("wrong-secret"));
    } finally {
      await keyward.close();
    }
  }

  test("because of a wrong password: the delivery fails and says so", () =>
    expectFailure(
      {
        KEYWARD_SMTP_URL: `${smtpUrl(mail.port, "wrong-secret")}?requireTLS=true`,
        NODE_EXTRA_CA_CERTS: tls.authority,
      },
      /Invalid login: 535/,
    ));

  test("because we do not trust its certificate: the delivery fails and says so", () =>
    expectFailure(
      { KEYWARD_SMTP_URL: `${smtpUrl(mail.port, LOGIN.password)}?requireTLS=true` },
      /certificate/i,
    ));

  test("took nothing", () => assert.deepEqual(mail.taken(), []));
});
