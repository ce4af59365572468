import assert from "node:assert/strict";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, describe, test } from "node:test";
import fc from "fast-check";
import { parseCidrs } from "./config.ts";
import { createOutbound, isPublicAddress, OutboundRefused, type Resolver } from "./outbound.ts";

const none = parseCidrs(undefined);
const loopback = parseCidrs("127.0.0.0/8");
const strict = createOutbound({ allowed: none });
const answering =
  (...addresses: string[]): Resolver =>
  async () =>
    addresses;

describe("S-40 what may be stored as a target", () => {
  const refused: readonly [string, RegExp][] = [
    ["http://example.com/hook", /only https/],
    ["file:///etc/passwd", /only https/],
    ["gopher://example.com:70/_x", /only https/],
    ["ftp://example.com/", /only https/],
    ["javascript:alert(1)", /only https/],
    ["not a url", /spaces/],
    ["//example.com", /not a URL/],
    ["", /not a URL/],
    ["https://", /not a URL/],
    ["https://user:pass@example.com/", /user name/],
    ["https://user@example.com/", /user name/],
    ["https://@example.com/", /user name/],
    ["https://example.com@127.0.0.1/", /user name/],
    ["https://127.0.0.1/", /private or reserved/],
    ["https://127.1/", /private or reserved/],
    ["https://0/", /private or reserved/],
    ["https://2130706433/", /private or reserved/],
    ["https://017700000001/", /private or reserved/],
    ["https://0x7f.0.0.1/", /private or reserved/],
    ["https://0x7f000001/", /private or reserved/],
    ["https://0177.0.0.01/", /private or reserved/],
    ["https://127.0.0.1./", /private or reserved/],
    ["https://１２７.0.0.1/", /private or reserved/],
    ["https://127。0。0。1/", /private or reserved/],
    ["https://169.254.169.254/latest/meta-data", /private or reserved/],
    ["https://10.1.2.3/", /private or reserved/],
    ["https://172.16.0.1/", /private or reserved/],
    ["https://172.31.255.255/", /private or reserved/],
    ["https://192.168.1.1/", /private or reserved/],
    ["https://100.64.0.1/", /private or reserved/],
    ["https://[::1]/", /private or reserved/],
    ["https://[::]/", /private or reserved/],
    ["https://[::ffff:127.0.0.1]/", /private or reserved/],
    ["https://[::ffff:a9fe:a9fe]/", /private or reserved/],
    ["https://[::127.0.0.1]/", /private or reserved/],
    ["https://[fe80::1]/", /private or reserved/],
    ["https://[fd00:ec2::254]/", /private or reserved/],
    ["https://[fc00::1]/", /private or reserved/],
    ["https://[ff02::1]/", /private or reserved/],
    ["https://[64:ff9b::7f00:1]/", /private or reserved/],
    ["https://[2002:7f00:1::]/", /private or reserved/],
    ["https://[2001:db8::1]/", /private or reserved/],
    ["https://localhost/", /private or reserved/],
    ["https://LOCALHOST./", /private or reserved/],
    ["https://db.localhost/", /private or reserved/],
    ["https://example.com:25/", /port 25/],
    ["https://example.com:6379/", /port 6379/],
    ["https://example.com:0/", /port 0/],
    ["https://example.com:65536/", /not a URL/],
    ["https://example.com/\r\nx: y", /control characters/],
    ["https://exa\tmple.com/", /control characters/],
    [`https://example.com/${"a".repeat(2100)}`, /too long/],
  ];
  for (const [url, why] of refused) {
    test(`refuses ${JSON.stringify(url.slice(0, 60))}`, () =>
      assert.match(strict.objection(url) ?? "accepted", why));
  }

  for (const url of [
    "https://example.com/hook?x=1#y",
    "https://example.com:8443/hook",
    "https://bücher.example/hook",
    "https://8.8.8.8/",
    "https://[2606:4700::1111]/",
    "https://example.com/path@with-at",
    "https://metadata.example/",
  ]) {
    test(`accepts ${url}`, () => assert.equal(strict.objection(url), undefined));
  }

  test("plain http and a listed private address are accepted once private targets are allowed", () => {
    const open = createOutbound({ allowed: loopback });
    assert.equal(open.objection("http://127.0.0.1:9000/x"), undefined);
    assert.equal(open.objection("http://localhost:9000/x"), undefined);
    assert.equal(open.objection("https://[::ffff:127.0.0.1]/"), undefined);
    assert.match(open.objection("http://10.0.0.1/") ?? "", /private or reserved/);
  });
});

test("an IPv4 address is public or not, however it is wrapped into IPv6", () => {
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      assert.equal(isPublicAddress(`::ffff:${address}`), isPublicAddress(address));
      assert.equal(isPublicAddress(`::${address}`), false);
    }),
  );
});

test("no number that the URL standard reads as an address slips past the ranges", () => {
  const toNumber = (address: string) => address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      const value = toNumber(address);
      for (const host of [String(value), `0x${value.toString(16)}`, `0${value.toString(8)}`]) {
        assert.equal(
          strict.objection(`https://${host}/`) === undefined,
          isPublicAddress(address),
          `${host} = ${address}`,
        );
      }
    }),
  );
});

describe("sending", () => {
  let server: Server;
  let base: string;
  let port: number;
  let behave: RequestListener = (_request, response) => void response.end("ok");
  const seen: { url: string | undefined; host: string | undefined; body: string }[] = [];

  before(async () => {
    server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (chunk: Buffer) => parts.push(chunk));
      request.on("end", () => {
        seen.push({ url: request.url, host: request.headers.host, body: Buffer.concat(parts).toString() });
        behave(request, response);
      });
    });
    await new Promise<void>((done) => void server.listen(0, "127.0.0.1", done));
    port = (server.address() as AddressInfo).port;
    base = `http://127.0.0.1:${port}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  const send = (url: string, resolve?: Resolver, timeoutMs = 5000) =>
    createOutbound({ allowed: loopback, timeoutMs, ...(resolve ? { resolve } : {}) }).post({
      url,
      headers: { "x-test": "1" },
      body: "hällo",
    });

  test("the body arrives whole, under the name that was asked for", async () => {
    seen.length = 0;
    behave = (_request, response) => void response.writeHead(202).end("thanks");
    assert.deepEqual(await send(`http://hook.example:${port}/in`, answering("127.0.0.1")), {
      status: 202,
      retryAfterSeconds: undefined,
    });
    assert.deepEqual(seen, [{ url: "/in", host: `hook.example:${port}`, body: "hällo" }]);
  });

  test("DNS rebinding: the name is looked up once, and the connection goes to what was vetted", async () => {
    seen.length = 0;
    let looks = 0;
    const rebinding: Resolver = async () => ((looks += 1) === 1 ? ["127.0.0.1"] : ["127.0.0.99"]);
    behave = (_request, response) => void response.end();
    assert.equal((await send(`http://rebind.example:${port}/`, rebinding)).status, 200);
    assert.equal(looks, 1);
    assert.equal(seen.length, 1);
  });

  test("a name that turns private after it was stored is refused at the moment of sending", async () => {
    seen.length = 0;
    const closed = createOutbound({ allowed: parseCidrs("10.9.9.9"), resolve: answering("127.0.0.1") });
    assert.equal(closed.objection(`http://hook.example:${port}/`), undefined);
    await assert.rejects(
      closed.post({ url: `http://hook.example:${port}/`, headers: {}, body: "" }),
      OutboundRefused,
    );
    await assert.rejects(
      createOutbound({
        allowed: none,
        resolve: answering("169.254.169.254", "::ffff:10.0.0.1", "fd00::1"),
      }).post({ url: "https://hook.example/", headers: {}, body: "" }),
      OutboundRefused,
    );
    assert.equal(seen.length, 0);
  });

  test("of several addresses only the vetted ones are tried", async () => {
    seen.length = 0;
    behave = (_request, response) => void response.end();
    const only = createOutbound({
      allowed: parseCidrs("127.0.0.1"),
      resolve: answering("127.0.0.2", "169.254.169.254", "127.0.0.1"),
    });
    assert.equal(
      (await only.post({ url: `http://hook.example:${port}/`, headers: {}, body: "" })).status,
      200,
    );
    assert.equal(seen.length, 1);
  });

  test("a redirect is an answer, not a new target", async () => {
    seen.length = 0;
    behave = (_request, response) => void response.writeHead(307, { location: `${base}/elsewhere` }).end();
    assert.equal((await send(`${base}/first`)).status, 307);
    assert.deepEqual(
      seen.map((request) => request.url),
      ["/first"],
    );
  });

  test("retry-after in seconds is passed on; anything else is not", async () => {
    behave = (_request, response) => void response.writeHead(429, { "retry-after": "120" }).end();
    assert.deepEqual(await send(base), { status: 429, retryAfterSeconds: 120 });
    behave = (_request, response) =>
      void response.writeHead(503, { "retry-after": "Fri, 31 Dec 1999 23:59:59 GMT" }).end();
    assert.deepEqual(await send(base), { status: 503, retryAfterSeconds: undefined });
  });

  test("an answer without end is cut off, and only its status is known afterwards", async () => {
    behave = (_request, response) => {
      const pour = (): void => {
        while (!response.destroyed && response.write("x".repeat(16_384)));
        response.once("drain", pour);
      };
      pour();
    };
    assert.deepEqual(await send(base), { status: 200, retryAfterSeconds: undefined });
  });

  test("a receiver that never answers is given up, and so is a resolver", async () => {
    behave = () => undefined;
    await assert.rejects(send(base, undefined, 50), /no answer in time/);
    await assert.rejects(
      send("http://slow.example/", () => new Promise(() => undefined), 50),
      /no answer in time/,
    );
  });

  test("a receiver that switches to another protocol, or hangs up, is not waited for", async () => {
    behave = (_request, response) => {
      response.socket?.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n");
    };
    assert.deepEqual(await send(base, undefined, 1000), { status: 101, retryAfterSeconds: undefined });
    behave = (_request, response) => void response.socket?.end();
    await assert.rejects(send(base, undefined, 1000), /hang up|closed/);
    behave = (_request, response) => void response.writeHead(200).write("slowly");
    assert.equal((await send(base, undefined, 100)).status, 200);
  });

  test("a closed port is an error that may pass", async () => {
    await assert.rejects(send("http://127.0.0.1:9/"), /port 9 belongs/);
    const free = createServer();
    await new Promise<void>((done) => void free.listen(0, "127.0.0.1", done));
    const unused = (free.address() as AddressInfo).port;
    await new Promise((done) => free.close(done));
    await assert.rejects(
      send(`http://127.0.0.1:${unused}/`),
      (error: Error) => !(error instanceof OutboundRefused),
    );
  });
});
