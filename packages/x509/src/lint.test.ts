import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { describe, test } from "node:test";
import { buildTbs, type CertificateFields } from "./certificate.ts";
import * as der from "./der.ts";
import {
  authorityKeyIdentifier,
  basicConstraints,
  crlDistributionPoints,
  extendedKeyUsage,
  keyUsage,
  makeExtension,
  subjectAltName,
  subjectKeyIdentifier,
  type Extension,
} from "./extensions.ts";
import { exportSpki, keyFingerprint } from "./keys.ts";
import { hasErrors, lintTbs } from "./lint.ts";
import { nameConstraints } from "./name-constraints.ts";
import { encodeName, nameFrom } from "./names.ts";
import { OID } from "./oids.ts";
import {
  dns,
  leafFields,
  makeAuthority,
  sharedKeys,
  type Authority,
  type LeafWish,
} from "./test-authority.ts";
import { KEY_USAGES, type KeyUsage } from "./usages.ts";

async function codesOf(
  authority: Authority,
  wish: LeafWish,
  patch: (fields: CertificateFields) => CertificateFields = (f) => f,
) {
  const tbs = buildTbs(patch(await leafFields(authority, wish)), authority.signer.algorithm);
  return lintTbs(tbs, authority.certificate).map(({ code, severity }) => `${severity} ${code}`);
}

/** The sound leaf with one extension replaced (or added, or removed). */
const replacing =
  (oid: string, by?: Extension) =>
  (fields: CertificateFields): CertificateFields => ({
    ...fields,
    extensions: [...fields.extensions.filter((each) => each.oid !== oid), ...(by === undefined ? [] : [by])],
  });

const rawSan = (...names: readonly string[]): Extension =>
  makeExtension(
    OID.subjectAltName,
    false,
    der.sequenceOf(names.map((name) => der.tlv(0x82, Buffer.from(name, "latin1")))),
  );

const rawKeyUsage = (usages: readonly KeyUsage[], isCritical = true): Extension =>
  makeExtension(OID.keyUsage, isCritical, der.namedBits(usages.map((usage) => KEY_USAGES.indexOf(usage))));

test("sound certificates have no findings: root, intermediate, server, nameless", async () => {
  const root = await makeAuthority({ pathLength: 2 });
  const middle = await makeAuthority({ name: "Middle", parent: root, pathLength: 1 });
  assert.deepEqual(lintTbs(root.certificate.tbs, "self-signed"), []);
  assert.deepEqual(lintTbs(middle.certificate.tbs, root.certificate), []);
  assert.deepEqual(await codesOf(middle, {}), []);
  assert.deepEqual(await codesOf(middle, { subject: [], altNames: [dns("a.example.com")] }), []);
  const rsa = await makeAuthority({ name: "RSA", algorithm: "RSA_2048" });
  assert.deepEqual(
    await codesOf(
      rsa,
      { algorithm: "RSA_2048" },
      replacing(OID.keyUsage, keyUsage(["digital_signature", "key_encipherment"])),
    ),
    [],
  );
});

describe("one fault, one finding", () => {
  type Patch = (fields: CertificateFields) => CertificateFields;
  const day = (text: string): Date => new Date(`${text}T00:00:00Z`);
  const cases: Readonly<Record<string, readonly [string[], Patch, LeafWish?]>> = {
    "a serial of seven octets": [
      ["error serial.too_short"],
      (f) => ({ ...f, serialNumber: "40112233445566" }),
    ],
    "an end beyond the issuer's": [
      ["error validity.after_issuer"],
      (f) => ({ ...f, notAfter: day("2056-01-01") }),
    ],
    "a start before the issuer's": [
      ["error validity.before_issuer"],
      (f) => ({ ...f, notBefore: day("2025-01-01") }),
    ],
    "another issuer name": [
      ["error issuer.name"],
      (f) => ({ ...f, issuer: encodeName(nameFrom({ commonName: "Else" })) }),
    ],
    "no issuer name": [["error issuer.empty"], (f) => ({ ...f, issuer: encodeName([]) })],
    "no name at all": [
      ["error subject.nameless", "warn san.missing"],
      replacing(OID.subjectAltName),
      { subject: [] },
    ],
    "alternative names not critical without a subject": [
      ["error san.not_critical"],
      replacing(OID.subjectAltName, subjectAltName([dns("a.example.com")], false)),
      { subject: [] },
    ],
    "alternative names critical beside a subject": [
      ["warn san.critical"],
      replacing(OID.subjectAltName, subjectAltName([dns("db.example.com")], true)),
    ],
    "a host in the common name alone": [
      ["warn subject.cn_not_in_san"],
      replacing(OID.subjectAltName, subjectAltName([dns("other.example.com")], false)),
    ],
    "a server without names": [["warn san.missing"], replacing(OID.subjectAltName)],
    "an underscore": [
      ["error dns_name.characters"],
      replacing(OID.subjectAltName, rawSan("db.example.com", "a_b.example.com")),
    ],
    "two dots": [
      ["error dns_name.empty_label"],
      replacing(OID.subjectAltName, rawSan("db.example.com", "a..example.com")),
    ],
    "a trailing dot": [
      ["error dns_name.trailing_dot"],
      replacing(OID.subjectAltName, rawSan("db.example.com", "example.com.")),
    ],
    "a space": [
      ["error dns_name.characters"],
      replacing(OID.subjectAltName, rawSan("db.example.com", "a b")),
    ],
    "a NUL": [
      ["error dns_name.characters"],
      replacing(OID.subjectAltName, rawSan("db.example.com", "a\u0000.example.com")),
    ],
    "an empty name": [["error dns_name.empty"], replacing(OID.subjectAltName, rawSan("db.example.com", ""))],
    "an inner wildcard": [
      ["error dns_name.wildcard"],
      replacing(OID.subjectAltName, rawSan("db.example.com", "a.*.example.com")),
    ],
    "a reserved label": [
      ["warn dns_name.reserved_label"],
      replacing(OID.subjectAltName, rawSan("db.example.com", "ab--cd.example.com")),
    ],
    "a wildcard over a whole zone": [
      ["warn dns_name.broad_wildcard"],
      replacing(OID.subjectAltName, rawSan("db.example.com", "*.com")),
    ],
    "a name twice": [
      ["warn san.duplicate"],
      replacing(OID.subjectAltName, rawSan("db.example.com", "DB.example.com")),
    ],
    "no names in the list": [
      ["error san.empty", "warn san.missing"],
      replacing(OID.subjectAltName, rawSan()),
    ],
    "an extension twice": [
      ["error extension.duplicate"],
      (f) => ({ ...f, extensions: [...f.extensions, ...f.extensions.slice(0, 1)] }),
    ],
    "an unknown critical extension": [
      ["error extension.unknown_critical"],
      replacing("1.2.3", makeExtension("1.2.3", true, der.nullValue())),
    ],
    "no subject key identifier": [["warn key_identifier.subject"], replacing(OID.subjectKeyIdentifier)],
    "no authority key identifier": [
      ["error key_identifier.authority"],
      replacing(OID.authorityKeyIdentifier),
    ],
    "the key identifier of another authority": [
      ["error key_identifier.mismatch"],
      replacing(OID.authorityKeyIdentifier, authorityKeyIdentifier(Buffer.alloc(20))),
    ],
    "key_encipherment with an EC key": [
      ["error key_usage.impossible"],
      replacing(OID.keyUsage, keyUsage(["digital_signature", "key_encipherment"])),
    ],
    "key_agreement with Ed25519": [
      ["error key_usage.impossible"],
      replacing(OID.keyUsage, keyUsage(["digital_signature", "key_agreement"])),
      { algorithm: "Ed25519" },
    ],
    "key_agreement with RSA": [
      ["error key_usage.impossible"],
      replacing(OID.keyUsage, keyUsage(["digital_signature", "key_agreement"])),
      { algorithm: "RSA_2048" },
    ],
    "no key usage bit": [
      ["error key_usage.empty", "error extended_key_usage.key_usage"],
      replacing(OID.keyUsage, rawKeyUsage([])),
    ],
    "key usage not critical": [
      ["warn key_usage.not_critical"],
      replacing(OID.keyUsage, rawKeyUsage(["digital_signature"], false)),
    ],
    "key usage with a zero bit at its end": [
      ["error key_usage.encoding"],
      replacing(OID.keyUsage, makeExtension(OID.keyUsage, true, der.bitString(Buffer.from([0x80]), 6))),
    ],
    "key_cert_sign without being an authority": [
      ["error key_usage.cert_sign_without_ca"],
      replacing(OID.keyUsage, keyUsage(["digital_signature", "key_cert_sign"])),
    ],
    "crl_sign without being an authority": [
      ["warn key_usage.crl_sign_without_ca"],
      replacing(OID.keyUsage, keyUsage(["digital_signature", "crl_sign"])),
    ],
    "encipher_only without key_agreement": [
      ["error key_usage.only_without_agreement"],
      replacing(OID.keyUsage, keyUsage(["digital_signature", "encipher_only"])),
    ],
    "server_auth with a key that may only sign documents": [
      ["error extended_key_usage.key_usage"],
      replacing(OID.keyUsage, keyUsage(["non_repudiation"])),
    ],
    "a purpose twice": [
      ["error extended_key_usage.duplicate"],
      replacing(
        OID.extendedKeyUsage,
        makeExtension(
          OID.extendedKeyUsage,
          false,
          der.sequence(der.oid(OID.serverAuth), der.oid(OID.serverAuth)),
        ),
      ),
    ],
    "no purpose": [
      ["error extended_key_usage.empty"],
      replacing(OID.extendedKeyUsage, makeExtension(OID.extendedKeyUsage, false, der.sequence())),
    ],
    "any_purpose marked critical": [
      ["warn extended_key_usage.any_critical"],
      replacing(OID.extendedKeyUsage, extendedKeyUsage(["any_purpose"], true)),
    ],
    "an authority that does not say what its key may do": [
      ["error basic_constraints.issuer_path_length", "error key_usage.missing"],
      (f) => replacing(OID.keyUsage)(replacing(OID.basicConstraints, basicConstraints({ isCa: true }))(f)),
    ],
    "an authority whose constraints are not critical": [
      [
        "error basic_constraints.not_critical",
        "error basic_constraints.issuer_path_length",
        "error key_usage.ca_without_cert_sign",
      ],
      replacing(
        OID.basicConstraints,
        makeExtension(OID.basicConstraints, false, basicConstraints({ isCa: true }).value),
      ),
    ],
    "a critical key identifier": [
      ["error key_identifier.critical", "error extension.unknown_critical"],
      replacing(
        OID.subjectKeyIdentifier,
        makeExtension(OID.subjectKeyIdentifier, true, der.octetString(Buffer.alloc(20))),
      ),
    ],
    "name constraints that are not critical": [
      ["error name_constraints.not_ca", "error name_constraints.not_critical"],
      replacing(
        OID.nameConstraints,
        makeExtension(
          OID.nameConstraints,
          false,
          nameConstraints({ permitted: [{ type: "dns_name", value: "a.example" }], excluded: [] }).value,
        ),
      ),
    ],
    "time_stamping among others": [
      ["error extended_key_usage.time_stamping"],
      replacing(OID.extendedKeyUsage, extendedKeyUsage(["time_stamping", "client_auth"], true)),
    ],
    "a path length without being an authority": [
      ["error basic_constraints.path_length"],
      replacing(
        OID.basicConstraints,
        makeExtension(OID.basicConstraints, true, der.sequence(der.integer(0))),
      ),
    ],
    "an authority without key_cert_sign": [
      ["error basic_constraints.issuer_path_length", "error key_usage.ca_without_cert_sign"],
      replacing(OID.basicConstraints, basicConstraints({ isCa: true })),
    ],
    "name constraints outside an authority": [
      ["error name_constraints.not_ca"],
      replacing(
        OID.nameConstraints,
        nameConstraints({ permitted: [{ type: "dns_name", value: "example.com" }], excluded: [] }),
      ),
    ],
    "a revocation list behind TLS": [
      ["warn urls.scheme"],
      replacing(OID.crlDistributionPoints, crlDistributionPoints(["https://crl.example.com/1.crl"])),
    ],
    "an organization of 65 characters": [
      ["error name.too_long"],
      (f) => ({ ...f, subject: rawSubject(OID.organization, der.utf8String("x".repeat(65))) }),
    ],
    "a country in small letters": [
      ["error name.country"],
      (f) => ({ ...f, subject: rawSubject(OID.country, der.printableString("de")) }),
    ],
  };
  const rawSubject = (type: string, value: Buffer): Buffer =>
    der.sequence(der.setOf([der.sequence(der.oid(type), value)]));

  for (const [fault, [expected, patch, wish]] of Object.entries(cases)) {
    test(fault, async () => {
      const root = await makeAuthority({ pathLength: 0 });
      assert.deepEqual(await codesOf(root, wish ?? {}, patch), expected);
    });
  }
});

describe("faults that only bytes can have", () => {
  const patched = async (from: Buffer, to: Buffer): Promise<string[]> => {
    const root = await makeAuthority();
    const tbs = Buffer.from(
      buildTbs({ ...(await leafFields(root)), serialNumber: "4011223344556677" }, root.signer.algorithm),
    );
    const at = tbs.indexOf(from);
    assert.ok(at > 0);
    to.copy(tbs, at);
    return lintTbs(tbs, root.certificate).map(({ code }) => code);
  };
  const serial = Buffer.from("02084011223344556677", "hex");

  test("a negative serial", async () => {
    assert.deepEqual(await patched(serial, Buffer.from("0208c011223344556677", "hex")), [
      "serial.not_positive",
    ]);
  });

  test("an end before the beginning", async () => {
    assert.deepEqual(await patched(Buffer.from("261201000000Z"), Buffer.from("260201000000Z")), [
      "validity.order",
    ]);
  });

  test("a year before 2050 in the long form", async () => {
    const root = await makeAuthority();
    const tbs = buildTbs(
      { ...(await leafFields(root)), notAfter: new Date("2050-06-01T00:00:00Z") },
      root.signer.algorithm,
    );
    tbs.write("2049", tbs.indexOf("20500601000000Z"), "latin1");
    assert.deepEqual(
      lintTbs(tbs, root.certificate).map(({ code }) => code),
      ["validity.encoding"],
    );
  });

  test("bytes that are not DER give one finding and no crash", async () => {
    const root = await makeAuthority();
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from([0x30, 0x80]),
      Buffer.from("hello"),
      root.certificate.der,
      der.sequence(),
    ]) {
      const findings = lintTbs(bytes, root.certificate);
      assert.deepEqual(
        findings.map(({ code }) => code),
        ["encoding.der"],
      );
      assert.ok(hasErrors(findings));
    }
  });
});

describe("the issuer", () => {
  test("signs only with an algorithm of its key", async () => {
    const root = await makeAuthority();
    const tbs = buildTbs(await leafFields(root), "RSA-SHA256");
    assert.deepEqual(
      lintTbs(tbs, root.certificate).map(({ code }) => code),
      ["signature.key"],
    );
  });

  test("with P-384 should not sign with SHA-256", async () => {
    const root = await makeAuthority({ name: "P384", algorithm: "EC_secp384r1" });
    const tbs = buildTbs(await leafFields(root), "ECDSA-SHA256");
    assert.deepEqual(
      lintTbs(tbs, root.certificate).map(({ code }) => code),
      ["signature.digest"],
    );
  });

  test("must be an authority", async () => {
    const root = await makeAuthority({
      fields: { extensions: [basicConstraints({ isCa: false }), subjectKeyIdentifier(Buffer.alloc(20, 1))] },
    });
    const codes = await codesOf({ ...root, keyId: Buffer.alloc(20, 1) }, {});
    assert.deepEqual(codes, ["error issuer.not_ca"]);
  });

  test("binds by its name constraints and its path length", async () => {
    const limit = nameConstraints({ permitted: [{ type: "dns_name", value: "example.org" }], excluded: [] });
    const root = await makeAuthority({ extensions: [limit], pathLength: 1 });
    assert.deepEqual(await codesOf(root, {}), ["error name_constraints.violated"]);
    const wide = await makeAuthority({ name: "Wide", parent: root });
    assert.deepEqual(
      lintTbs(wide.certificate.tbs, root.certificate).map(({ code }) => code),
      ["basic_constraints.wider_than_issuer"],
    );
  });

  test("and its whole chain leave so much path length and no more", async () => {
    const root = await makeAuthority({ pathLength: 2 });
    const said = async (levelsBelowIssuer: number | undefined, pathLength?: number, name = "Below") => {
      const below = await makeAuthority({
        name,
        parent: root,
        ...(pathLength === undefined ? {} : { pathLength }),
      });
      return lintTbs(below.certificate.tbs, root.certificate, { levelsBelowIssuer }).map(
        ({ code, severity }) => `${severity} ${code}`,
      );
    };
    assert.deepEqual(await said(undefined, 1), []);
    assert.deepEqual(await said(undefined, 2), ["error basic_constraints.wider_than_issuer"]);
    assert.deepEqual(await said(undefined), ["warn basic_constraints.wider_than_issuer"]);
    assert.deepEqual(await said(1, 0), []);
    assert.deepEqual(await said(1, 1), ["error basic_constraints.wider_than_issuer"]);
    assert.deepEqual(await said(0, 0), ["error basic_constraints.issuer_path_length"]);
    assert.deepEqual(await said(0, 0, "Test Root"), [], "a key roll-over uses up no level");
    const leaf = buildTbs(await leafFields(root), root.signer.algorithm);
    const codes = (levelsBelowIssuer: number) =>
      lintTbs(leaf, root.certificate, { levelsBelowIssuer }).map(({ code }) => code);
    assert.deepEqual([codes(0), codes(-1)], [[], ["basic_constraints.issuer_path_length"]]);
  });
});

test("weak and listed keys stop a certificate", async () => {
  const root = await makeAuthority();
  const weak = exportSpki(generateKeyPairSync("rsa", { modulusLength: 1024 }).publicKey);
  assert.deepEqual(await codesOf(root, {}, (fields) => ({ ...fields, publicKey: weak })), [
    "error key.rsa_short",
  ]);
  const { publicKey } = await sharedKeys("EC_prime256v1", "leaf");
  const listed = keyFingerprint(exportSpki(publicKey));
  const tbs = buildTbs(await leafFields(root), root.signer.algorithm);
  const findings = lintTbs(tbs, root.certificate, { isKnownWeak: (each) => each === listed });
  assert.deepEqual(
    findings.map(({ code }) => code),
    ["key.known_weak"],
  );
});
