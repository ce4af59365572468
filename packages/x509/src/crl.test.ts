import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { certificateToPem } from "./certificate.ts";
import {
  buildCrlTbs,
  crlToPem,
  encodeEntry,
  parseCrl,
  REVOCATION_REASONS,
  signCrl,
  type CrlFields,
  type RevocationReason,
} from "./crl.ts";
import * as der from "./der.ts";
import { readDer } from "./der-reader.ts";
import { makeExtension, type Extension } from "./extensions.ts";
import { ask, needs, withFiles } from "./judges.ts";
import { importSpki } from "./keys.ts";
import { lintCrl, type CrlExpectations } from "./lint-crl.ts";
import { isSignedBy } from "./signatures.ts";
import { issueLeaf, makeAuthority, NOON, type Authority } from "./test-authority.ts";
import { X509Error } from "./x509-error.ts";

const REASONS = Object.keys(REVOCATION_REASONS) as RevocationReason[];
const LATER = new Date("2026-06-08T12:00:00Z");

const fieldsOf = (
  authority: Authority,
  entries: readonly Buffer[],
  more: Partial<CrlFields> = {},
): CrlFields => ({
  issuer: authority.certificate.subject.der,
  thisUpdate: NOON,
  nextUpdate: LATER,
  number: 7n,
  authorityKeyIdentifier: authority.keyId,
  entries,
  ...more,
});

describe("an entry", () => {
  test("omits the reason when unspecified and never marks it critical", () => {
    const entry = { serialNumber: "4a", revokedAt: new Date("2026-01-02T03:04:05Z") } as const;
    const time = Buffer.from("260102030405Z").toString("hex");
    assert.equal(encodeEntry({ ...entry, reason: "UNSPECIFIED" }).toString("hex"), `301202014a170d${time}`);
    assert.equal(
      encodeEntry({ ...entry, reason: "KEY_COMPROMISE" }).toString("hex"),
      `302002 014a170d${time}300c300a0603551d1504030a0101`.replace(" ", ""),
    );
  });

  test("property: reads back from a list", async () => {
    const root = await makeAuthority();
    const entry = fc.record(
      {
        serialNumber: fc
          .uint8Array({ minLength: 9, maxLength: 19 })
          .map((b) => `40${Buffer.from(b).toString("hex")}`),
        revokedAt: fc
          .date({ min: new Date("1990-01-01"), max: new Date("2080-01-01"), noInvalidDate: true })
          .map((at) => new Date(Math.floor(at.getTime() / 1000) * 1000)),
        reason: fc.constantFrom(...REASONS),
      },
      { noNullPrototype: true },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 20 }), async (entries) => {
        const list = parseCrl(await signCrl(fieldsOf(root, entries.map(encodeEntry)), root.signer));
        assert.deepEqual(list.entries, entries);
      }),
      { numRuns: 50 },
    );
  });
});

test("a list carries number, key identifier and distribution point, and verifies", async () => {
  const root = await makeAuthority();
  const idp = { urls: ["http://crl.example/1.crl"], covers: "user_certificates" } as const;
  const bytes = await signCrl(
    fieldsOf(root, [], { number: 1n << 150n, issuingDistributionPoint: idp }),
    root.signer,
  );
  const list = parseCrl(bytes);
  assert.equal(list.number, 1n << 150n);
  assert.deepEqual(list.authorityKeyIdentifier, root.keyId);
  assert.deepEqual(list.issuingDistributionPoint, idp);
  assert.deepEqual([list.thisUpdate, list.nextUpdate], [NOON, LATER]);
  assert.deepEqual(list.entries, []);
  assert.deepEqual(list.unknownCritical, []);
  const signed = { bytes: list.tbs, identifier: list.algorithmIdentifier, signature: list.signature };
  assert.ok(isSignedBy(signed, importSpki(root.certificate.publicKey)));
});

test("a list that ends before it begins, a negative number and an empty distribution point are refused", async () => {
  const root = await makeAuthority();
  const attempt = (more: Partial<CrlFields>) => signCrl(fieldsOf(root, [], more), root.signer);
  await assert.rejects(attempt({ nextUpdate: NOON }), X509Error);
  await assert.rejects(attempt({ number: -1n }), X509Error);
  await assert.rejects(attempt({ number: 1n << 159n }), X509Error);
  await assert.rejects(attempt({ issuingDistributionPoint: { urls: [], covers: "all" } }), X509Error);
});

test("a partial or indirect list is not taken for a complete one", async () => {
  const root = await makeAuthority();
  const list = await signCrl(
    fieldsOf(root, [], { issuingDistributionPoint: { urls: [], covers: "ca_certificates" } }),
    root.signer,
  );
  assert.equal(parseCrl(list).issuingDistributionPoint?.covers, "ca_certificates");
  // The same flag under tag [4] says "indirect".
  const indirect = Buffer.from(list);
  indirect[indirect.indexOf(Buffer.from("30038201ff", "hex")) + 2] = 0x84;
  assert.throws(() => parseCrl(indirect), der.DerError);
});

/** The list with one more extension at its end. */
function withExtension(tbs: Buffer, extension: Extension): Buffer {
  return readDer(tbs, (reader) =>
    reader.sequence((fields) => {
      const parts: Buffer[] = [];
      while (fields.nextTag !== 0xa0) parts.push(fields.element());
      const extensions = fields.within(0xa0, (inside) => inside.list(0x30, (each) => each.element()));
      return der.sequence(...parts, der.explicit(0, der.sequence(...extensions, extension.der)));
    }),
  );
}

describe("the lint of a list", () => {
  const sound = { serialNumber: "4001", revokedAt: NOON, reason: "SUPERSEDED" } as const;
  const codes = async (fields: Partial<CrlFields>, expectations: CrlExpectations = {}): Promise<string[]> => {
    const root = await makeAuthority();
    const tbs = buildCrlTbs(fieldsOf(root, [encodeEntry(sound)], fields), root.signer.algorithm);
    return lintCrl(tbs, root.certificate, expectations).map(({ code }) => code);
  };

  test("has nothing to say about a sound one", async () => {
    assert.deepEqual(await codes({}, { previousNumber: 6n, maxDays: 7 }), []);
  });

  test("names each fault", async () => {
    const twice = [encodeEntry(sound), encodeEntry(sound)];
    assert.deepEqual(await codes({}, { previousNumber: 7n }), ["crl.number_order"]);
    assert.deepEqual(await codes({}, { maxDays: 6 }), ["crl.too_long"]);
    assert.deepEqual(await codes({ issuer: der.sequence() }), ["crl.issuer"]);
    assert.deepEqual(await codes({ authorityKeyIdentifier: Buffer.alloc(20) }), ["crl.key_identifier"]);
    assert.deepEqual(await codes({ entries: twice }), ["crl.duplicate"]);
    assert.deepEqual(await codes({ entries: [encodeEntry({ ...sound, revokedAt: LATER })] }), [
      "crl.future_entry",
    ]);
    assert.deepEqual(await codes({ entries: [encodeEntry({ ...sound, reason: "REMOVE_FROM_CRL" })] }), [
      "crl.remove_in_full",
    ]);
    assert.deepEqual(await codes({ entries: [der.nullValue()] }), ["encoding.der"]);
    const idp = makeExtension("1.2.3", true, der.nullValue());
    const root = await makeAuthority();
    const sealed = buildCrlTbs(fieldsOf(root, []), root.signer.algorithm);
    const strange = withExtension(sealed, idp);
    assert.deepEqual(
      lintCrl(strange, root.certificate).map(({ code }) => code),
      ["crl.unknown_critical"],
    );
    const mute = { ...root.certificate, extensions: { ...root.certificate.extensions, keyUsage: [] } };
    assert.deepEqual(
      lintCrl(sealed, mute).map(({ code }) => code),
      ["crl.key_usage"],
    );
    const wrongKey = buildCrlTbs(fieldsOf(root, []), "RSA-SHA256");
    assert.deepEqual(
      lintCrl(wrongKey, root.certificate).map(({ code }) => code),
      ["crl.signature"],
    );
  });
});

test("property: no mutation of a list crashes the parser", async () => {
  const root = await makeAuthority();
  const entries = [encodeEntry({ serialNumber: "4001", revokedAt: NOON, reason: "SUPERSEDED" })];
  const list = await signCrl(
    fieldsOf(root, entries, { issuingDistributionPoint: { urls: ["http://a.example/"], covers: "all" } }),
    root.signer,
  );
  fc.assert(
    fc.property(fc.nat(list.length - 1), fc.nat(255), (position, octet) => {
      const mutated = Buffer.from(list);
      mutated[position] = octet;
      try {
        parseCrl(mutated);
      } catch (cause) {
        if (!(cause instanceof der.DerError || cause instanceof X509Error)) throw cause;
      }
    }),
    { numRuns: 1000 },
  );
});

describe("openssl", () => {
  for (const algorithm of ["EC_prime256v1", "EC_secp384r1", "RSA_2048", "Ed25519"] as const) {
    test(`verifies the list of a ${algorithm} authority and shows every part`, needs("openssl"), async () => {
      const root = await makeAuthority({ name: `Root ${algorithm}`, algorithm });
      const entries = REASONS.map((reason, index) =>
        encodeEntry({ serialNumber: `40${index.toString(16).padStart(2, "0")}`, revokedAt: NOON, reason }),
      );
      const idp = { urls: ["http://crl.example/1.crl"], covers: "user_certificates" } as const;
      const list = crlToPem(
        await signCrl(fieldsOf(root, entries, { issuingDistributionPoint: idp }), root.signer),
      );
      const files = { "root.pem": certificateToPem(root.certificate.der), "list.pem": list };
      const verdict = withFiles(files, (directory) =>
        ask(
          "openssl",
          ["crl", "-in", "list.pem", "-CAfile", "root.pem", "-verify", "-noout", "-text"],
          directory,
        ),
      );
      assert.match(verdict.output, /verify OK/);
      for (const part of [
        /CRL Number:\s*7/,
        /Issuing Distribution Point: critical/,
        /Only User Certificates/,
        /Key Compromise/,
        /Privilege Withdrawn/,
      ]) {
        assert.match(verdict.output, part);
      }
      assert.equal(verdict.output.match(/Serial Number:/g)?.length, REASONS.length);
    });
  }

  test("refuses a revoked certificate and accepts its neighbour", needs("openssl"), async () => {
    const root = await makeAuthority();
    const [bad, good] = [await issueLeaf(root), await issueLeaf(root)];
    const entry = encodeEntry({ serialNumber: bad.serialNumber, revokedAt: NOON, reason: "KEY_COMPROMISE" });
    const files = {
      "root.pem": certificateToPem(root.certificate.der),
      "list.pem": crlToPem(await signCrl(fieldsOf(root, [entry]), root.signer)),
      "bad.pem": certificateToPem(bad.der),
      "good.pem": certificateToPem(good.der),
    };
    const options = ["-x509_strict", "-crl_check", "-CAfile", "root.pem", "-CRLfile", "list.pem"];
    const judge = (name: string) =>
      withFiles(files, (directory) =>
        ask(
          "openssl",
          ["verify", ...options, "-attime", String(NOON.getTime() / 1000 + 60), name],
          directory,
        ),
      );
    assert.ok(judge("good.pem").isAccepted, judge("good.pem").output);
    assert.match(judge("bad.pem").output, /certificate revoked/);
  });
});
