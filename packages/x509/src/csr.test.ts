import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { KEY_ALGORITHMS } from "./algorithms.ts";
import { signTbsSync } from "./certificate.ts";
import { buildCsr, csrToPem, parseCsr, parseCsrPem, verifyCsr, verifyCsrSync } from "./csr.ts";
import * as der from "./der.ts";
import { basicConstraints, extendedKeyUsage, keyUsage, subjectAltName } from "./extensions.ts";
import { ask, needs, withFiles } from "./judges.ts";
import { exportPkcs8Pem, exportSpki } from "./keys.ts";
import { formatName, parseName } from "./name-text.ts";
import { encodeName } from "./names.ts";
import { OID } from "./oids.ts";
import { dns, sharedKeys, signerOf } from "./test-authority.ts";
import { X509Error } from "./x509-error.ts";

const QUICK = KEY_ALGORITHMS.filter((name) => name !== "RSA_3072" && name !== "RSA_4096");
const subject = encodeName(parseName("CN=db.example.com,O=Acme"));
const wishes = [
  subjectAltName([dns("db.example.com"), { type: "ip_address", value: "192.0.2.1" }], false),
  keyUsage(["digital_signature"]),
  extendedKeyUsage(["server_auth", "client_auth"]),
  basicConstraints({ isCa: true, pathLength: 0 }),
];
const refusedAs = (code: string) => (error: unknown) => error instanceof X509Error && error.code === code;

for (const algorithm of QUICK) {
  test(`${algorithm}: a request reads back and proves possession`, async () => {
    const { privateKey, publicKey } = await sharedKeys(algorithm);
    const csr = parseCsr(await buildCsr({ subject, extensions: wishes }, signerOf(privateKey)));
    assert.equal(formatName(csr.subject.rdns), "CN=db.example.com,O=Acme");
    assert.ok(csr.publicKey.equals(exportSpki(publicKey)));
    assert.deepEqual(
      csr.extensions.all.map((each) => each.der),
      wishes.map((each) => each.der),
    );
    assert.ok((await verifyCsr(csr)).equals(publicKey));
    assert.ok(verifyCsrSync(csr).equals(publicKey));
  });

  test(`${algorithm}: openssl req verifies ours, and we verify its`, needs("openssl"), async () => {
    const { privateKey, publicKey } = await sharedKeys(algorithm);
    const ours = csrToPem(await buildCsr({ subject, extensions: wishes }, signerOf(privateKey)));
    const files = { "ours.pem": ours, "key.pem": exportPkcs8Pem(privateKey) };
    withFiles(files, (directory) => {
      const verdict = ask("openssl", ["req", "-in", "ours.pem", "-verify", "-noout", "-text"], directory);
      assert.ok(verdict.isAccepted && verdict.output.includes("DNS:db.example.com"), verdict.output);
      const made = ask(
        "openssl",
        [
          "req",
          "-new",
          "-key",
          "key.pem",
          "-subj",
          "/C=DE/O=Acme/CN=x",
          "-addext",
          "subjectAltName=DNS:a.example.com",
        ],
        directory,
      );
      assert.ok(made.isAccepted, made.output);
      const csr = parseCsrPem(made.output);
      assert.ok(verifyCsrSync(csr).equals(publicKey));
      assert.deepEqual(csr.extensions.subjectAltName, [dns("a.example.com")]);
      assert.equal(formatName(csr.subject.rdns), "CN=x,O=Acme,C=DE");
    });
  });
}

describe("a request is refused", () => {
  const keys = sharedKeys("EC_prime256v1");

  test("when its signature is of another key", async () => {
    const [{ privateKey }, other] = await Promise.all([keys, sharedKeys("EC_prime256v1", "other")]);
    const good = parseCsr(await buildCsr({ subject, extensions: [] }, signerOf(privateKey)));
    const stolen = parseCsr(signTbsSync(good.tbs, signerOf(other.privateKey)));
    assert.throws(() => verifyCsrSync(stolen), refusedAs("csr.signature"));
    await assert.rejects(verifyCsr(stolen), refusedAs("csr.signature"));
  });

  test("before its signature is looked at, when its RSA numbers are too long to be looked at", async () => {
    const { privateKey } = await sharedKeys("RSA_2048");
    const good = parseCsr(await buildCsr({ subject, extensions: [] }, signerOf(privateKey)));
    const withKey = (modulus: bigint, exponent: bigint) => ({
      ...good,
      publicKey: der.sequence(
        der.sequence(der.oid(OID.rsaEncryption), der.nullValue()),
        der.bitString(der.sequence(der.integer(modulus), der.integer(exponent))),
      ),
    });
    const long = withKey((1n << 16_000n) + 1n, 65537n);
    const tall = withKey((1n << 3000n) + 1n, (1n << 2999n) + 1n);
    await assert.rejects(verifyCsr(long), refusedAs("key.rsa_long"));
    await assert.rejects(verifyCsr(tall), refusedAs("key.rsa_exponent"));
    assert.throws(() => verifyCsrSync(long), refusedAs("key.rsa_long"));
  });

  test("when it is signed with SHA-1", async () => {
    const { privateKey } = await keys;
    const good = parseCsr(await buildCsr({ subject, extensions: [] }, signerOf(privateKey)));
    const sha1 = der.sequence(
      good.tbs,
      der.sequence(der.oid("1.2.840.10045.4.1")),
      der.bitString(good.signature),
    );
    assert.throws(() => verifyCsrSync(parseCsr(sha1)), refusedAs("csr.signature_algorithm"));
  });

  test("when an extension is asked for twice", async () => {
    const { privateKey } = await keys;
    const twice = [keyUsage(["digital_signature"]), keyUsage(["key_agreement"])];
    const csr = await buildCsr({ subject, extensions: twice }, signerOf(privateKey));
    assert.throws(() => parseCsr(csr), refusedAs("csr.duplicate_extension"));
  });

  test("when two attributes both ask for extensions", async () => {
    const { privateKey, publicKey } = await keys;
    const list = (names: string[]) => der.sequence(subjectAltName(names.map(dns), false).der);
    const attribute = (names: string[]) =>
      der.sequence(der.oid(OID.extensionRequest), der.setOf([list(names)]));
    const attributes = der.explicit(0, attribute(["a.example.com"]), attribute(["b.example.com"]));
    const info = der.sequence(der.integer(0), subject, exportSpki(publicKey), attributes);
    assert.throws(() => parseCsr(signTbsSync(info, signerOf(privateKey))), der.DerError);
  });

  test("when the PEM holds none or two", async () => {
    const { privateKey } = await keys;
    const pem = csrToPem(await buildCsr({ subject, extensions: [] }, signerOf(privateKey)));
    assert.throws(() => parseCsrPem(pem + pem), refusedAs("csr.pem"));
    assert.throws(() => parseCsrPem("hello"), refusedAs("csr.pem"));
    assert.doesNotThrow(() => parseCsrPem(pem.replaceAll("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST")));
  });
});

test("RSA-PSS: openssl verifies ours, and we verify its", needs("openssl"), async () => {
  const { privateKey, publicKey } = await sharedKeys("RSA_2048");
  const ours = csrToPem(
    await buildCsr({ subject, extensions: [] }, { key: privateKey, algorithm: "RSA-PSS-SHA384" }),
  );
  withFiles({ "ours.pem": ours, "key.pem": exportPkcs8Pem(privateKey) }, (directory) => {
    const verdict = ask("openssl", ["req", "-in", "ours.pem", "-verify", "-noout"], directory);
    assert.ok(verdict.isAccepted, verdict.output);
    const pss = ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:-1", "-sha256"];
    const made = ask("openssl", ["req", "-new", "-key", "key.pem", "-subj", "/CN=x", ...pss], directory);
    const csr = parseCsrPem(made.output);
    assert.equal(csr.signatureAlgorithm, "RSA-PSS-SHA256");
    assert.ok(verifyCsrSync(csr).equals(publicKey));
  });
});

test("property: no mutation of a request crashes the parser, and none of them verifies", async () => {
  const { privateKey } = await sharedKeys("EC_prime256v1");
  const good = await buildCsr({ subject, extensions: wishes }, signerOf(privateKey));
  fc.assert(
    fc.property(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 }), (position, flip) => {
      const mutated = Buffer.from(good);
      mutated[position] = (mutated[position] ?? 0) ^ flip;
      assert.throws(
        () => verifyCsrSync(parseCsr(mutated)),
        (cause) => cause instanceof der.DerError || cause instanceof X509Error,
      );
    }),
    { numRuns: 500 },
  );
});

test("attributes may be empty or left out, and a challenge password is read", async () => {
  const { privateKey, publicKey } = await sharedKeys("EC_prime256v1");
  const withAttributes = (...attributes: Buffer[]): Buffer =>
    signTbsSync(
      der.sequence(der.integer(0), subject, exportSpki(publicKey), ...attributes),
      signerOf(privateKey),
    );
  assert.deepEqual(parseCsr(withAttributes()).extensions.all, []);
  assert.deepEqual(parseCsr(withAttributes(der.explicit(0))).extensions.all, []);
  const challenge = der.sequence(der.oid(OID.challengePassword), der.setOf([der.utf8String("geheim")]));
  assert.equal(parseCsr(withAttributes(der.explicit(0, challenge))).challengePassword, "geheim");
});
