import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { describe, test } from "node:test";
import fc from "fast-check";
import { KEY_ALGORITHMS, type SignatureAlgorithm } from "./algorithms.ts";
import {
  buildTbs,
  certificatesFromPem,
  certificateToPem,
  checkTbsMatches,
  fingerprintsOf,
  parseCertificate,
  readTbs,
  signCertificate,
  signTbs,
  signTbsSync,
} from "./certificate.ts";
import { DerError } from "./der.ts";
import {
  authorityInfoAccess,
  authorityKeyIdentifier,
  basicConstraints,
  certificatePolicies,
  crlDistributionPoints,
  extendedKeyUsage,
  keyUsage,
  makeExtension,
  subjectAltName,
  subjectKeyIdentifier,
} from "./extensions.ts";
import type { GeneralName } from "./general-names.ts";
import { ask, needs, withFiles } from "./judges.ts";
import { exportSpki, keyIdentifier } from "./keys.ts";
import { nameConstraints } from "./name-constraints.ts";
import { formatName, parseName } from "./name-text.ts";
import { encodeName, nameFrom } from "./names.ts";
import { encodeSerial, parseSerial, serialFromRandom } from "./serials.ts";
import {
  dns,
  freshSerial,
  issueLeaf,
  leafFields,
  makeAuthority,
  NOON,
  sharedKeys,
} from "./test-authority.ts";
import { X509Error } from "./x509-error.ts";

const NOON_EPOCH = String(NOON.getTime() / 1000 + 60);

describe("a root and a leaf of every key algorithm", () => {
  for (const algorithm of KEY_ALGORITHMS) {
    test(`${algorithm}: read and verified by Node's own parser`, async () => {
      const root = await makeAuthority({ name: `Root ${algorithm}`, algorithm });
      const leaf = await issueLeaf(root, { algorithm });
      const [rootNode, leafNode] = [new X509Certificate(root.certificate.der), new X509Certificate(leaf.der)];
      assert.ok(rootNode.verify(rootNode.publicKey) && leafNode.verify(rootNode.publicKey));
      assert.ok(leafNode.checkIssued(rootNode));
      assert.ok(rootNode.ca && !leafNode.ca);
      assert.equal(leafNode.serialNumber.toLowerCase(), leaf.serialNumber);
      assert.equal(leafNode.subjectAltName, "DNS:db.example.com");
      assert.equal(new Date(leafNode.validTo).getTime(), leaf.notAfter.getTime());
      assert.ok(leafNode.publicKey.export({ type: "spki", format: "der" }).equals(leaf.publicKey));
      assert.equal(
        leafNode.fingerprint256.replaceAll(":", "").toLowerCase(),
        fingerprintsOf(leaf.der).sha256,
      );
      assert.equal(leafNode.fingerprint.replaceAll(":", "").toLowerCase(), fingerprintsOf(leaf.der).sha1);
    });

    test(`${algorithm}: accepted by openssl verify -x509_strict`, needs("openssl"), async () => {
      const root = await makeAuthority({ name: `Root ${algorithm}`, algorithm });
      const middle = await makeAuthority({ name: `Middle ${algorithm}`, parent: root, pathLength: 0 });
      const leaf = await issueLeaf(middle);
      const files = {
        "root.pem": certificateToPem(root.certificate.der),
        "middle.pem": certificateToPem(middle.certificate.der),
        "leaf.pem": certificateToPem(leaf.der),
      };
      const base = ["verify", "-x509_strict", "-check_ss_sig", "-attime", NOON_EPOCH, "-CAfile", "root.pem"];
      const args = [...base, "-purpose", "sslserver", "-untrusted", "middle.pem", "leaf.pem"];
      const verdict = withFiles(files, (directory) => ask("openssl", args, directory));
      assert.ok(verdict.isAccepted, verdict.output);
    });
  }
});

describe("every signature algorithm", () => {
  const combinations: readonly [SignatureAlgorithm, (typeof KEY_ALGORITHMS)[number]][] = [
    ["RSA-SHA256", "RSA_2048"],
    ["RSA-SHA384", "RSA_2048"],
    ["RSA-SHA512", "RSA_2048"],
    ["RSA-PSS-SHA256", "RSA_2048"],
    ["RSA-PSS-SHA384", "RSA_2048"],
    ["RSA-PSS-SHA512", "RSA_2048"],
    ["ECDSA-SHA256", "EC_prime256v1"],
    ["ECDSA-SHA384", "EC_prime256v1"],
    ["ECDSA-SHA512", "EC_prime256v1"],
    ["Ed25519", "Ed25519"],
  ];
  for (const [algorithm, keyAlgorithm] of combinations) {
    test(`${algorithm} verifies in Node, signed in the pool and at once`, async () => {
      const { publicKey, privateKey } = await sharedKeys(keyAlgorithm, "signer");
      const root = await makeAuthority();
      const tbs = buildTbs(await leafFields(root), algorithm);
      const signer = { key: privateKey, algorithm };
      for (const certificate of [await signTbs(tbs, signer), signTbsSync(tbs, signer)]) {
        assert.ok(new X509Certificate(certificate).verify(publicKey));
        assert.equal(parseCertificate(certificate).signatureAlgorithm, algorithm);
        checkTbsMatches(certificate, tbs);
      }
    });
  }

  test("is refused with a key of another family", async () => {
    const { privateKey } = await sharedKeys("EC_prime256v1", "signer");
    const root = await makeAuthority();
    const tbs = buildTbs(await leafFields(root), "RSA-SHA256");
    const isRefusal = (error: unknown) =>
      error instanceof X509Error && error.code === "signature_algorithm.key";
    assert.throws(() => signTbsSync(tbs, { key: privateKey, algorithm: "RSA-SHA256" }), isRefusal);
  });
});

test("every field and extension reads back as it was written", async () => {
  const root = await makeAuthority();
  const { publicKey } = await sharedKeys("EC_secp384r1");
  const spki = exportSpki(publicKey);
  const altNames: readonly GeneralName[] = [
    dns("a.example.com"),
    { type: "ip_address", value: "2001:db8::1" },
    { type: "email", value: "jane@example.com" },
    { type: "uri", value: "spiffe://example.com/db" },
    { type: "upn", value: "jane@corp" },
    { type: "directory_name", value: parseName("CN=x,O=y") },
  ];
  const serialNumber = freshSerial();
  const fields = {
    serialNumber,
    issuer: root.certificate.subject.der,
    subject: encodeName(nameFrom({ commonName: "Sub", organization: "Acme", country: "DE" })),
    notBefore: new Date("2026-02-03T04:05:06Z"),
    notAfter: new Date("2051-02-03T04:05:06Z"),
    publicKey: spki,
    extensions: [
      basicConstraints({ isCa: true, pathLength: 3 }),
      keyUsage(["crl_sign", "key_cert_sign", "decipher_only", "key_agreement"]),
      extendedKeyUsage(["server_auth", "1.2.3.4", "any_purpose"]),
      subjectAltName(altNames, false),
      subjectKeyIdentifier(keyIdentifier(spki)),
      authorityKeyIdentifier(root.keyId),
      crlDistributionPoints(["http://a.example/1.crl", "http://b.example/1.crl"]),
      authorityInfoAccess({ ocspUrls: ["http://ocsp.example"], caIssuersUrls: ["http://ca.example/1.crt"] }),
      certificatePolicies([{ oid: "1.2.3.5", cpsUri: "http://cps.example" }, { oid: "1.2.3.6" }]),
      nameConstraints({
        permitted: [
          { type: "dns_name", value: "example.com" },
          { type: "ip_address", value: "10.0.0.0/8" },
        ],
        excluded: [
          { type: "email", value: ".example.com" },
          { type: "uri", value: "host.example.com" },
          { type: "directory_name", value: parseName("O=Bad") },
          { type: "ip_address", value: "2001:db8::/32" },
        ],
      }),
      makeExtension("1.3.6.1.4.1.99999.7", true, Buffer.from([5, 0])),
    ],
  };
  const parsed = parseCertificate(await signCertificate(fields, root.signer));
  assert.equal(parsed.version, 3);
  assert.equal(parsed.serialNumber, serialNumber);
  assert.equal(formatName(parsed.subject.rdns), "CN=Sub,O=Acme,C=DE");
  assert.ok(parsed.issuer.der.equals(root.certificate.subject.der));
  assert.deepEqual([parsed.notBefore, parsed.notAfter], [fields.notBefore, fields.notAfter]);
  const { extensions } = parsed;
  assert.deepEqual(extensions.basicConstraints, { isCa: true, pathLength: 3 });
  assert.deepEqual(extensions.keyUsage, ["key_agreement", "key_cert_sign", "crl_sign", "decipher_only"]);
  assert.deepEqual(extensions.extendedKeyUsage, ["server_auth", "1.2.3.4", "any_purpose"]);
  assert.deepEqual(extensions.subjectAltName, altNames);
  assert.deepEqual(extensions.subjectKeyIdentifier, keyIdentifier(spki));
  assert.deepEqual(extensions.authorityKeyIdentifier, root.keyId);
  assert.deepEqual(extensions.crlDistributionPoints, ["http://a.example/1.crl", "http://b.example/1.crl"]);
  assert.deepEqual(extensions.authorityInfoAccess, {
    ocspUrls: ["http://ocsp.example"],
    caIssuersUrls: ["http://ca.example/1.crt"],
  });
  assert.deepEqual(extensions.certificatePolicies, [
    { oid: "1.2.3.5", cpsUri: "http://cps.example" },
    { oid: "1.2.3.6", cpsUri: undefined },
  ]);
  assert.equal(extensions.nameConstraints?.permitted.length, 2);
  assert.deepEqual(extensions.nameConstraints?.excluded[3], { type: "ip_address", value: "2001:db8::/32" });
  assert.deepEqual(extensions.unknownCritical, ["1.3.6.1.4.1.99999.7"]);
  assert.deepEqual(
    extensions.all.map(({ der }) => der),
    fields.extensions.map(({ der }) => der),
  );
});

test("the alternative names are critical exactly when the subject is empty", async () => {
  const root = await makeAuthority();
  const isCritical = async (subject: ReturnType<typeof nameFrom>): Promise<boolean | undefined> => {
    const leaf = await issueLeaf(root, { subject });
    return leaf.extensions.all.find(({ oid }) => oid === "2.5.29.17")?.isCritical;
  };
  assert.equal(await isCritical([]), true);
  assert.equal(await isCritical(nameFrom({ commonName: "x" })), false);
});

test("a signed certificate that differs from what was checked is caught", async () => {
  const root = await makeAuthority();
  const fields = await leafFields(root);
  const tbs = buildTbs(fields, root.signer.algorithm);
  const other = buildTbs({ ...fields, serialNumber: freshSerial() }, root.signer.algorithm);
  assert.throws(() => checkTbsMatches(signTbsSync(other, root.signer), tbs), /differs/);
  const { privateKey } = await sharedKeys("EC_prime256v1", "signer");
  const mislabelled = signTbsSync(tbs, { key: privateKey, algorithm: "ECDSA-SHA512" });
  assert.throws(() => checkTbsMatches(mislabelled, tbs), /algorithms/);
  assert.throws(() => parseCertificate(mislabelled), /algorithms/);
});

test("an issuer that begins after it ends is not built", async () => {
  const root = await makeAuthority();
  const fields = { ...(await leafFields(root)), notAfter: NOON };
  assert.throws(() => buildTbs(fields, "ECDSA-SHA256"), X509Error);
});

test("property: no mutation of a certificate crashes the parser", async () => {
  const root = await makeAuthority();
  const leaf = await issueLeaf(root);
  fc.assert(
    fc.property(fc.nat(leaf.der.length - 1), fc.nat(255), (position, octet) => {
      const mutated = Buffer.from(leaf.der);
      mutated[position] = octet;
      try {
        parseCertificate(mutated);
      } catch (cause) {
        if (!(cause instanceof DerError || cause instanceof X509Error)) throw cause;
      }
    }),
    { numRuns: 2000 },
  );
});

test("a chain survives PEM, whatever stands between the blocks", async () => {
  const root = await makeAuthority();
  const leaf = await issueLeaf(root);
  const text = `subject=x\n${certificateToPem(leaf.der)}\r\n# comment\n${certificateToPem(root.certificate.der).replaceAll("\n", "\r\n")}`;
  assert.deepEqual(
    certificatesFromPem(text).map(({ der }) => der),
    [leaf.der, root.certificate.der],
  );
  assert.throws(() => certificatesFromPem(text, { maxCharacters: 1e6, maxBlocks: 1 }), /more than 1/);
  assert.throws(() => certificatesFromPem(text, { maxCharacters: 100, maxBlocks: 9 }), /longer/);
  assert.throws(() => certificatesFromPem(certificateToPem(leaf.der).replace("MII", "M*I")), /base64/);
  assert.throws(() => certificatesFromPem("-----BEGIN CERTIFICATE-----\nAAAA\n"), /no line/);
  assert.throws(() => certificatesFromPem(""), /no CERTIFICATE/);
});

describe("serial numbers", () => {
  test("property: from chance, always positive, of one width and at most 20 octets", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 9, maxLength: 20 }), (random) => {
        const serial = serialFromRandom(random);
        assert.equal(serial.length, random.length * 2);
        assert.equal(encodeSerial(serial).length, 2 + random.length);
      }),
    );
  });

  test("are read as people paste them", () => {
    assert.equal(parseSerial("00:AB:CD"), "abcd");
    assert.equal(parseSerial("0"), "00");
    assert.equal(parseSerial("ABC"), "0abc");
    assert.throws(() => parseSerial("xyz"), X509Error);
  });

  test("zero, 21 octets and odd digits are refused when writing", () => {
    for (const bad of ["00", "0000", "ff".repeat(20), "7f".repeat(21), "abc", "", "AB"]) {
      assert.throws(() => encodeSerial(bad), X509Error, bad);
    }
    assert.doesNotThrow(() => encodeSerial("7f".repeat(20)));
  });

  test("zero and negative ones of foreign certificates are still read", async () => {
    const root = await makeAuthority();
    const tbs = buildTbs({ ...(await leafFields(root)), serialNumber: "01" }, "ECDSA-SHA256");
    const withSerial = (octet: number): Buffer => {
      const copy = Buffer.from(tbs);
      copy[copy.indexOf(Buffer.from([2, 1, 1])) + 2] = octet;
      return copy;
    };
    assert.equal(readTbs(withSerial(0)).serialNumber, "00");
    assert.equal(readTbs(withSerial(0xfb)).serialNumber, "-05");
  });
});
