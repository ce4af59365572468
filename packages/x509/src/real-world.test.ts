// A strict reader is only useful if it reads what honest authorities have written. Node carries the roots that
// Mozilla trusts, made by a hundred unrelated programs over twenty years.

import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { test } from "node:test";
import { rootCertificates } from "node:tls";
import { certificatesFromPem, fingerprintsOf, isSelfIssued } from "./certificate.ts";
import { decodeTree, encodeTree } from "./der-tree.ts";
import { findKeyWeakness } from "./key-strength.ts";
import { importSpki } from "./keys.ts";
import { encodeSerial, parseSerial } from "./serials.ts";
import { isSignedBy } from "./signatures.ts";

test("every root that Node trusts is read, agrees with Node's own parser and re-encodes to the same bytes", () => {
  assert.ok(rootCertificates.length > 100);
  let verified = 0;
  for (const pem of rootCertificates) {
    const [ours] = certificatesFromPem(pem);
    const node = new X509Certificate(pem);
    assert.ok(ours !== undefined);
    assert.equal(ours.serialNumber, parseSerial(node.serialNumber), node.subject);
    assert.equal(ours.notBefore.getTime(), new Date(node.validFrom).getTime(), node.subject);
    assert.equal(ours.notAfter.getTime(), new Date(node.validTo).getTime(), node.subject);
    assert.equal(fingerprintsOf(ours.der).sha256, node.fingerprint256.replaceAll(":", "").toLowerCase());
    assert.ok(isSelfIssued(ours), node.subject);
    assert.equal(ours.extensions.basicConstraints?.isCa ?? node.ca, node.ca, node.subject);
    assert.deepEqual(encodeTree(decodeTree(ours.der)), ours.der);
    // A few of the oldest use the exponent 3, which was customary then.
    assert.ok([undefined, "key.rsa_exponent"].includes(findKeyWeakness(ours.publicKey)?.code), node.subject);
    if (ours.serialNumber !== "00") assert.ok(encodeSerial(ours.serialNumber).length > 2);
    if (ours.signatureAlgorithm === undefined) continue;
    const signed = { bytes: ours.tbs, identifier: ours.algorithmIdentifier, signature: ours.signature };
    assert.ok(isSignedBy(signed, importSpki(ours.publicKey)), node.subject);
    verified += 1;
  }
  // The rest is signed with SHA-1, which we do not verify.
  assert.ok(verified > 80, String(verified));
});
