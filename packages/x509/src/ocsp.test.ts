import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import { certificateToPem, type Certificate } from "./certificate.ts";
import * as der from "./der.ts";
import { assertCanonical } from "./der-tree.ts";
import {
  extendedKeyUsage,
  keyUsage,
  ocspNoCheck,
  authorityKeyIdentifier,
  basicConstraints,
} from "./extensions.ts";
import { ask, needs, withFiles } from "./judges.ts";
import {
  decodeOcspPath,
  encodeCertId,
  encodeOcspRequest,
  isIssuedBy,
  issuerHashes,
  parseOcspRequest,
  type CertIdHash,
} from "./ocsp-request.ts";
import {
  makeResponder,
  ocspError,
  signOcspResponse,
  signOcspResponseSync,
  type SingleAnswer,
} from "./ocsp.ts";
import {
  freshSerial,
  issueLeaf,
  makeAuthority,
  NOON,
  sharedKeys,
  signerOf,
  type Authority,
} from "./test-authority.ts";

const LATER = new Date("2046-06-08T12:00:00Z");

const certIdOf = (authority: Authority, serial: string, hash: CertIdHash = "sha1"): Buffer =>
  encodeCertId(
    hash,
    issuerHashes(authority.certificate.subject.der, authority.certificate.publicKey, hash),
    serial,
  );

describe("an OCSP request", () => {
  test("for several certificates, by SHA-1 and SHA-256, with a nonce, reads back", async () => {
    const root = await makeAuthority();
    const other = await makeAuthority({ name: "Other" });
    const serials = [freshSerial(), freshSerial()];
    const nonce = randomBytes(32);
    const request = parseOcspRequest(
      encodeOcspRequest(
        [certIdOf(root, serials[0] ?? ""), certIdOf(root, serials[1] ?? "", "sha256")],
        nonce,
      ),
    );
    assert.deepEqual(
      request.certIds.map((each) => [each.hash, each.serialNumber]),
      [
        ["sha1", serials[0]],
        ["sha256", serials[1]],
      ],
    );
    assert.deepEqual(request.nonce, nonce);
    for (const certId of request.certIds) {
      const hash = certId.hash ?? "sha1";
      const of = ({ certificate }: Authority) =>
        issuerHashes(certificate.subject.der, certificate.publicKey, hash);
      assert.ok(isIssuedBy(certId, of(root)) && !isIssuedBy(certId, of(other)));
    }
  });

  test("with a nonce of 128 octets is taken, with 129 or none it is malformed", async () => {
    const root = await makeAuthority();
    const certId = certIdOf(root, freshSerial());
    const withNonce = (octets: number) =>
      parseOcspRequest(encodeOcspRequest([certId], Buffer.alloc(octets, 1)));
    assert.equal(withNonce(128).nonce?.length, 128);
    assert.throws(() => withNonce(129), der.DerError);
    assert.throws(() => withNonce(0), der.DerError);
    assert.throws(() => parseOcspRequest(encodeOcspRequest([])), der.DerError);
    assert.throws(
      () => parseOcspRequest(encodeOcspRequest(new Array<Buffer>(65).fill(certId))),
      der.DerError,
    );
  });

  test("written by openssl is read", needs("openssl"), async () => {
    const root = await makeAuthority();
    const leaf = await issueLeaf(root);
    const files = {
      "root.pem": certificateToPem(root.certificate.der),
      "leaf.pem": certificateToPem(leaf.der),
    };
    for (const [hash, digest] of [
      ["sha1", "-sha1"],
      ["sha256", "-sha256"],
    ] as const) {
      const bytes = withFiles(files, (directory) => {
        const args = [
          "ocsp",
          "-issuer",
          "root.pem",
          digest,
          "-cert",
          "leaf.pem",
          "-nonce",
          "-reqout",
          "request.der",
        ];
        const { isAccepted, output } = ask("openssl", args, directory);
        assert.ok(isAccepted, output);
        return readFileSync(join(directory, "request.der"));
      });
      const { certIds, nonce } = parseOcspRequest(bytes);
      assert.equal(certIds[0]?.hash, hash);
      assert.equal(certIds[0].serialNumber, leaf.serialNumber);
      assert.ok(certIds[0].der.equals(certIdOf(root, leaf.serialNumber, hash)));
      assert.ok(nonce !== undefined && nonce.length >= 16);
    }
  });

  test("property: no bytes crash the parser", async () => {
    const root = await makeAuthority();
    const good = encodeOcspRequest([certIdOf(root, freshSerial())], randomBytes(16));
    fc.assert(
      fc.property(fc.nat(good.length - 1), fc.nat(255), (position, octet) => {
        const mutated = Buffer.from(good);
        mutated[position] = octet;
        try {
          parseOcspRequest(mutated);
        } catch (cause) {
          if (!(cause instanceof der.DerError)) throw cause;
        }
      }),
      { numRuns: 1000 },
    );
  });
});

test("the path of a GET is read percent-encoded, plain, and with its padding lost", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 200 }), (bytes) => {
      const expected = Buffer.from(bytes);
      const base64 = expected.toString("base64");
      for (const path of [encodeURIComponent(base64), base64, `/${base64.replace(/=+$/, "")}`]) {
        // A leading slash is indistinguishable from the separator in front of it.
        if (base64.startsWith("/") && !path.includes("%2F")) continue;
        assert.deepEqual(decodeOcspPath(path), expected);
      }
    }),
  );
  for (const bad of ["", "/", "%", "%zz", "a", "äää", "AA*A", "A".repeat(40_000)])
    assert.equal(decodeOcspPath(bad), undefined, bad.slice(0, 9));
});

describe("an OCSP answer", () => {
  const answersFor = (
    authority: Authority,
    leaf: Certificate,
  ): readonly (readonly [SingleAnswer, RegExp])[] => {
    const base = { certId: certIdOf(authority, leaf.serialNumber), thisUpdate: NOON, nextUpdate: LATER };
    return [
      [{ ...base, status: "good" }, /leaf\.pem: good/],
      [{ ...base, status: "unknown" }, /leaf\.pem: unknown/],
      [
        { ...base, status: "revoked", revokedAt: NOON, reason: "KEY_COMPROMISE" },
        /leaf\.pem: revoked[^]*keyCompromise/,
      ],
      [{ ...base, status: "revoked", revokedAt: NOON, reason: "UNSPECIFIED" }, /leaf\.pem: revoked/],
    ];
  };

  for (const algorithm of ["EC_prime256v1", "RSA_2048", "EC_secp521r1"] as const) {
    test(
      `of a ${algorithm} authority and of its delegate is accepted by openssl`,
      needs("openssl"),
      async () => {
        const root = await makeAuthority({ name: `Root ${algorithm}`, algorithm });
        const leaf = await issueLeaf(root);
        const { privateKey } = await sharedKeys("EC_prime256v1", "leaf");
        const delegate = await issueLeaf(root, {
          extensions: [
            basicConstraints({ isCa: false }),
            keyUsage(["digital_signature"]),
            extendedKeyUsage(["ocsp_signing"]),
            authorityKeyIdentifier(root.keyId),
            ocspNoCheck(),
          ],
        });
        const responders = [
          makeResponder(root.signer, root.certificate.publicKey, []),
          makeResponder(signerOf(privateKey), delegate.publicKey, [delegate.der]),
        ];
        for (const responder of responders) {
          for (const [answer, expected] of answersFor(root, leaf)) {
            const response = await signOcspResponse({ producedAt: NOON, answers: [answer] }, responder);
            assertCanonical(response);
            const files = {
              "root.pem": certificateToPem(root.certificate.der),
              "leaf.pem": certificateToPem(leaf.der),
              "answer.der": response,
            };
            const args = [
              "ocsp",
              "-issuer",
              "root.pem",
              "-cert",
              "leaf.pem",
              "-respin",
              "answer.der",
              "-CAfile",
              "root.pem",
              "-no_nonce",
            ];
            const at = ["-attime", String(NOON.getTime() / 1000 + 60)];
            const { output } = withFiles(files, (directory) => ask("openssl", [...args, ...at], directory));
            assert.match(output, /Response verify OK/);
            assert.match(output, expected);
          }
        }
      },
    );
  }

  test("repeats nonce and CertID byte for byte, and both ways of signing agree in form", async () => {
    const root = await makeAuthority();
    const certId = certIdOf(root, freshSerial(), "sha256");
    const nonce = randomBytes(20);
    const responder = makeResponder(root.signer, root.certificate.publicKey, []);
    const question = {
      producedAt: NOON,
      nonce,
      answers: [{ certId, status: "good", thisUpdate: NOON } as const],
    };
    for (const response of [
      await signOcspResponse(question, responder),
      signOcspResponseSync(question, responder),
    ]) {
      assert.ok(response.includes(certId) && response.includes(der.octetString(nonce)));
    }
  });

  test("of refusal is five octets", () => {
    assert.equal(ocspError("malformedRequest").toString("hex"), "30030a0101");
    assert.equal(ocspError("tryLater").toString("hex"), "30030a0103");
    assert.equal(ocspError("unauthorized").toString("hex"), "30030a0106");
  });
});
