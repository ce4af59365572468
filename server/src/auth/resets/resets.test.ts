/** What a mail server makes possible: invitations that prove an address, and passwords that can be forgotten. */
import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import { SMTPServer } from "smtp-server";
import { until } from "../../../test/builders.ts";
import { clientOf, openTestHouse, OWNER, type Tenant, type TestHouse } from "../../../test/harness.ts";
import { anAddress, eventsOf, look, PASSWORD } from "../../../test/people.ts";

const ASK = "/api/v1/auth/password-reset";
const INVITE = "/api/v1/organization/invitations";
const NEXT = "a pass phrase after that";

describe("with a mail server", () => {
  let house: TestHouse;
  let tenant: Tenant;
  const mails: { to: string; text: string }[] = [];
  const smtp = new SMTPServer({
    authOptional: true,
    closeTimeout: 500,
    disabledCommands: ["STARTTLS"],
    logger: false,
    onRcptTo: ({ address }, _session, done) =>
      done(
        address.startsWith("gone")
          ? Object.assign(new Error("no such mailbox"), { responseCode: 550 })
          : address.startsWith("busy")
            ? Object.assign(new Error("later"), { responseCode: 451 })
            : null,
      ),
    onData: (stream, session, done) => {
      const parts: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => parts.push(chunk));
      stream.on("end", () => {
        const text = Buffer.concat(parts).toString().replace(/=\r\n/g, "").replace(/=3D/g, "=");
        mails.push({ to: session.envelope.rcptTo[0]?.address ?? "", text });
        done();
      });
    },
  });
  before(async () => {
    await new Promise<void>((ready) => void smtp.listen(0, "127.0.0.1", ready));
    const { port } = smtp.server.address() as AddressInfo;
    house = await openTestHouse({
      env: {
        KEYWARD_SMTP_URL: `smtp://127.0.0.1:${port}`,
        KEYWARD_PUBLIC_URL: "https://keyward.example/in",
        KEYWARD_INVITATIONS_PER_HOUR: "20",
      },
    });
    tenant = await house.newTenant("Ada & <Co>");
  });
  after(async () => {
    await house.close();
    await new Promise<void>((closed) => smtp.close(closed));
  });

  const login = (email: string, password: string) =>
    house.anonymous.post("/api/v3/auth/login", { email, password });
  const confirm = (token: string, newPassword = NEXT) =>
    house.anonymous.post(`${ASK}/confirm`, { token, newPassword });
  const tokenIn = (text: string | undefined): string => /#(kw[ir]_[\w-]{43})/.exec(text ?? "")?.[1] ?? "";
  const mailTo = async (email: string, count = 1): Promise<string> => {
    await until(async () => mails.filter(({ to }) => to === email).length >= count, 5000);
    return mails.filter(({ to }) => to === email).at(-1)?.text ?? "";
  };
  const asked = async (email: string, count = 1): Promise<string> => {
    assert.equal((await house.anonymous.post(ASK, { email })).status, 200);
    return tokenIn(await mailTo(email, count));
  };
  /** Someone with an account, in the tenant. */
  const someone = async (): Promise<string> => {
    const email = anAddress();
    assert.equal((await tenant.post(INVITE, { email })).status, 200);
    const token = tokenIn(await mailTo(email));
    const accepted = await house.anonymous.post("/api/v1/auth/accept-invitation", {
      token,
      password: PASSWORD,
    });
    assert.equal(accepted.status, 200);
    mails.length = 0;
    return email;
  };

  describe("an invitation", () => {
    it("goes to the address, and who invites does not see its token", async () => {
      const email = anAddress();
      const { status, body } = await tenant.post(INVITE, { email });
      assert.deepEqual([status, Object.keys(body)], [200, ["invitation"]]);
      const text = await mailTo(email);
      assert.match(text, /https:\/\/keyward\.example\/in\/accept-invitation#kwi_/);
      assert.match(text, /^Subject: \[Keyward\] You are invited to Ada & <Co>/m);
      assert.ok(!text.includes("<Co>", text.indexOf("<!doctype")), "names are escaped in HTML");
      const password = { token: tokenIn(text), password: PASSWORD };
      assert.equal((await house.anonymous.post("/api/v1/auth/accept-invitation", password)).status, 200);
    });

    it("S-14 looks the same for an address that has an account and for one that has none", async () => {
      const answers = [
        await tenant.post(INVITE, { email: OWNER.email }),
        await tenant.post(INVITE, { email: anAddress() }),
      ];
      assert.deepEqual(
        answers.map(({ status, body }) => [status, Object.keys(body), Object.keys(body.invitation)]),
        [
          [200, ["invitation"], Object.keys(answers[0]?.body.invitation)],
          [200, ["invitation"], Object.keys(answers[0]?.body.invitation)],
        ],
      );
    });

    it("is none when the mail server does not take it, and says why", async () => {
      const org = await house.newTenant();
      const [gone, busy] = [
        await org.post(INVITE, { email: "gone@example.com" }),
        await org.post(INVITE, { email: "busy@example.com" }),
      ];
      assert.deepEqual([gone.status, busy.status], [400, 503]);
      assert.match(gone.body.message, /Nobody was invited.*550/);
      assert.equal(busy.headers.get("retry-after"), "60");
      assert.equal((await org.get(INVITE)).body.totalCount, 0);
    });

    it("is mailed only by who may invite", async () => {
      const email = anAddress();
      const viewer = await tenant.post("/api/v1/identities", { name: "weak" });
      await tenant.post(`/api/v1/auth/token-auth/identities/${viewer.body.identity.id}`, {});
      const made = await tenant.post(
        `/api/v1/auth/token-auth/identities/${viewer.body.identity.id}/tokens`,
        {},
      );
      assert.equal((await house.as(made.body.accessToken).post(INVITE, { email })).status, 403);
      assert.ok(!mails.some(({ to }) => to === email));
    });
  });

  describe("H9 invitations", () => {
    const invite = (client: Tenant, email: string) =>
      client.post("/api/v1/organization/invitations", { email, role: "member" });

    it("have a bound per address, per organisation and for all, and say which", async () => {
      const [one, two] = [await house.newTenant(), await house.newTenant()];
      house.clock.advance(3_600_000);
      const statuses: number[] = [];
      for (let n = 0; n < 6; n += 1) statuses.push((await invite(one, "bob@example.com")).status);
      assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
      const over = await invite(one, "bob@example.com");
      assert.deepEqual([over.status, /this address/.test(over.body.message)], [429, true]);
      assert.equal((await invite(two, "bob@example.com")).status, 200, "nobody hears of others' letters");
      for (let n = 0; n < 15; n += 1)
        assert.equal((await invite(one, `new${n}@example.com`)).status, 200, `the ${n}th`);
      const last = await invite(one, "last@example.com");
      assert.deepEqual([last.status, /this organisation/.test(last.body.message)], [429, true]);
      assert.ok(Number(last.headers.get("retry-after")) > 0);
      assert.equal((await invite(two, "carol@example.com")).status, 200, "another organisation may go on");
      house.clock.advance(3_600_000);
      assert.equal((await invite(one, "bob@example.com")).status, 200, "and so may the first, an hour later");
    });
  });

  describe("a forgotten password", () => {
    it("is replaced through the mailed link, once, and every session ends on every node", async () => {
      const email = await someone();
      const second = await house.openNode();
      const session = (await login(email, PASSWORD)).body.accessToken;
      assert.equal((await clientOf(second.base, session).get("/api/v1/user")).status, 200);
      const token = await asked(email);
      assert.match(mails[0]?.text ?? "", /https:\/\/keyward\.example\/in\/password-reset#kwr_/);
      assert.equal((await login(email, PASSWORD)).status, 200, "asking changes nothing");
      assert.equal((await confirm(token, "short")).status, 422);
      assert.equal((await confirm(token)).status, 200);
      assert.equal((await house.as(session).get("/api/v1/user")).status, 401);
      await until(
        async () => (await clientOf(second.base, session).get("/api/v1/user")).status === 401,
        1000,
      );
      assert.equal((await login(email, PASSWORD)).status, 401);
      assert.equal((await login(email, NEXT)).status, 200);
      const again = await confirm(token, "a third pass phrase");
      assert.deepEqual([again.status, again.body.error], [401, "UnauthorizedError"]);
      const events = await eventsOf(house, tenant.orgId);
      for (const event of ["request-password-reset", "reset-password"])
        assert.ok(events.includes(event), event);
    });

    it("S-14 is answered in the same words for an address without an account, which gets no mail", async () => {
      const [known, unknown] = [await someone(), anAddress()];
      const answers = [
        await house.anonymous.post(ASK, { email: unknown }),
        await house.anonymous.post(ASK, { email: ` ${known.toUpperCase()} ` }),
      ];
      assert.deepEqual(
        answers.map(({ status, body }) => [status, body]),
        [
          [200, answers[0]?.body],
          [200, answers[0]?.body],
        ],
      );
      await mailTo(known);
      assert.ok(!mails.some(({ to }) => to === unknown));
    });

    it("has a link of half an hour, of which only a digest is kept", async () => {
      const email = await someone();
      const token = await asked(email);
      const rows = JSON.stringify(await look(house, "SELECT r::text FROM password_resets r"));
      assert.ok(!rows.includes(Buffer.from(token).toString("hex")) && !rows.includes(token));
      house.clock.advance(1_801_000);
      assert.equal((await confirm(token)).status, 401);
      await house.house.jobs.runDue();
      assert.deepEqual(await look(house, "SELECT 1 FROM password_resets"), []);
    });

    it("fills no mailbox: three links are open at a time, and using one closes the others", async () => {
      const email = await someone();
      const tokens = [await asked(email), await asked(email, 2), await asked(email, 3)];
      for (let n = 0; n < 5; n += 1) await house.anonymous.post(ASK, { email });
      await until(
        async () =>
          (
            await look(
              house,
              "SELECT 1 FROM audit_log WHERE org_id = $1 AND event = 'request-password-reset' AND metadata->>'isMailed' = 'false'",
              [tenant.orgId],
            )
          ).length === 5,
        5000,
      );
      assert.equal(mails.filter(({ to }) => to === email).length, 3);
      const answers = await Promise.all(tokens.map((token, n) => confirm(token, `pass phrase number ${n}`)));
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 401, 401]);
    });

    it("opens an account that guesses had locked, and its link ends when the password is changed", async () => {
      const email = await someone();
      const session = (await login(email, PASSWORD)).body.accessToken;
      const stale = await asked(email);
      const changed = await house
        .as(session)
        .post("/api/v1/auth/password", { currentPassword: PASSWORD, newPassword: NEXT });
      assert.equal(changed.status, 200);
      assert.equal((await confirm(stale)).status, 401);
      for (let n = 0; n < 6; n += 1) await login(email, "wrong wrong");
      assert.match((await login(email, NEXT)).body.message, /^Locked/);
      assert.equal((await confirm(await asked(email, 2), "one more pass phrase")).status, 200);
      assert.equal((await login(email, "one more pass phrase")).status, 200);
    });

    it("has links that nobody can guess: unknown, empty and malformed ones are refused alike", async () => {
      const words = await Promise.all(
        ["", "kwr_x", `kwr_${"A".repeat(43)}`].map(async (token) => {
          const { status, body } = await confirm(token);
          return [status, { ...body, reqId: "" }];
        }),
      );
      assert.deepEqual(words[1], words[0]);
      assert.deepEqual(words[2], words[0]);
      assert.equal(words[0]?.[0], 401);
    });
  });

  it("the pages behind the links load nothing, run only their own script and hold nothing of anyone", async () => {
    for (const path of ["/password-reset", "/accept-invitation"]) {
      const { status, body, headers } = await house.anonymous.get(path);
      assert.equal(status, 200);
      assert.match(headers.get("content-type") ?? "", /^text\/html/);
      assert.equal(headers.get("referrer-policy"), "no-referrer");
      const policy = headers.get("content-security-policy") ?? "";
      assert.match(policy, /default-src 'none'.*script-src 'sha256-[^']+'.*connect-src 'self'/);
      assert.doesNotMatch(body, /https?:\/\//);
      assert.doesNotMatch(policy, /unsafe/);
    }
  });
});

describe("without a mail server", () => {
  it("a forgotten password is not promised to be replaced", async () => {
    const house = await openTestHouse();
    try {
      const answers = await Promise.all(
        [OWNER.email, anAddress()].map((email) => house.anonymous.post(ASK, { email })),
      );
      assert.deepEqual(
        answers.map(({ status, body }) => [status, body.message]),
        answers.map(() => [400, answers[0]?.body.message]),
      );
    } finally {
      await house.close();
    }
  });
});
