/** The key and its chain as PKCS#12 and as JKS, for every key type, opened by OpenSSL and by Java's keytool. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { anIntermediate, aProfile, aRoot, certProject, issue } from "../certificates.ts";
import { openTestHouse, type TestHouse } from "../harness.ts";

const KEYS = ["RSA_2048", "RSA_3072", "EC_prime256v1", "EC_secp384r1", "EC_secp521r1", "Ed25519"];
const PASSWORD = "pässword with blanks";
const isMissing = (command: string, probe: string) =>
  spawnSync(command, [probe], { stdio: "ignore" }).error === undefined
    ? false
    : `${command} is not installed, so it has judged nothing`;

describe("keystores are opened by every judge", () => {
  let house: TestHouse;
  let directory: string;
  const leaves: { keyAlgorithm: string; certificateId: string; certificate: string; privateKey: string }[] =
    [];

  const run = (command: string, ...args: string[]) => {
    const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: directory, encoding: "utf8" });
    if (error) throw error;
    return { isAccepted: status === 0, output: `${stdout}${stderr}` };
  };
  const download = async (id: string, format: string, password: string) => {
    const response = await fetch(`${house.base}/api/v1/cert-manager/certificates/${id}/keystore`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${house.owner.token}` },
      body: JSON.stringify({ format, password, alias: "web" }),
    });
    assert.equal(response.status, 200);
    writeFileSync(join(directory, `store.${format}`), new Uint8Array(await response.arrayBuffer()));
  };

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), "keyward-verifiers-"));
    house = await openTestHouse({ start: new Date() });
    const { id: projectId } = await certProject(house.owner);
    const root = await aRoot(house.owner, projectId);
    const middle = await anIntermediate(house.owner, projectId, root.id);
    const profile = await aProfile(house.owner, projectId, middle.id);
    for (const keyAlgorithm of KEYS)
      leaves.push({ keyAlgorithm, ...(await issue(house.owner, profile.id, { keyAlgorithm })) });
  });
  after(async () => {
    rmSync(directory, { recursive: true, force: true });
    await house.close();
  });

  test(
    "PKCS#12 by openssl: the key, the certificate and its whole chain",
    { skip: isMissing("openssl", "version") },
    async () => {
      for (const { keyAlgorithm, certificateId, certificate, privateKey } of leaves) {
        await download(certificateId, "pkcs12", PASSWORD);
        const opened = run(
          "openssl",
          "pkcs12",
          "-in",
          "store.pkcs12",
          "-passin",
          `pass:${PASSWORD}`,
          "-nodes",
          "-out",
          "all.pem",
        );
        assert.ok(opened.isAccepted, `${keyAlgorithm}: ${opened.output}`);
        const text = readFileSync(join(directory, "all.pem"), "utf8");
        const found = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
        assert.equal(found.length, 3, keyAlgorithm);
        assert.ok(
          found.some(
            (pem) =>
              new X509Certificate(pem).fingerprint256 === new X509Certificate(certificate).fingerprint256,
          ),
        );
        assert.ok(createPrivateKey(text).equals(createPrivateKey(privateKey)), keyAlgorithm);
        assert.ok(
          !run("openssl", "pkcs12", "-in", "store.pkcs12", "-passin", "pass:wrong", "-nodes").isAccepted,
        );
      }
    },
  );

  for (const format of ["pkcs12", "jks"]) {
    test(
      `${format} by keytool: one entry with a key and a chain of three`,
      { skip: isMissing("keytool", "-help") },
      async () => {
        for (const { keyAlgorithm, certificateId, certificate } of leaves) {
          await download(certificateId, format, "an ascii password");
          const list = (password: string) =>
            run(
              "keytool",
              "-list",
              "-v",
              "-keystore",
              `store.${format}`,
              "-storetype",
              format,
              "-storepass",
              password,
            );
          const { isAccepted, output } = list("an ascii password");
          assert.ok(isAccepted, `${keyAlgorithm}: ${output}`);
          assert.match(output, /PrivateKeyEntry/, keyAlgorithm);
          assert.match(output, /Certificate chain length: 3/, keyAlgorithm);
          assert.ok(output.includes(new X509Certificate(certificate).fingerprint256), keyAlgorithm);
          assert.ok(!list("wrong password").isAccepted, keyAlgorithm);
        }
      },
    );
  }
});
