import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { licences } from "@keyward/server";
import { COMMANDS } from "./commands/index.ts";
import { main } from "./main.ts";

interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: unknown;
}

const NOW = new Date("2030-01-01T00:00:00.000Z");
const ORG = "01890000-0000-7000-8000-000000000002";

describe("the keyward command", () => {
  let server: Server;
  let url: string;
  let home: string;
  let seen: Seen[] = [];
  let reply: (seen: Seen) => { readonly status?: number; readonly body: unknown };

  before(async () => {
    server = createServer((request, response) => {
      void text(request).then((body) => {
        const asked = {
          method: request.method ?? "",
          path: request.url ?? "",
          headers: request.headers,
          body: body === "" ? undefined : JSON.parse(body),
        };
        seen.push(asked);
        const { status = 200, body: answer } = reply(asked);
        response
          .writeHead(status, status === 302 ? { location: "/elsewhere" } : {})
          .end(typeof answer === "string" ? answer : JSON.stringify(answer));
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), "keyward-cli-"));
    seen = [];
    reply = () => ({ body: {} });
  });
  afterEach(() => rm(home, { recursive: true }));

  const keyward = async (
    words: string,
    { env = {}, input = "", now = NOW }: { env?: Record<string, string>; input?: string; now?: Date } = {},
  ) => {
    const [out, errors]: [string[], string[]] = [[], []];
    const world = {
      env,
      home,
      now: () => now,
      readInput: async () => input,
      print: (line: string) => void out.push(line),
      complain: (line: string) => void errors.push(line),
    };
    const code = await main(
      words.split(" ").filter((word) => word !== ""),
      world,
    );
    return { code, out: out.join("\n"), errors: errors.join("\n") };
  };
  const withToken = () => ({ env: { KEYWARD_URL: url, KEYWARD_TOKEN: "from-env" } });
  const granted = {
    accessToken: "granted-token",
    expiresIn: 3600,
    accessTokenMaxTTL: 7200,
    tokenType: "Bearer",
  };
  const logIn = (extra = "") => {
    reply = () => ({ body: granted });
    return keyward(`login --url ${url} --client-id my-id ${extra}`, {
      env: { KEYWARD_CLIENT_SECRET: "my-secret" },
    });
  };

  describe("logs in", () => {
    it("ends quietly when whoever reads its output has seen enough", async () => {
      const bin = fileURLToPath(new URL("../bin/keyward.mjs", import.meta.url));
      const child = spawn(process.execPath, [bin, "--help"], { stdio: ["ignore", "pipe", "pipe"] });
      child.stdout.destroy();
      const complaints = text(child.stderr);
      assert.deepEqual(await once(child, "exit"), [0, null]);
      assert.equal(await complaints, "");
    });

    it("and keeps the token in a file that only its owner reads", async () => {
      const { code, out } = await logIn();
      assert.equal(code, 0);
      assert.deepEqual(seen[0]?.body, { clientId: "my-id", clientSecret: "my-secret" });
      assert.equal(seen[0]?.path, "/api/v1/auth/universal-auth/login");
      const path = join(home, ".config", "keyward", "session.json");
      assert.equal((await stat(path)).mode & 0o777, 0o600);
      assert.deepEqual(JSON.parse(await readFile(path, "utf8")), {
        url,
        token: "granted-token",
        expiresAt: "2030-01-01T01:00:00.000Z",
      });
      assert.doesNotMatch(out, /granted-token|my-secret/);
    });

    it("and says so if a token in the environment goes before it", async () => {
      assert.equal((await logIn()).errors, "");
      const { code, errors } = await keyward(`login --url ${url} --client-id my-id`, {
        env: { KEYWARD_CLIENT_SECRET: "my-secret", KEYWARD_TOKEN: "other" },
      });
      assert.equal(code, 0);
      assert.match(errors, /KEYWARD_TOKEN is set and goes before this session/);
    });

    it("again with the same protection, whatever the file's mode was", async () => {
      await logIn();
      const path = join(home, ".config", "keyward", "session.json");
      await chmod(path, 0o644);
      await logIn();
      assert.equal((await stat(path)).mode & 0o777, 0o600);
    });

    it("with the secret from stdin", async () => {
      reply = () => ({ body: granted });
      const { code } = await keyward(`login --url ${url} --client-id my-id --client-secret -`, {
        input: "piped\n",
      });
      assert.equal(code, 0);
      assert.deepEqual(seen[0]?.body, { clientId: "my-id", clientSecret: "piped" });
    });

    it("only when it has both halves", async () => {
      assert.equal((await keyward(`login --url ${url} --client-id a`)).code, 2);
      assert.equal(
        (await keyward(`login --url ${url} --client-id a --client-secret -`, { input: "\n" })).code,
        2,
      );
      assert.equal((await keyward(`login --url ${url}`, { env: { KEYWARD_CLIENT_SECRET: "s" } })).code, 2);
      assert.equal(seen.length, 0);
    });

    it("and then speaks with that token, to that server alone, until it ends", async () => {
      await logIn();
      reply = () => ({ body: { projects: [] } });
      assert.equal((await keyward("projects list")).code, 0);
      assert.equal(seen[1]?.headers.authorization, "Bearer granted-token");
      const elsewhere = await keyward(`projects list --url ${url.replace("127.0.0.1", "localhost")}`);
      assert.deepEqual([elsewhere.code, seen.length], [1, 2]);
      assert.match(elsewhere.errors, /not logged in/);
      const later = await keyward("projects list", { now: new Date("2030-01-01T01:00:00.000Z") });
      assert.deepEqual([later.code, seen.length], [1, 2]);
      assert.match(later.errors, /session has ended/);
    });

    it("less urgently than KEYWARD_TOKEN says", async () => {
      await logIn();
      reply = () => ({ body: { projects: [] } });
      await keyward("projects list", withToken());
      assert.equal(seen[1]?.headers.authorization, "Bearer from-env");
    });
  });

  describe("tells what went wrong", () => {
    it("in the server's words, with the request's id", async () => {
      reply = () => ({
        status: 403,
        body: {
          reqId: "req-7",
          statusCode: 403,
          error: "PermissionDenied",
          message: "You are not allowed to read on identity.",
        },
      });
      const { code, errors, out } = await keyward("identities list --project p", withToken());
      assert.equal(code, 1);
      assert.equal(errors, "You are not allowed to read on identity.\n(status 403, request req-7)");
      assert.equal(out, "");
    });

    it("field by field when fields are invalid", async () => {
      const message = [
        { code: "custom", path: ["roles", 0, "role"], message: "is unknown" },
        { code: "custom", path: [], message: "is odd" },
      ];
      reply = () => ({
        status: 422,
        body: { reqId: "req-8", statusCode: 422, error: "ValidationFailure", message },
      });
      const { errors } = await keyward("identities create bot --project p", withToken());
      assert.equal(errors, "roles.0.role: is unknown\nis odd\n(status 422, request req-8)");
    });

    it("when something else than Keyward answers, or nothing does", async () => {
      reply = () => ({ status: 502, body: "<html>bad gateway</html>" });
      assert.match((await keyward("projects list", withToken())).errors, /status 502/);
      reply = () => ({ body: "<html>hello</html>" });
      assert.match((await keyward("projects list", withToken())).errors, /is it a Keyward server/);
      const nobody = await keyward("projects list", {
        env: { KEYWARD_URL: "http://127.0.0.1:9", KEYWARD_TOKEN: "t" },
      });
      assert.equal(nobody.code, 1);
      assert.match(nobody.errors, /cannot be reached/);
    });

    it("instead of following a redirect with the token", async () => {
      reply = ({ path }) => (path === "/elsewhere" ? { body: { projects: [] } } : { status: 302, body: "" });
      assert.equal((await keyward("projects list", withToken())).code, 1);
      assert.equal(seen.length, 1);
    });

    it("when it is called wrongly, with exit code 2 and without calling anybody", async () => {
      const wrong = [
        "",
        "--json",
        "nonsense",
        "licence",
        "licence nonsense",
        "projects list --nonsense",
        "projects list surplus",
        "projects create",
        "projects create a --name b",
        "projects create a --type other",
        "identities list",
        "identities create bot --project p --metadata novalue",
        "identities delete --project p",
        "licence issue",
        `licence issue --org ${ORG} --instance`,
        "licence issue --instance --days zero",
        "licence issue --instance --days 0",
        "licence issue --instance --features flying",
        "licence revoke",
        "status --url nowhere",
        "status --url ftp://host",
      ];
      for (const words of wrong) {
        const { code, errors, out } = await keyward(words, withToken());
        assert.equal(code, 2, words);
        assert.ok(errors !== "" && out === "", words);
      }
      assert.equal(seen.length, 0);
    });

    it("without letting a name steer the terminal", async () => {
      const project = { id: "1", name: "evil\u001b[2J\u202e", slug: "s", type: "t", createdAt: "c" };
      reply = () => ({ body: { projects: [project] } });
      assert.doesNotMatch((await keyward("projects list", withToken())).out, /[\u001b\u202e]/);
    });
  });

  describe("helps", () => {
    it("with every command and with each of its options", async () => {
      const { code, out } = await keyward("--help");
      assert.equal(code, 0);
      for (const command of COMMANDS) {
        assert.ok(out.includes(command.words.join(" ")));
        const help = await keyward(`${command.words.join(" ")} --help`);
        assert.equal(help.code, 0);
        for (const option of Object.keys(command.options))
          assert.ok(help.out.includes(`--${option}`), option);
      }
      assert.match((await keyward("licence --help")).out, /licence issue/);
      assert.equal((await keyward("--version")).out, "keyward-cli 0.1.0");
    });
  });

  describe("shows the server's status", () => {
    it("and whether there is a session, without sending a token", async () => {
      reply = () => ({ body: { date: "2030-01-01T00:00:00.000Z", message: "Ok" } });
      const { out } = await keyward(`status --url ${url}`);
      assert.match(out, /message +Ok/);
      assert.match(out, /session +not logged in/);
      assert.equal(seen[0]?.headers.authorization, undefined);
      assert.equal(JSON.parse((await keyward("status --json", withToken())).out).message, "Ok");
    });
  });

  describe("manages projects and identities", () => {
    it("creating with what was given", async () => {
      reply = ({ body }) => ({
        body: {
          project: {
            id: "p1",
            name: (body as { projectName: string }).projectName,
            slug: "pay",
            type: "cert-manager",
          },
        },
      });
      const { out } = await keyward(
        "projects create Payments --slug pay --type cert-manager --json",
        withToken(),
      );
      assert.deepEqual(seen[0]?.body, { projectName: "Payments", type: "cert-manager", slug: "pay" });
      assert.equal(JSON.parse(out).id, "p1");

      reply = () => ({ body: { identity: { id: "i1", name: "bot", projectId: "p1" } } });
      await keyward(
        "identities create bot --project my/project --role viewer --role deployer --metadata a=b=c --protect",
        withToken(),
      );
      assert.equal(seen[1]?.path, "/api/v1/projects/my%2Fproject/identities");
      assert.deepEqual(seen[1]?.body, {
        name: "bot",
        roles: [{ role: "viewer" }, { role: "deployer" }],
        metadata: [{ key: "a", value: "b=c" }],
        hasDeleteProtection: true,
      });
      assert.match(seen[1]?.headers["user-agent"] ?? "", /^keyward-cli\//);
    });

    it("listing every page", async () => {
      const one = (index: number) => ({
        id: `i${index}`,
        name: `bot ${index}`,
        authMethods: [],
        hasDeleteProtection: false,
        createdAt: "c",
      });
      const all = Array.from({ length: 2001 }, (_, index) => one(index));
      reply = ({ path }) => {
        const query = new URL(path, url).searchParams;
        const offset = Number(query.get("offset"));
        return {
          body: {
            identities: all.slice(offset, offset + Number(query.get("limit"))),
            totalCount: all.length,
          },
        };
      };
      const { out } = await keyward("identities list --project p", withToken());
      assert.equal(out.split("\n").length, 2002);
      assert.equal(seen.length, 3);
    });

    it("deleting by id", async () => {
      reply = () => ({ body: { identity: { id: "i1", name: "bot" } } });
      const { out } = await keyward("identities delete i1 --project p", withToken());
      assert.deepEqual([seen[0]?.method, seen[0]?.path], ["DELETE", "/api/v1/projects/p/identities/i1"]);
      assert.match(out, /Deleted bot/);
    });
  });

  describe("manages licences", () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const keyFile = async (pem = privateKey.export({ format: "pem", type: "pkcs8" })) => {
      const path = join(home, "key.pem");
      await writeFile(path, pem);
      return path;
    };

    it("signing without a server a document that holds under the key", async () => {
      const { code, out } = await keyward(
        `licence issue --org ${ORG.toUpperCase()} --days 10 --key ${await keyFile()}`,
      );
      assert.equal(code, 0);
      const parsed = licences.parseLicence(out) ?? assert.fail();
      assert.ok(
        verify(
          null,
          Buffer.from(parsed.signedText),
          createPublicKey(publicKey.export({ format: "pem", type: "spki" })),
          Buffer.from(parsed.signature, "base64url"),
        ),
      );
      const { id, ...rest } = parsed.payload;
      assert.match(id, /^[0-9a-f-]{36}$/);
      assert.deepEqual(rest, {
        orgId: ORG,
        plan: "enterprise",
        features: ["eventSubscriptions"],
        notBefore: NOW.toISOString(),
        notAfter: "2030-01-11T00:00:00.000Z",
        issuedAt: NOW.toISOString(),
      });
      assert.equal(seen.length, 0);
    });

    it("writing it to a file that it can show again", async () => {
      const path = join(home, "licence.txt");
      await keyward(
        `licence issue --instance --plan team --features= --key ${await keyFile()} --out ${path}`,
      );
      const { code, out } = await keyward(`licence show --file ${path}`);
      assert.equal(code, 0);
      assert.match(out, /plan +team/);
      assert.match(out, /for +the whole instance/);
      await writeFile(path, "something else");
      assert.equal((await keyward(`licence show --file ${path}`)).code, 1);
    });

    it("installing what it signed", async () => {
      const licence = {
        id: "l",
        scope: "organization",
        plan: "enterprise",
        features: [],
        activeFeatures: [],
        notBefore: null,
        notAfter: null,
        status: "active",
      };
      reply = () => ({ body: { licence } });
      const { out } = await keyward(
        `licence issue --org ${ORG} --key ${await keyFile()} --install`,
        withToken(),
      );
      assert.deepEqual([seen[0]?.method, seen[0]?.path], ["PUT", "/api/v1/organization/licence"]);
      assert.ok(licences.parseLicence((seen[0]?.body as { document: string }).document));
      assert.match(out, /status +active/);
    });

    it("having the server sign", async () => {
      reply = () => ({ body: { licence: { id: "l", document: "KEYWARD-LICENCE-1.a.b" } } });
      const { out } = await keyward("licence issue --instance --plan team --days 30", withToken());
      assert.deepEqual(seen[0]?.body, {
        organizationId: null,
        plan: "team",
        features: ["eventSubscriptions"],
        days: 30,
      });
      assert.equal(out, "KEYWARD-LICENCE-1.a.b");
    });

    it("refusing keys that cannot sign one", async () => {
      const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({
        format: "pem",
        type: "pkcs8",
      });
      for (const pem of [rsa, "no key"])
        assert.equal((await keyward(`licence issue --instance --key ${await keyFile(pem)}`)).code, 1);
      assert.equal((await keyward(`licence issue --instance --key ${join(home, "absent.pem")}`)).code, 1);
      assert.equal((await keyward(`licence issue --org not-an-id --key ${await keyFile()}`)).code, 2);
    });

    it("revoking one by id, or the organisation's own", async () => {
      reply = () => ({
        body: {
          licence: { id: "l1", revokedAt: "then", features: [], activeFeatures: [], status: "revoked" },
        },
      });
      await keyward("licence revoke l1", withToken());
      await keyward("licence revoke --own", withToken());
      assert.deepEqual(
        seen.map(({ method, path }) => `${method} ${path}`),
        ["POST /api/v1/admin/licences/l1/revoke", "DELETE /api/v1/organization/licence"],
      );
    });
  });
});
