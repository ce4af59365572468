// A process of its own: it starts others and runs long.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

/** The command as it is installed, the server as it is started: two processes that only share an address. */
const SERVER = fileURLToPath(new URL("../../../server/dist/src/main.js", import.meta.url));
const KEYWARD = fileURLToPath(new URL("../../bin/keyward.mjs", import.meta.url));
const { PATH = "", HOME = "" } = process.env;

let folder: string;
let server: ChildProcess;
let receiver: Server;
let hook: string;
let url: string;
let token: string;
let answer = 200;
const received: { type: string; signature: string }[] = [];

async function startServer(): Promise<string> {
  server = spawn(process.execPath, [SERVER], {
    env: {
      PATH,
      HOME,
      PORT: "0",
      KEYWARD_DATA_DIR: join(folder, "data"),
      KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8",
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  server.stderr?.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  return new Promise((ready, fail) => {
    createInterface({ input: server.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      const { url: address, msg } = JSON.parse(line) as { url?: string; msg?: string };
      if (msg === "Keyward is ready" && address !== undefined) ready(address);
    });
    server.once("exit", (code) => fail(new Error(`the server ended with ${String(code)}: ${errors}`)));
  });
}

// Answers of many shapes; assertions type them.
// eslint-disable-next-line ts/no-explicit-any
async function post(path: string, body: unknown): Promise<any> {
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 200, `${path}: ${await response.clone().text()}`);
  return response.json();
}

async function keyward(...words: string[]): Promise<{ code: number; out: string; errors: string }> {
  const child = spawn(process.execPath, [KEYWARD, "alerts", ...words], {
    env: { PATH, HOME: folder, KEYWARD_URL: url, KEYWARD_TOKEN: token },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [out, errors, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "exit") as Promise<[number]>,
  ]);
  return { code, out, errors };
}

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "keyward-cli-alerts-"));
  receiver = createServer((request, response) => {
    void text(request).then((body) => {
      const { type } = JSON.parse(body) as { type: string };
      received.push({ type, signature: String(request.headers["webhook-signature"]) });
      response.writeHead(answer).end();
    });
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/in`;
  url = await startServer();
  const booted = await post("/api/v1/admin/bootstrap", {
    email: "owner@example.com",
    password: "a long enough password",
    organization: "Owner",
  });
  token = booted.identity.credentials.token;
});
after(async () => {
  receiver.closeAllConnections();
  receiver.close();
  if (server.exitCode === null) {
    server.kill("SIGTERM");
    await once(server, "exit");
  }
  rmSync(folder, { recursive: true, force: true });
});

async function issueACertificate(projectId: string): Promise<void> {
  const room = "/api/v1/cert-manager";
  const root = await post(`${room}/ca/internal`, {
    name: "root",
    projectId,
    configuration: { type: "root", commonName: "Root", keyAlgorithm: "EC_prime256v1" },
  });
  const { certificatePolicy } = await post(`${room}/certificate-policies`, { name: "any", projectId });
  const { certificateProfile } = await post(`${room}/certificate-profiles`, {
    caId: root.id,
    certificatePolicyId: certificatePolicy.id,
    slug: "web",
    projectId,
  });
  await post(`${room}/certificates`, {
    profileId: certificateProfile.id,
    attributes: { commonName: "a.example.com", ttl: "90d" },
  });
}

test("an alert is made, tried, fired and followed from the command line, against a real server", async () => {
  const { project } = await post("/api/v1/projects", { projectName: "Web", type: "cert-manager" });
  const words = ["Web", "--event", "issuance", "--filter", "example.com", "--project", project.slug];
  const made = await keyward("create", ...words, "--webhook", hook, "--signing-secret", "s");
  assert.deepEqual([made.code, made.errors], [0, ""]);
  const [id = ""] = /[0-9a-f-]{36}/.exec(made.out) ?? [];
  assert.match(made.out, /channels +webhook/);

  const fresh = await keyward("list", "--project", project.slug);
  assert.equal(fresh.code, 0);
  assert.match(fresh.out, new RegExp(`${id} +Web +issuance +- +yes +webhook +-`));

  const tried = await keyward("test", id);
  assert.deepEqual([tried.code, tried.errors], [0, ""]);
  assert.match(tried.out, /webhook +delivered/);
  answer = 404;
  const refused = await keyward("test", id);
  assert.equal(refused.code, 1);
  assert.match(refused.out, /webhook +answered 404/);
  assert.match(refused.errors, /Not every channel took the test/);
  answer = 200;
  assert.deepEqual(
    received.map(({ type, signature }) => [type, signature.startsWith("v1,")]),
    [
      ["dev.keyward.certificate.test", true],
      ["dev.keyward.certificate.test", true],
    ],
  );
  assert.match((await keyward("list", "--search", "web")).out, /answered 404/);

  await issueACertificate(project.id);
  for (let waited = 0; received.length < 3 && waited < 2400; waited += 1)
    await new Promise((done) => setTimeout(done, 50));
  assert.equal(received[2]?.type, "dev.keyward.certificate.issuance");
  let told = "";
  for (let waited = 0; !/issuance +webhook +1 +delivered/.test(told) && waited < 120; waited += 1)
    told = (await keyward("deliveries", id)).out;
  assert.match(told, /issuance +webhook +1 +delivered +1/);
  assert.equal(
    told
      .trim()
      .split("\n")
      .filter((line) => /delivered|failed/.test(line)).length,
    3,
  );
  const failed = await keyward("deliveries", id, "--status", "failed");
  assert.equal(failed.code, 0);
  assert.match(failed.out, /test +webhook +1 +failed +1 +answered 404/);
  assert.doesNotMatch(failed.out, /delivered/);
  assert.match((await keyward("list", "--event", "issuance")).out, /success/);
  assert.doesNotMatch((await keyward("list", "--event", "renewal")).out, /Web/);
});

test("what the server refuses is said in its words, and fails", async () => {
  const noMail = await keyward("create", "Mail", "--email", "not an address");
  assert.notEqual(noMail.code, 0);
  assert.match(noMail.errors, /e-mail address/);
  const unknown = "01890000-0000-7000-8000-00000000000a";
  for (const command of ["test", "deliveries"]) {
    const { code, errors } = await keyward(command, unknown);
    assert.notEqual(code, 0);
    assert.match(errors, /alert/i);
  }
  const mail = await keyward("create", "Mail", "--email", "a@example.com", "--before", "14d");
  assert.equal(mail.code, 0, mail.errors);
  const [id = ""] = /[0-9a-f-]{36}/.exec(mail.out) ?? [];
  const tried = await keyward("test", id);
  assert.equal(tried.code, 1);
  assert.match(tried.out, /KEYWARD_SMTP_URL/);
});
