/** CRLs and OCSP responses, fetched where the certificates point to, checked by OpenSSL and by GnuTLS. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { anIntermediate, aProfile, aRoot, certProject, issue, ok } from "../certificates.ts";
import { openTestHouse, type TestHouse } from "../harness.ts";

const PUBLIC = "http://pki.example.com";
const CERTS = "/api/v1/cert-manager/certificates";
const AUTHORITY_KEYS = ["RSA_2048", "EC_prime256v1", "EC_secp384r1", "EC_secp521r1", "Ed25519"];

const isMissing = (command: string, probe: string) =>
  spawnSync(command, [probe], { stdio: "ignore" }).error === undefined
    ? false
    : `${command} is not installed, so it has judged nothing`;
const needsOpenssl = { skip: isMissing("openssl", "version") };
const needsGnutls = { skip: isMissing("ocsptool", "--version") };

interface Leaf {
  readonly certificate: string;
  readonly certificateChain: string;
  readonly certificateId: string;
  readonly serialNumber: string;
}

describe("lists and OCSP answers are accepted by every judge", () => {
  let house: TestHouse;
  let directory: string;
  const pairs: { algorithm: string; good: Leaf; revoked: Leaf }[] = [];

  const run = (command: string, ...args: string[]) => {
    const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: directory, encoding: "utf8" });
    if (error) throw error;
    return { isAccepted: status === 0, output: `${stdout}${stderr}` };
  };
  const put = (name: string, content: string | Uint8Array) => writeFileSync(join(directory, name), content);
  const download = async (url: string, init?: RequestInit) => {
    const response = await fetch(url.replace(PUBLIC, house.base), init);
    assert.equal(response.status, 200);
    return new Uint8Array(await response.arrayBuffer());
  };
  /** leaf.pem, its issuer ca.pem and its root root.pem; answers where its status is told. */
  const layOut = ({ certificate, certificateChain }: Leaf) => {
    const chain = certificateChain.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? [];
    put("leaf.pem", `${certificate}\n`);
    put("ca.pem", `${chain[0]}\n`);
    put("root.pem", `${chain.at(-1)}\n`);
    put("chain.pem", chain.map((pem) => `${pem}\n`).join(""));
    const shown = run("openssl", "x509", "-in", "leaf.pem", "-noout", "-text").output;
    const crl = /URI:(\S+\/pki\/crl\/\S+)/.exec(shown)?.[1];
    const ocsp = /OCSP - URI:(\S+)/.exec(shown)?.[1];
    assert.ok(crl && ocsp, shown);
    return { crl, ocsp };
  };
  const answerTo = async (url: string, request: string) => {
    const headers = { "content-type": "application/ocsp-request" };
    const body = new Uint8Array(readFileSync(join(directory, request)));
    put("response.der", await download(url, { method: "POST", headers, body }));
  };

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), "keyward-verifiers-"));
    house = await openTestHouse({
      start: new Date(Date.now() - 300_000),
      env: { KEYWARD_REVOCATION_URL: PUBLIC },
    });
    const { id: projectId } = await certProject(house.owner);
    for (const algorithm of AUTHORITY_KEYS) {
      const root = await aRoot(house.owner, projectId, { keyAlgorithm: algorithm });
      const middle = await anIntermediate(house.owner, projectId, root.id, { keyAlgorithm: algorithm });
      for (const caId of [root.id, middle.id]) {
        const profile = await aProfile(house.owner, projectId, caId);
        const [good, revoked] = [await issue(house.owner, profile.id), await issue(house.owner, profile.id)];
        ok(
          await house.owner.post(`${CERTS}/${revoked.certificateId}/revoke`, {
            revocationReason: "KEY_COMPROMISE",
          }),
        );
        pairs.push({
          algorithm: `${algorithm}, ${caId === root.id ? "root" : "intermediate"}`,
          good,
          revoked,
        });
      }
    }
    house.clock.advance(4_000);
    await house.house.jobs.runDue();
  });
  after(async () => {
    rmSync(directory, { recursive: true, force: true });
    await house.close();
  });

  test("openssl crl verifies each list, and openssl verify refuses what is on it", needsOpenssl, async () => {
    for (const { algorithm, good, revoked } of pairs) {
      const { crl } = layOut(good);
      put("list.der", await download(crl));
      const shown = run(
        "openssl",
        "crl",
        "-inform",
        "DER",
        "-in",
        "list.der",
        "-CAfile",
        "ca.pem",
        "-noout",
        "-text",
      );
      assert.match(shown.output, /verify OK/, algorithm);
      assert.ok(shown.output.toLowerCase().includes(revoked.serialNumber.replace(/^00/, "")), algorithm);
      assert.match(shown.output, /Key Compromise/);
      run("openssl", "crl", "-inform", "DER", "-in", "list.der", "-out", "list.pem");
      const judged = (file: string) =>
        run(
          "openssl",
          "verify",
          "-x509_strict",
          "-crl_check",
          "-partial_chain",
          "-trusted",
          "ca.pem",
          "-CRLfile",
          "list.pem",
          file,
        );
      assert.ok(judged("leaf.pem").isAccepted, `${algorithm}: ${judged("leaf.pem").output}`);
      put("revoked.pem", `${revoked.certificate}\n`);
      assert.match(judged("revoked.pem").output, /certificate revoked/, algorithm);
    }
  });

  test(
    "GnuTLS verifies each list and finds the revoked one in it",
    { skip: isMissing("certtool", "--version") },
    async () => {
      for (const { algorithm, revoked } of pairs) {
        const { crl } = layOut(revoked);
        put("list.der", await download(crl));
        const text = readFileSync(join(directory, "list.der")).toString("base64");
        put("list.pem", `-----BEGIN X509 CRL-----\n${text}\n-----END X509 CRL-----\n`);
        const verified = run(
          "certtool",
          "--verify-crl",
          "--load-ca-certificate",
          "ca.pem",
          "--infile",
          "list.pem",
        );
        assert.match(verified.output, /Verification output: Verified\./, `${algorithm}: ${verified.output}`);
        const shown = run("certtool", "--crl-info", "--inder", "--infile", "list.der").output;
        assert.ok(shown.toLowerCase().includes(revoked.serialNumber.replace(/^00/, "")), algorithm);
      }
    },
  );

  test(
    "openssl ocsp asks and trusts the answer: good, and revoked with its reason",
    needsOpenssl,
    async () => {
      for (const { algorithm, good, revoked } of pairs) {
        for (const [leaf, verdict] of [
          [good, /leaf\.pem: good/],
          [revoked, /leaf\.pem: revoked[\s\S]*Reason: keyCompromise/],
        ] as const) {
          const { ocsp } = layOut(leaf);
          run("openssl", "ocsp", "-issuer", "ca.pem", "-cert", "leaf.pem", "-reqout", "request.der");
          await answerTo(ocsp, "request.der");
          const { output } = run(
            "openssl",
            "ocsp",
            "-no_nonce",
            "-respin",
            "response.der",
            "-issuer",
            "ca.pem",
            "-cert",
            "leaf.pem",
            "-CAfile",
            "chain.pem",
          );
          assert.match(output, /Response verify OK/, `${algorithm}: ${output}`);
          assert.match(output, verdict, algorithm);
          assert.doesNotMatch(output, /WARNING|no nonce/i, algorithm);
        }
      }
    },
  );

  test(
    "ocsptool asks and trusts the answer: good, and revoked; and trusts no stranger",
    needsGnutls,
    async () => {
      for (const [index, { algorithm, good, revoked }] of pairs.entries()) {
        for (const [leaf, verdict] of [
          [good, /Certificate Status: good/],
          [revoked, /Certificate Status: revoked/],
        ] as const) {
          const { ocsp } = layOut(leaf);
          const asked = run(
            "ocsptool",
            "--generate-request",
            "--load-issuer",
            "ca.pem",
            "--load-cert",
            "leaf.pem",
            "--outfile",
            "request.der",
          );
          assert.ok(asked.isAccepted, asked.output);
          await answerTo(ocsp, "request.der");
          const shown = run("ocsptool", "--response-info", "--infile", "response.der").output;
          assert.match(shown, verdict, `${algorithm}: ${shown}`);
          const judged = (issuer: string) =>
            run("ocsptool", "--verify-response", "--load-trust", issuer, "--infile", "response.der").output;
          assert.match(judged("ca.pem"), /Verifying OCSP Response: Success/, algorithm);
          const other = pairs[(index + 2) % pairs.length];
          assert.ok(other);
          layOut(other.good);
          assert.match(
            judged("ca.pem"),
            /Verifying OCSP Response: Failure/,
            `${algorithm}: another authority`,
          );
        }
      }
    },
  );
});
