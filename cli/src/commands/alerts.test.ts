import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { after, before, beforeEach, describe, it } from "node:test";
import { main } from "../main.ts";

const ALERT = {
  id: "01890000-0000-7000-8000-00000000000a",
  name: "Web",
  eventType: "expiration",
  alertBefore: "14d",
  enabled: true,
  channels: [{ channelType: "email" }, { channelType: "webhook" }],
  lastRun: { timestamp: "2030-01-01T00:00:00.000Z", status: "failed", error: "answered 503" },
};

describe("keyward alerts", () => {
  let server: Server;
  let url: string;
  let seen: { method: string; path: string; body: unknown }[] = [];
  let reply: unknown;

  before(async () => {
    server = createServer((request, response) => {
      void text(request).then((body) => {
        seen.push({
          method: request.method ?? "",
          path: request.url ?? "",
          body: body === "" ? undefined : JSON.parse(body),
        });
        response.end(JSON.stringify(typeof reply === "function" ? reply(request.url ?? "") : reply));
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  beforeEach(() => {
    seen = [];
  });

  const keyward = async (...words: string[]) => {
    const [out, errors]: [string[], string[]] = [[], []];
    const code = await main(["alerts", ...words], {
      env: { KEYWARD_URL: url, KEYWARD_TOKEN: "token" },
      home: "/nowhere",
      now: () => new Date("2030-01-01T00:00:00Z"),
      readInput: async () => "",
      print: (line) => void out.push(line),
      complain: (line) => void errors.push(line),
    });
    return { code, out: out.join("\n"), errors: errors.join("\n") };
  };

  it("create sends one mail channel for all recipients and one channel per other address", async () => {
    reply = { alert: ALERT };
    const words = "create Web --before 14d --filter a --filter b --email x@example.com --email y@example.com";
    const more = "--webhook https://example.com/in --signing-secret s --daily --project p";
    const { code, out } = await keyward(...words.split(" "), ...more.split(" "));
    assert.equal(code, 0);
    assert.deepEqual(seen, [
      {
        method: "POST",
        path: "/api/v1/cert-manager/alerts",
        body: {
          name: "Web",
          eventType: "expiration",
          filters: [{ value: "a" }, { value: "b" }],
          channels: [
            { config: { recipients: ["x@example.com", "y@example.com"] } },
            { config: { url: "https://example.com/in", signingSecret: "s" } },
          ],
          notificationConfig: { enableDailyNotification: true },
          alertBefore: "14d",
          projectId: "p",
        },
      },
    ]);
    assert.match(out, /channels +email, webhook/);
  });

  it("create refuses to make an alert that tells nobody, or of an unknown kind, without asking the server", async () => {
    assert.equal((await keyward("create", "Web")).code, 2);
    assert.equal((await keyward("create", "Web", "--event", "x", "--email", "a@example.com")).code, 2);
    assert.deepEqual(seen, []);
  });

  it("list shows how the last message went", async () => {
    reply = { alerts: [ALERT], total: 1 };
    const { code, out } = await keyward("list", "--search", "w");
    assert.equal(code, 0);
    assert.equal(seen[0]?.path, "/api/v1/cert-manager/alerts?search=w&limit=100&offset=0");
    assert.match(out, /answered 503/);
  });

  it("list goes on to the last page", async () => {
    const all = Array.from({ length: 250 }, (_, n) => ({ ...ALERT, name: `alert-${n}` }));
    reply = (path: string) => {
      const from = Number(new URL(path, url).searchParams.get("offset"));
      return { alerts: all.slice(from, from + 100), total: all.length };
    };
    const { code, out } = await keyward("list");
    assert.equal(code, 0);
    assert.equal(seen.length, 3);
    assert.match(out, /alert-0 [^]*alert-249 /);
    // Some went away meanwhile.
    reply = () => ({ alerts: [], total: 5 });
    assert.equal((await keyward("list")).code, 0);
  });

  it("show, enable, disable, delete and retry", async () => {
    const path = `/api/v1/cert-manager/alerts/${ALERT.id}`;
    reply = {
      alert: {
        ...ALERT,
        projectId: "p",
        filters: [{ field: "san", operator: "equals", value: ["a", "b"] }],
        channels: [
          { channelType: "email", config: { recipients: ["x@example.com", "y@example.com"] }, enabled: true },
          { channelType: "webhook", config: { url: "https://example.com/in" }, enabled: false },
        ],
      },
    };
    const shown = await keyward("show", ALERT.id);
    assert.equal(shown.code, 0);
    assert.match(shown.out, /filters +san equals a or b/);
    assert.match(
      shown.out,
      /email x@example.com y@example.com, webhook https:\/\/example.com\/in \(disabled\)/,
    );
    for (const word of ["enable", "disable", "delete"])
      assert.match((await keyward(word, ALERT.id)).out, new RegExp(ALERT.id), word);
    reply = { delivery: { id: "d" } };
    assert.equal((await keyward("retry", ALERT.id, "d")).code, 0);
    assert.equal((await keyward("retry", ALERT.id)).code, 2);
    assert.deepEqual(
      seen.map(({ method, path: asked, body }) => [method, asked, body]),
      [
        ["GET", path, undefined],
        ["PATCH", path, { enabled: true }],
        ["PATCH", path, { enabled: false }],
        ["DELETE", path, undefined],
        ["POST", `${path}/deliveries/d/retry`, undefined],
      ],
    );
  });

  it("test fails when a channel did", async () => {
    const result = { channelId: ALERT.id, channelType: "webhook", success: false, error: "answered 404" };
    reply = { success: false, results: [result] };
    const { code, out } = await keyward("test", ALERT.id);
    assert.equal(code, 1);
    assert.match(out, /answered 404/);
    reply = { success: true, results: [{ ...result, success: true, error: undefined }] };
    assert.equal((await keyward("test", ALERT.id)).code, 0);
  });

  it("deliveries lists attempts and reasons", async () => {
    reply = {
      deliveries: [
        {
          id: ALERT.id,
          createdAt: "2030-01-01T00:00:00.000Z",
          eventType: "expiration",
          channelType: "email",
          totalCertificates: 3,
          status: "pending",
          attempts: 2,
          error: "busy",
        },
      ],
      total: 7,
    };
    const { code, out } = await keyward("deliveries", ALERT.id, "--status", "pending");
    assert.equal(code, 0);
    assert.equal(
      seen[0]?.path,
      `/api/v1/cert-manager/alerts/${ALERT.id}/deliveries?limit=100&status=pending`,
    );
    assert.match(out, /pending +2 +busy/);
    assert.match(out, /1 of 7/);
    await keyward("deliveries", ALERT.id, "--limit", "5", "--offset", "10");
    assert.match(seen[1]?.path ?? "", /deliveries\?limit=5&offset=10$/);
  });
});
