// The toolkit through its public face alone: one certificate from request to revocation, as the issuing path walks it.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import * as x509 from "./index.ts";

test("a request becomes a linted certificate, is checked, revoked, and reported so", async () => {
  const notBefore = new Date("2026-06-01T12:00:00Z");
  const inNinetyDays = new Date("2026-08-30T12:00:00Z");

  // A root that may only speak for example.com.
  const rootKeys = await x509.generateKeys("EC_secp384r1");
  const rootSpki = x509.exportSpki(rootKeys.publicKey);
  const rootKeyId = x509.keyIdentifier(rootSpki);
  const rootName = x509.encodeName(x509.parseName("CN=Acme Root,O=Acme,C=DE"));
  const signer = { key: rootKeys.privateKey, algorithm: x509.defaultSignatureAlgorithm(rootKeys.privateKey) };
  const constraints = { permitted: [{ type: "dns_name", value: "example.com" } as const], excluded: [] };
  const rootDer = await x509.signCertificate(
    {
      serialNumber: x509.serialFromRandom(randomBytes(20)),
      issuer: rootName,
      subject: rootName,
      notBefore,
      notAfter: new Date("2055-01-01T00:00:00Z"),
      publicKey: rootSpki,
      extensions: [
        x509.basicConstraints({ isCa: true, pathLength: 0 }),
        x509.keyUsage(["key_cert_sign", "crl_sign", "digital_signature"]),
        x509.subjectKeyIdentifier(rootKeyId),
        x509.nameConstraints(constraints),
      ],
    },
    signer,
  );
  const root = x509.parseCertificate(rootDer);
  assert.deepEqual(x509.lintTbs(root.tbs, "self-signed"), []);

  // Somebody asks for a certificate.
  const keys = await x509.generateKeys("EC_prime256v1");
  const wishes = [x509.subjectAltName([x509.normaliseGeneralName("dns_name", "DB.example.com")], false)];
  const request = await x509.buildCsr(
    { subject: x509.encodeName(x509.nameFrom({ commonName: "db.example.com" })), extensions: wishes },
    { key: keys.privateKey, algorithm: "ECDSA-SHA256" },
  );
  const csr = x509.parseCsrPem(x509.csrToPem(request));
  x509.assertStrongKey(csr.publicKey);
  await x509.verifyCsr(csr);
  const altNames = csr.extensions.subjectAltName ?? [];
  const names = { subject: csr.subject.rdns, altNames, isCa: false };
  assert.equal(x509.violatesNameConstraints(names, [constraints]), undefined);

  // Build, look, sign, compare.
  const tbs = x509.buildTbs(
    {
      serialNumber: x509.serialFromRandom(randomBytes(20)),
      issuer: root.subject.der,
      subject: csr.subject.der,
      notBefore,
      notAfter: inNinetyDays,
      publicKey: csr.publicKey,
      extensions: [
        x509.basicConstraints({ isCa: false }),
        x509.keyUsage(["digital_signature"]),
        x509.extendedKeyUsage(["server_auth", "client_auth"]),
        x509.subjectKeyIdentifier(x509.keyIdentifier(csr.publicKey)),
        x509.authorityKeyIdentifier(rootKeyId),
        x509.subjectAltName(altNames, false),
      ],
    },
    signer.algorithm,
  );
  assert.deepEqual(x509.lintTbs(tbs, root), []);
  const leafDer = await x509.signTbs(tbs, signer);
  x509.checkTbsMatches(leafDer, tbs);
  const leaf = x509.parseCertificate(leafDer);
  const question = { leaf, intermediates: [], roots: [root], at: notBefore, purpose: "server_auth" } as const;
  assert.ok((await x509.verifyChain(question)).isValid);

  // Revoke it, and say so in both ways.
  const entry = { serialNumber: leaf.serialNumber, revokedAt: notBefore, reason: "SUPERSEDED" } as const;
  const list = {
    issuer: root.subject.der,
    thisUpdate: notBefore,
    nextUpdate: new Date("2026-06-08T12:00:00Z"),
    number: 1n,
    authorityKeyIdentifier: rootKeyId,
    entries: [x509.encodeEntry(entry)],
  };
  assert.deepEqual(x509.lintCrl(x509.buildCrlTbs(list, signer.algorithm), root), []);
  assert.deepEqual(x509.parseCrl(await x509.signCrl(list, signer)).entries, [entry]);

  const hashes = x509.issuerHashes(root.subject.der, root.publicKey, "sha1");
  const asked = x509.encodeOcspRequest([x509.encodeCertId("sha1", hashes, leaf.serialNumber)]);
  const path = `/${encodeURIComponent(asked.toString("base64"))}`;
  const [certId] = x509.parseOcspRequest(x509.decodeOcspPath(path) ?? Buffer.alloc(0)).certIds;
  assert.ok(certId !== undefined && x509.isIssuedBy(certId, hashes));
  const answer = {
    certId: certId.der,
    status: "revoked",
    revokedAt: notBefore,
    reason: "SUPERSEDED",
    thisUpdate: notBefore,
  } as const;
  const responder = x509.makeResponder(signer, root.publicKey, []);
  x509.assertCanonical(await x509.signOcspResponse({ producedAt: notBefore, answers: [answer] }, responder));
});
