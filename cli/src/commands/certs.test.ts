// A process of its own: it starts others and runs long.
/** `keyward certs …` against a server of its own process, as people run the two. */
import assert from "node:assert/strict";
import { generateKeyPairSync, X509Certificate, createPrivateKey } from "node:crypto";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { after, before, describe, it } from "node:test";
import { main } from "../main.ts";

const MAIN = fileURLToPath(new URL("../../../server/dist/src/main.js", import.meta.url));

interface Listed {
  readonly id: string;
  readonly cn: string;
  readonly status: string;
  readonly serialNumber: string;
}

describe("keyward certs", () => {
  let folder: string;
  let server: ChildProcess;
  let url: string;
  let token: string;
  let projectId: string;
  let profileId: string;

  const call = async <T>(path: string, body: unknown): Promise<T> => {
    const response = await fetch(url + path, {
      method: "POST",
      headers: { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) },
      body: JSON.stringify(body),
    });
    const answer: unknown = await response.json();
    assert.equal(response.status, 200, JSON.stringify(answer));
    return answer as T;
  };
  const keyward = async (...words: string[]) => {
    const [out, errors]: [string[], string[]] = [[], []];
    const code = await main(["certs", ...words], {
      env: { KEYWARD_URL: url, KEYWARD_TOKEN: token },
      home: folder,
      now: () => new Date(),
      readInput: async () => "",
      print: (line) => void out.push(line),
      complain: (line) => void errors.push(line),
    });
    return { code, out: out.join("\n"), errors: errors.join("\n") };
  };
  const json = async <T = Record<string, string>>(...words: string[]): Promise<T> => {
    const { code, out, errors } = await keyward(...words, "--json");
    assert.equal(code, 0, errors);
    return JSON.parse(out) as T;
  };
  const issue = (name: string, ...more: string[]) =>
    json("issue", "--profile", "web", "--project", projectId, "--common-name", name, "--san", name, ...more);

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "keyward-cli-certs-"));
    const { PATH = "", HOME = "" } = process.env;
    server = spawn(process.execPath, [MAIN], {
      env: { PATH, HOME, PORT: "0", KEYWARD_DATA_DIR: join(folder, "data"), KEYWARD_LOG_LEVEL: "info" },
      stdio: ["ignore", "pipe", "inherit"],
    });
    process.once("exit", () => server.kill("SIGKILL"));
    url = await new Promise<string>((resolve, reject) => {
      server.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
      createInterface({ input: server.stdout as NodeJS.ReadableStream }).on("line", (line) => {
        const said = JSON.parse(line) as { msg?: string; url?: string };
        if (said.msg === "Keyward is ready" && said.url) resolve(said.url);
      });
    });
    token = "";
    const booted = await call<{ identity: { credentials: { token: string } } }>("/api/v1/admin/bootstrap", {
      email: "a@example.com",
      password: "a long enough password",
      organization: "O",
    });
    token = booted.identity.credentials.token;
    const body = { projectName: "Certs", type: "cert-manager" };
    projectId = (await call<{ project: { id: string } }>("/api/v1/projects", body)).project.id;
    const root = await call<{ id: string }>("/api/v1/cert-manager/ca/internal", {
      name: "root",
      projectId,
      configuration: { type: "root", commonName: "Root", keyAlgorithm: "EC_prime256v1" },
    });
    const policy = await call<{ certificatePolicy: { id: string } }>(
      "/api/v1/cert-manager/certificate-policies",
      {
        name: "any",
        projectId,
        validity: { max: "90d" },
      },
    );
    profileId = (
      await call<{ certificateProfile: { id: string } }>("/api/v1/cert-manager/certificate-profiles", {
        caId: root.id,
        certificatePolicyId: policy.certificatePolicy.id,
        slug: "web",
        projectId,
      })
    ).certificateProfile.id;
  });
  after(async () => {
    const exited = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGTERM");
    await exited;
    await rm(folder, { recursive: true });
  });

  it("issue writes certificate, chain and a key that only its owner reads, and never over a file that is there", async () => {
    const given = [
      "issue",
      "--profile",
      profileId,
      "--common-name",
      "a.example.com",
      "--san",
      "a.example.com",
    ];
    const { code, errors } = await keyward(...given, "--san", "10.1.2.3", "--ttl", "30d", "--out", folder);
    assert.equal(code, 0, errors);
    const [leaf, chain] = await Promise.all(
      ["cert.pem", "chain.pem"].map(async (name) => new X509Certificate(await readFile(join(folder, name)))),
    );
    assert.ok(leaf && chain && leaf.verify(chain.publicKey), "signed by its chain");
    assert.equal(leaf.subjectAltName, "DNS:a.example.com, IP Address:10.1.2.3");
    assert.ok(leaf.checkPrivateKey(createPrivateKey(await readFile(join(folder, "key.pem")))));
    assert.equal((await stat(join(folder, "key.pem"))).mode & 0o777, 0o600);
    const again = await keyward(...given, "--out", folder);
    assert.equal(again.code, 2);
    assert.match(again.errors, /cert\.pem exists/);
    assert.match((await keyward(...given, "--out", join(folder, "nowhere"))).errors, /no folder/);
    assert.match((await keyward(...given, "--csr", join(folder, "nowhere"))).errors, /cannot be read/);
    const listed = await json<Listed[]>("list", "--profile", profileId);
    assert.equal(listed.length, 1, "what had no place was not issued");
  });

  it("never loses a key that finds no place: refused before it is issued, or printed", async () => {
    const given = ["issue", "--profile", "web", "--project", projectId, "--common-name", "lost.example.com"];
    const names = [...given, "--san", "lost.example.com", "--out"];
    const file = join(folder, "a-file");
    await writeFile(file, "");
    assert.match((await keyward(...names, file)).errors, /there is no folder/);
    // Its owner is root, who is told only by writing that nobody can.
    const { code, out, errors } = await keyward(...names, "/proc");
    if (code === 2) return assert.match(errors, /nothing can be written/);
    assert.equal(code, 1);
    assert.match(out, /BEGIN CERTIFICATE[\s\S]*PRIVATE KEY/);
    assert.match(errors, /was issued but not written to \/proc/);
  });

  it("issue says with --dry-run what speaks against it, and issues nothing", async () => {
    const before = await json<Listed[]>("list", "--profile", profileId);
    const { code, out } = await keyward(
      "issue",
      "--profile",
      profileId,
      "--common-name",
      "x.example.com",
      "--ttl",
      "5y",
      "--dry-run",
    );
    assert.equal(code, 0);
    assert.match(out, /would be refused[\s\S]*validity/);
    assert.deepEqual(await json<Listed[]>("list", "--profile", profileId), before);
    const refused = await keyward(
      "issue",
      "--profile",
      profileId,
      "--common-name",
      "x.example.com",
      "--ttl",
      "5y",
    );
    assert.equal(refused.code, 1);
    assert.match(refused.errors, /validity/);
  });

  it("issue certifies a request of one's own, and then has no key to give", async (test) => {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const [key, csr] = [join(folder, "own.key"), join(folder, "own.csr")];
    await writeFile(key, privateKey.export({ type: "pkcs8", format: "pem" }));
    const made = spawnSync("openssl", [
      "req",
      "-new",
      "-key",
      key,
      "-subj",
      "/CN=own.example.com",
      "-out",
      csr,
    ]);
    if (made.error) return test.skip("openssl is not installed");
    const issued = await json("issue", "--profile", "web", "--project", projectId, "--csr", csr);
    assert.ok(new X509Certificate(issued["certificate"] ?? "").checkPrivateKey(privateKey));
    assert.equal(issued["privateKey"], undefined);
  });

  it("list filters, searches and pages; show tells one certificate, in words or as PEM", async () => {
    const one = await issue("list-one.example.com");
    await issue("list-two.example.com");
    const found = await json<Listed[]>(
      "list",
      "--profile",
      "web",
      "--project",
      projectId,
      "--search",
      "list-",
      "--limit",
      "1",
      "--offset",
      "1",
    );
    assert.deepEqual(
      found.map(({ id, cn, status }) => [id, cn, status]),
      [[one["certificateId"], "list-one.example.com", "active"]],
    );
    assert.deepEqual(await json<Listed[]>("list", "--profile", profileId, "--status", "expired"), []);
    assert.equal((await keyward("list", "--profile", profileId, "--status", "lively")).code, 1);
    const { out } = await keyward("show", one["certificateId"] ?? "");
    for (const part of ["list-one.example.com", "active", one["serialNumber"] ?? "", "web"])
      assert.ok(out.includes(part), part);
    const pem = await keyward("show", one["certificateId"] ?? "", "--pem");
    assert.equal(
      pem.out
        .split("\n\n")
        .join("\n")
        .indexOf(one["certificate"] ?? "?"),
      0,
    );
    const nobody = await keyward("show", "01890000-0000-7000-8000-00000000000a");
    assert.deepEqual([nobody.code, /not (be )?found|does not exist/i.test(nobody.errors)], [1, true]);
  });

  it("renew replaces a certificate, with a new key or with the same, and says who replaced it", async () => {
    const one = await issue("renew.example.com");
    const renewed = await json("renew", one["certificateId"] ?? "");
    const keyOf = (pem = "") => new X509Certificate(pem).publicKey.export({ type: "spki", format: "pem" });
    assert.notEqual(keyOf(renewed["certificate"]), keyOf(one["certificate"]));
    const shown = await json("show", one["certificateId"] ?? "");
    assert.equal(shown["renewedByCertificateId"], renewed["certificateId"]);
    const twice = await json("renew", renewed["certificateId"] ?? "", "--same-key");
    assert.equal(keyOf(twice["certificate"]), keyOf(renewed["certificate"]));
  });

  it("revoke takes a reason of RFC 5280 and no other, and shows in the list", async () => {
    const one = await issue("revoke.example.com");
    assert.equal((await keyward("revoke", one["certificateId"] ?? "", "--reason", "bored")).code, 2);
    const { code, out } = await keyward("revoke", one["certificateId"] ?? "", "--reason", "superseded");
    assert.deepEqual([code, out.includes(one["serialNumber"] ?? "?")], [0, true]);
    const gone = await json<Listed[]>("list", "--profile", profileId, "--status", "revoked");
    assert.deepEqual(
      gone.map(({ id }) => id),
      [one["certificateId"]],
    );
    assert.equal((await keyward("revoke", one["certificateId"] ?? "")).code, 1, "revoked already");
  });

  it("export prints every certificate of a project, one JSON object per line", async () => {
    await issue("export.example.com");
    const { code, out } = await keyward("export", "--project", projectId);
    assert.equal(code, 0);
    const lines = out.split("\n").map((line) => JSON.parse(line) as { id: string; commonName: string });
    const listed = await json<Listed[]>("list", "--profile", profileId, "--limit", "100");
    const ids = new Set(lines.map(({ id }) => id));
    assert.equal(ids.size, lines.length);
    for (const { id } of listed) assert.ok(ids.has(id), id);
    const some = await keyward("export", "--project", projectId, "--search", "export.");
    assert.deepEqual(
      some.out.split("\n").map((line) => (JSON.parse(line) as { commonName: string }).commonName),
      ["export.example.com"],
    );
  });

  it("export prints CSV as the server writes it, and says what it needs", async () => {
    await issue("export-csv.example.com");
    await json(
      "issue",
      "--profile",
      profileId,
      "--common-name",
      "export-\u202egpj",
      "--san",
      "a.example.com",
    );
    const { code, out, errors } = await keyward("export", "--project", projectId, "--format", "csv");
    assert.equal(code, 0, errors);
    const [header = "", ...rows] = out.split("\r\n").map((line) => line.trimStart());
    assert.match(header, /^id,serialNumber,commonName/);
    assert.ok(out.includes('"export-?gpj"') && !out.includes("\u202e"), "no name steers the terminal");
    const objects = await keyward("export", "--project", projectId);
    assert.equal(rows.filter((row) => row !== "").length, objects.out.split("\n").length);
    const some = await keyward(
      "export",
      "--project",
      projectId,
      "--format",
      "csv",
      "--search",
      "export-csv.",
    );
    assert.equal(some.out.match(/"export-csv\.example\.com"/g)?.length, 2, "as common and as other name");
    for (const [more, complaint] of [
      [["--project", projectId, "--format", "xml"], /--format must be json or csv/],
      [["--project", projectId, "--format", "csv", "--json"], /not both/],
      [[], /--project is missing/],
    ] as const) {
      const refused = await keyward("export", ...more);
      assert.deepEqual([refused.code, complaint.test(refused.errors)], [2, true], refused.errors);
    }
    const foreign = await keyward("export", "--project", "no-such-project", "--format", "csv");
    assert.deepEqual([foreign.code, foreign.out], [1, ""]);
    assert.match(foreign.errors, /not found[\s\S]*status 404/);
    assert.ok(!(await keyward("export", "--help")).out.includes("else the organisation"));
  });
});
