import assert from "node:assert/strict";
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { after, before, describe, test } from "node:test";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { openReceiver, type Receiver } from "../../test/alert-receiver.ts";
import { systemClock } from "../platform/clock.ts";
import { parseCidrs } from "../platform/config.ts";
import { createOutbound } from "../platform/outbound.ts";
import { redact } from "../platform/redacted.ts";
import { emailChannel } from "./channels/email.ts";
import { htmlBody, subjectOf, textBody } from "./channels/email-message.ts";
import type { Notice, NoticeCertificate } from "./contract.ts";
import { pagerDutyChannel } from "./channels/pagerduty.ts";
import { slackChannel, slackMessage } from "./channels/slack.ts";
import { createMailer } from "./channels/smtp.ts";
import { webhookChannel } from "./channels/webhook.ts";
import { certificateToPem, exportPkcs8Pem, nameFrom } from "@keyward/x509";
import { dns, issueLeaf, makeAuthority, sharedKeys } from "@keyward/x509/testing";

const allowed = parseCidrs("127.0.0.0/8");
const outbound = createOutbound({ allowed, timeoutMs: 5000 });

const certificate = (more: Partial<NoticeCertificate> = {}): NoticeCertificate => ({
  id: "0190c0de-0000-7000-8000-000000000001",
  serialNumber: "0a1b2c",
  commonName: "api.example.com",
  san: ["api.example.com", "www.example.com"],
  profileName: "web",
  notBefore: "2026-01-01T00:00:00.000Z",
  notAfter: "2026-12-01T12:30:00.000Z",
  status: "active",
  daysUntilExpiry: 12,
  viewUrl: "https://keyward.example/projects/p/certificates/1",
  ...more,
});
const notice = (more: Partial<Notice> = {}): Notice => ({
  id: "0190c0de-0000-7000-8000-0000000000aa",
  kind: "expiration",
  at: "2026-11-19T00:00:00.000Z",
  alert: { id: "0190c0de-0000-7000-8000-0000000000bb", name: "Web", alertBefore: "30d", applicationId: null },
  certificates: [certificate()],
  total: 1,
  viewUrl: "https://keyward.example/projects/p/alerts/1",
  ...more,
});

/**
 * Written from the text of the Standard Webhooks specification, not from our code: the signed content is the id, the
 * timestamp and the body, joined by full stops; the key is what follows `whsec_`, base64-decoded; the header is a
 * space-separated list of `version,signature`, of which one v1 has to fit; the timestamp is in seconds and recent.
 */
function verifyStandardWebhook(
  headers: Record<string, string | string[] | undefined>,
  body: string,
  secret: string,
): boolean {
  const [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(
    (name) => headers[name],
  );
  if (typeof id !== "string" || typeof timestamp !== "string" || typeof signatures !== "string") return false;
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const expected = createHmac("sha256", key)
    .update(Buffer.from(`${id}.${timestamp}.${body}`, "utf8"))
    .digest();
  return signatures.split(" ").some((entry) => {
    const [version, value = ""] = entry.split(",");
    const given = Buffer.from(value, "base64");
    return version === "v1" && given.length === expected.length && timingSafeEqual(given, expected);
  });
}

describe("webhook", () => {
  let receiver: Receiver;
  before(async () => {
    receiver = await openReceiver();
  });
  after(() => receiver.close());
  const channel = webhookChannel({ outbound, clock: systemClock });
  const secret = `whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`;

  test("is a CloudEvents 1.0 document with the delivery's id", async () => {
    receiver.received.length = 0;
    assert.deepEqual(await channel.send({ url: `${receiver.url}/in` }, notice({ total: 30 })), {
      kind: "taken",
    });
    const [got] = receiver.received;
    assert.ok(got);
    assert.equal(got.headers["content-type"], "application/cloudevents+json; charset=utf-8");
    const { viewUrl: _, ...shown } = certificate();
    assert.deepEqual(got.json, {
      specversion: "1.0",
      id: notice().id,
      type: "dev.keyward.certificate.expiration",
      source: `/alerts/${notice().alert.id}`,
      time: notice().at,
      datacontenttype: "application/json",
      data: {
        alert: notice().alert,
        certificates: [shown],
        metadata: { totalCertificates: 30, viewUrl: notice().viewUrl },
      },
    });
    assert.equal(got.headers["webhook-id"], notice().id);
    assert.equal(got.headers["webhook-signature"], undefined);
  });

  test("its signatures are accepted by verifiers of both kinds, and by none after a change", async () => {
    receiver.received.length = 0;
    await channel.send(
      { url: receiver.url, signingSecret: secret },
      notice({ alert: { ...notice().alert, name: "Ünïcode ✓" } }),
    );
    const [got] = receiver.received;
    assert.ok(got);
    assert.equal(verifyStandardWebhook(got.headers, got.body, secret), true);
    assert.equal(verifyStandardWebhook(got.headers, `${got.body} `, secret), false);
    assert.equal(verifyStandardWebhook({ ...got.headers, "webhook-id": "other" }, got.body, secret), false);
    assert.equal(
      verifyStandardWebhook(got.headers, got.body, `whsec_${Buffer.from("other").toString("base64")}`),
      false,
    );
    const family = /^t=(\d{13}),v1=([0-9a-f]{64})$/.exec(String(got.headers["x-infisical-signature"]));
    assert.ok(family);
    assert.equal(createHmac("sha256", secret).update(`${family[1]}.${got.body}`).digest("hex"), family[2]);
  });

  test("a secret of one's own words works as its own bytes", async () => {
    receiver.received.length = 0;
    await channel.send({ url: receiver.url, signingSecret: "open sesame" }, notice());
    const [got] = receiver.received;
    assert.ok(got);
    assert.equal(
      verifyStandardWebhook(got.headers, got.body, `whsec_${Buffer.from("open sesame").toString("base64")}`),
      true,
    );
  });

  const answers: readonly [number, string][] = [
    [200, "taken"],
    [204, "taken"],
    [301, "later"],
    [400, "refused"],
    [404, "refused"],
    [408, "later"],
    [410, "refused"],
    [429, "later"],
    [500, "later"],
    [503, "later"],
  ];
  for (const [status, kind] of answers) {
    test(`an answer of ${status} is ${kind}, and its body is not repeated`, async () => {
      receiver.answer = () => status;
      const outcome = await channel.send({ url: receiver.url }, notice());
      assert.equal(outcome.kind, kind);
      assert.ok(!JSON.stringify(outcome).includes("nobody"));
      receiver.answer = () => 200;
    });
  }
});

describe("TLS to a pinned address", () => {
  let server: Server;
  let port: number;
  let ca: string;
  before(async () => {
    const authority = await makeAuthority({ name: "Hook Root" });
    const leaf = await issueLeaf(authority, {
      subject: nameFrom({ commonName: "good.example" }),
      altNames: [dns("good.example")],
      fields: { notAfter: new Date("2054-01-01T00:00:00Z") },
    });
    const { privateKey } = await sharedKeys("EC_prime256v1", "leaf");
    ca = certificateToPem(authority.certificate.der);
    server = createServer(
      { key: exportPkcs8Pem(privateKey), cert: certificateToPem(leaf.der) },
      (_request, response) => void response.end(),
    );
    await new Promise<void>((done) => void server.listen(0, "127.0.0.1", done));
    port = (server.address() as AddressInfo).port;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  const send = (host: string, trusted?: string) =>
    webhookChannel({
      outbound: createOutbound({
        allowed,
        resolve: async () => ["127.0.0.1"],
        timeoutMs: 5000,
        ...(trusted === undefined ? {} : { ca: trusted }),
      }),
      clock: systemClock,
    }).send({ url: `https://${host}:${port}/` }, notice());

  test("the name in the certificate is still the one that was asked for", async () => {
    assert.deepEqual(await send("good.example", ca), { kind: "taken" });
    const wrong = await send("evil.example", ca);
    assert.equal(wrong.kind, "later");
    assert.match((wrong as { reason: string }).reason, /evil\.example/);
  });
  test("a certificate of nobody we trust is refused", async () =>
    assert.equal((await send("good.example")).kind, "later"));
});

describe("Slack", () => {
  test("names cannot ping the channel or forge a link", () => {
    const { text, blocks } = slackMessage(
      notice({
        alert: { ...notice().alert, name: "<!channel> `x` & <https://evil|here>" },
        certificates: [certificate({ commonName: "<!here>\nnew line" })],
      }),
    ) as { text: string; blocks: unknown[] };
    // The first block is plain_text, in which Slack reads no markup at all.
    const message = JSON.stringify([text, ...blocks.slice(1)]);
    assert.ok(
      !message.includes("<!channel>") && !message.includes("<!here>") && !message.includes("<https://evil"),
    );
    assert.ok(message.includes("&lt;!channel&gt;"));
  });
  test("twenty long certificates stay within what Slack takes", () => {
    const message = slackMessage(
      notice({
        certificates: Array.from({ length: 20 }, () =>
          certificate({ commonName: "x".repeat(300), failure: "y".repeat(500) }),
        ),
        total: 100_000,
      }),
    ) as { blocks: { text?: { text: string } }[] };
    assert.ok(message.blocks.length <= 50);
    for (const block of message.blocks) assert.ok((block.text?.text.length ?? 0) <= 3000);
    assert.ok(JSON.stringify(message).includes("99,980 more"));
  });
  test("only the end of its address is shown", () => {
    assert.deepEqual(
      slackChannel({ outbound }).show({ webhookUrl: "https://hooks.slack.com/services/T/B/secret" }),
      { webhookUrl: "https://hooks.slack.com/***************cret" },
    );
  });
  test("it is posted as blocks", async () => {
    const receiver = await openReceiver();
    try {
      assert.deepEqual(
        await slackChannel({ outbound }).send({ webhookUrl: `${receiver.url}/services/x` }, notice()),
        { kind: "taken" },
      );
      assert.equal(receiver.received[0]?.json.blocks[0].type, "header");
      assert.equal(receiver.received[0]?.json.blocks[0].text.text, "api.example.com expires in 12 days");
    } finally {
      await receiver.close();
    }
  });
});

describe("PagerDuty", () => {
  let receiver: Receiver;
  before(async () => {
    receiver = await openReceiver();
  });
  after(() => receiver.close());
  const key = "0123456789abcdef0123456789abcdef";
  const send = (given: Notice) =>
    pagerDutyChannel({ outbound, url: `${receiver.url}/v2/enqueue` }).send({ integrationKey: key }, given);
  const second = certificate({ id: "0190c0de-0000-7000-8000-000000000002", daysUntilExpiry: 0 });

  test("each certificate is an incident of its own, and says how many are not shown", async () => {
    receiver.received.length = 0;
    assert.deepEqual(await send(notice({ certificates: [certificate(), second], total: 100 })), {
      kind: "taken",
    });
    assert.deepEqual(
      receiver.received.map(({ json }) => [json.event_action, json.dedup_key, json.payload.severity]),
      [
        ["trigger", `keyward:${notice().alert.id}:${certificate().id}`, "warning"],
        ["trigger", `keyward:${notice().alert.id}:${second.id}`, "critical"],
      ],
    );
    for (const { json } of receiver.received) {
      assert.match(json.payload.summary, /and 98 more/);
      assert.equal(json.payload.custom_details.totalCertificates, 100);
    }
    assert.ok(
      receiver.received.every(
        ({ json }) =>
          json.routing_key === key &&
          json.payload.source === "keyward" &&
          json.payload.summary.length <= 1024,
      ),
    );
  });
  test("a resolution carries the same key", async () => {
    receiver.received.length = 0;
    await send(notice({ kind: "resolution" }));
    assert.deepEqual(
      receiver.received.map(({ json }) => json),
      [
        {
          routing_key: key,
          event_action: "resolve",
          dedup_key: `keyward:${notice().alert.id}:${certificate().id}`,
        },
      ],
    );
  });
  test("a failure in the middle is a failure of the whole", async () => {
    let calls = 0;
    receiver.answer = () => ((calls += 1) === 2 ? 503 : 202);
    assert.equal((await send(notice({ certificates: [certificate(), second], total: 2 }))).kind, "later");
    receiver.answer = () => 202;
  });
  test("one incident that is refused does not keep the others from being opened", async () => {
    const third = certificate({ id: "0190c0de-0000-7000-8000-000000000003" });
    const all = notice({ certificates: [certificate(), second, third], total: 3 });
    receiver.received.length = 0;
    receiver.answer = ({ json }) => (json.dedup_key.endsWith(second.id) ? 400 : 202);
    const outcome = await send(all);
    assert.equal(receiver.received.length, 3);
    assert.equal(outcome.kind, "taken");
    assert.match("remark" in outcome ? (outcome.remark ?? "") : "", new RegExp(`${second.id}: answered 400`));
    receiver.answer = () => 400;
    assert.deepEqual(await send(all), { kind: "refused", reason: "answered 400" });
    receiver.answer = () => 202;
  });
});

describe("e-mail", () => {
  interface Mail {
    readonly from: string;
    readonly to: string[];
    readonly raw: string;
    readonly secure: boolean;
    readonly user: unknown;
  }
  const mails: Mail[] = [];

  async function openSmtp(
    options: SMTPServerOptions = {},
  ): Promise<{ port: number; close(): Promise<void> }> {
    const server = new SMTPServer({
      authOptional: true,
      logger: false,
      onRcptTo: (address, _session, done) => {
        const reply = (code: number) => Object.assign(new Error("no"), { responseCode: code });
        done(
          address.address.startsWith("gone")
            ? reply(550)
            : address.address.startsWith("busy")
              ? reply(451)
              : null,
        );
      },
      onAuth: (auth, _session, done) =>
        auth.password === "right" ? done(null, { user: auth.username }) : done(new Error("wrong password")),
      onData: (stream, session, done) => {
        const parts: Buffer[] = [];
        stream.on("data", (chunk: Buffer) => parts.push(chunk));
        stream.on("end", () => {
          const { mailFrom, rcptTo } = session.envelope;
          mails.push({
            from: mailFrom === false ? "" : mailFrom.address,
            to: rcptTo.map((one) => one.address),
            raw: Buffer.concat(parts).toString(),
            secure: session.secure,
            user: session.user,
          });
          done();
        });
      },
      ...options,
    });
    server.on("error", () => undefined);
    await new Promise<void>((ready) => void server.listen(0, "127.0.0.1", ready));
    return {
      port: (server.server.address() as AddressInfo).port,
      close: () => new Promise((done) => server.close(() => done())),
    };
  }

  let smtp: Awaited<ReturnType<typeof openSmtp>>;
  before(async () => {
    smtp = await openSmtp();
  });
  after(() => smtp.close());

  const sendTo = async (url: string, recipients: readonly string[], given = notice()) => {
    mails.length = 0;
    const mailer = createMailer(redact(url), "Keyward <alerts@keyward.example>");
    try {
      return await emailChannel({ mailer }).send({ recipients }, given);
    } finally {
      mailer.close();
    }
  };
  const plain = () => `smtp://127.0.0.1:${smtp.port}/?ignoreTLS=true`;
  const decodedHeaders = (raw: string) =>
    (raw.split("\r\n\r\n")[0] ?? "").replace(/\r\n[ \t]+/g, " ").split("\r\n");

  test("one message to all recipients, its Message-ID the delivery's, as text and as HTML", async () => {
    assert.deepEqual(await sendTo(plain(), ["a@example.com", "b@example.com"]), { kind: "taken" });
    assert.equal(mails.length, 1);
    const [mail] = mails;
    assert.ok(mail);
    assert.deepEqual([mail.from, mail.to], ["alerts@keyward.example", ["a@example.com", "b@example.com"]]);
    const headers = decodedHeaders(mail.raw);
    assert.ok(headers.includes(`Message-ID: <${notice().id}@keyward.example>`), headers.join("\n"));
    assert.ok(headers.includes("Auto-Submitted: auto-generated"));
    assert.match(mail.raw, /Content-Type: text\/plain/);
    assert.match(mail.raw, /Content-Type: text\/html/);
  });

  test("no name can add a header or a recipient", async () => {
    const evil = "x\r\nBcc: victim@example.com\r\n\r\nbody\u2028\u0000";
    assert.deepEqual(
      await sendTo(
        plain(),
        ["a@example.com"],
        notice({
          alert: { ...notice().alert, name: evil },
          certificates: [certificate({ commonName: evil, san: [evil], profileName: evil })],
        }),
      ),
      { kind: "taken" },
    );
    const [mail] = mails;
    assert.ok(mail);
    assert.deepEqual(mail.to, ["a@example.com"]);
    const names = decodedHeaders(mail.raw).map((line) => line.split(":")[0]?.toLowerCase());
    assert.ok(!names.includes("bcc"));
    assert.equal(names.filter((name) => name === "subject").length, 1);
  });

  test("TLS from the start, STARTTLS on demand, and a login", async () => {
    const authority = await makeAuthority({ name: "Mail Root" });
    const leaf = await issueLeaf(authority, {
      altNames: [dns("localhost")],
      fields: { notAfter: new Date("2054-01-01T00:00:00Z") },
    });
    const { privateKey } = await sharedKeys("EC_prime256v1", "leaf");
    const tls = { key: exportPkcs8Pem(privateKey), cert: certificateToPem(leaf.der) };
    const query = "tls.rejectUnauthorized=false";
    const [direct, starttls] = await Promise.all([openSmtp({ ...tls, secure: true }), openSmtp({ ...tls })]);
    try {
      assert.deepEqual(
        await sendTo(`smtps://me:right@127.0.0.1:${direct.port}/?${query}`, ["a@example.com"]),
        { kind: "taken" },
      );
      assert.deepEqual([mails[0]?.secure, mails[0]?.user], [true, "me"]);
      assert.deepEqual(
        await sendTo(`smtp://me:right@127.0.0.1:${starttls.port}/?requireTLS=true&${query}`, [
          "a@example.com",
        ]),
        { kind: "taken" },
      );
      assert.deepEqual([mails[0]?.secure, mails[0]?.user], [true, "me"]);
      assert.equal(
        (await sendTo(`smtps://me:wrong@127.0.0.1:${direct.port}/?${query}`, ["a@example.com"])).kind,
        "later",
      );
      assert.equal(
        (await sendTo(`smtps://127.0.0.1:${direct.port}/`, ["a@example.com"])).kind,
        "later",
        "an untrusted certificate",
      );
    } finally {
      await Promise.all([direct.close(), starttls.close()]);
    }
  });

  test("an unknown mailbox is final, a busy one is not, one bad among good ones does not stop the mail", async () => {
    assert.equal((await sendTo(plain(), ["gone@example.com"])).kind, "refused");
    assert.equal((await sendTo(plain(), ["busy@example.com"])).kind, "later");
    const partly = await sendTo(plain(), ["gone@example.com", "a@example.com"]);
    assert.equal(partly.kind, "taken");
    assert.match("remark" in partly ? (partly.remark ?? "") : "", /gone@example\.com: 550/);
    assert.deepEqual(mails[0]?.to, ["a@example.com"]);
  });

  test("a busy recipient is retried alone", async () => {
    const all = ["a@example.com", "busy@example.com", "gone@example.com"];
    const first = await sendTo(plain(), all);
    assert.deepEqual([first.kind, mails[0]?.to], ["later", ["a@example.com"]]);
    const remainingRecipients = first.kind === "later" ? first.remainingRecipients : undefined;
    assert.deepEqual(remainingRecipients, [1, 2]);
    assert.equal((await sendTo(plain(), all, notice({ remainingRecipients: [1, 2] }))).kind, "later");
    assert.equal(mails.length, 0);
    assert.deepEqual(
      await sendTo(plain(), ["a@example.com", "b@example.com"], notice({ remainingRecipients: [1] })),
      {
        kind: "taken",
      },
    );
    assert.deepEqual(mails[0]?.to, ["b@example.com"]);
    assert.equal(
      (await sendTo(plain(), all, notice({ remainingRecipients: [2] }))).kind,
      "taken",
      "the others have it",
    );
  });

  test("a refusal of the sender, the login or the relaying is the operator's to mend", async () => {
    const refuse = (code: number, text: string) => Object.assign(new Error(text), { responseCode: code });
    for (const options of [
      { onMailFrom: (_address, _session, done) => done(refuse(550, "who are you")) },
      { onRcptTo: (_address, _session, done) => done(refuse(530, "login first")) },
      { onRcptTo: (_address, _session, done) => done(refuse(554, "5.7.1 policy")) },
      { onRcptTo: (_address, _session, done) => done(refuse(554, "Relay access denied")) },
    ] satisfies SMTPServerOptions[]) {
      const server = await openSmtp(options);
      try {
        const url = `smtp://127.0.0.1:${server.port}/?ignoreTLS=true`;
        assert.equal((await sendTo(url, ["a@example.com"])).kind, "later");
      } finally {
        await server.close();
      }
    }
  });

  test("a mail server that is away is a matter of time, none at all is said", async () => {
    const gone = await openSmtp();
    await gone.close();
    assert.equal((await sendTo(`smtp://127.0.0.1:${gone.port}`, ["a@example.com"])).kind, "later");
    const outcome = await emailChannel({ mailer: undefined }).send(
      { recipients: ["a@example.com"] },
      notice(),
    );
    assert.equal(outcome.kind, "unready");
  });

  test("the words: subject, dates, names, a link to each certificate, and how many more", () => {
    const many = notice({ certificates: Array.from({ length: 20 }, () => certificate()), total: 100_000 });
    assert.equal(subjectOf(notice()), "[Keyward] api.example.com expires in 12 days – Web");
    assert.equal(subjectOf(many), "[Keyward] 100,000 certificates are about to expire – Web");
    for (const part of [
      "api.example.com",
      "expires 2026-12-01 12:30 UTC, in 12 days",
      "Serial number: 0a1b2c",
      "https://keyward.example/projects/p/certificates/1",
      "…and 99,980 more",
    ]) {
      assert.ok(textBody(many).includes(part), part);
      assert.ok(htmlBody(many).includes(part), part);
    }
    const html = htmlBody(
      notice({
        alert: { ...notice().alert, name: `<img src=x onerror="x">` },
        certificates: [certificate({ commonName: "<script>" })],
      }),
    );
    assert.ok(!html.includes("<script>") && !html.includes("<img"));
  });
});
