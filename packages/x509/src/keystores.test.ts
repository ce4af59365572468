import assert from "node:assert/strict";
import { createHash, createPublicKey } from "node:crypto";
import { test } from "node:test";
import { KEY_ALGORITHMS, type KeyAlgorithm } from "./algorithms.ts";
import { certificatesFromPem } from "./certificate.ts";
import { assertCanonical } from "./der-tree.ts";
import { buildJks } from "./jks.ts";
import { ask, needs, withFiles } from "./judges.ts";
import { importPrivateKey } from "./private-keys.ts";
import { buildPkcs12, type KeyBundle } from "./pkcs12.ts";
import { issueLeaf, makeAuthority, NOON, sharedKeys } from "./test-authority.ts";
import { X509Error } from "./x509-error.ts";

const QUICK = KEY_ALGORITHMS.filter((name) => name !== "RSA_3072" && name !== "RSA_4096");
const PASSWORD = "pässwörd €";

async function bundleOf(algorithm: KeyAlgorithm): Promise<KeyBundle> {
  const root = await makeAuthority();
  const middle = await makeAuthority({ name: "Middle", parent: root });
  const leaf = await issueLeaf(middle, { algorithm });
  const { privateKey } = await sharedKeys(algorithm, "leaf");
  return {
    privateKey,
    certificate: leaf.der,
    chain: [middle.certificate.der, root.certificate.der],
    friendlyName: "Größe db",
  };
}

/** What openssl finds in a PKCS#12 file must be the very key and certificates that went in. */
function assertOpensslFinds(
  bundle: KeyBundle,
  directory: string,
  [file, password]: readonly [string, string],
): string {
  const { isAccepted, output } = ask(
    "openssl",
    ["pkcs12", "-in", file, "-passin", `pass:${password}`, "-nodes"],
    directory,
  );
  assert.ok(isAccepted, output);
  const found = certificatesFromPem(output).map(({ der }) => der.toString("hex"));
  const expected = [bundle.certificate, ...bundle.chain].map((der) => der.toString("hex"));
  assert.deepEqual(found.sort(), expected.sort());
  assert.ok(createPublicKey(importPrivateKey(output)).equals(createPublicKey(bundle.privateKey)));
  return output;
}

for (const algorithm of QUICK) {
  test(`PKCS#12 with a ${algorithm} key is opened by openssl`, needs("openssl"), async () => {
    const bundle = await bundleOf(algorithm);
    const store = await buildPkcs12(bundle, { password: PASSWORD });
    assertCanonical(store);
    withFiles({ "store.p12": store }, (directory) => {
      const shown = assertOpensslFinds(bundle, directory, ["store.p12", PASSWORD]);
      assert.match(shown, /localKeyID/);
      const { output } = ask(
        "openssl",
        ["pkcs12", "-in", "store.p12", "-passin", `pass:${PASSWORD}`, "-info", "-noout"],
        directory,
      );
      assert.match(output, /MAC: sha256, Iteration 10000/);
      assert.match(output, /PBES2, PBKDF2, AES-256-CBC, Iteration 10000, PRF hmacWithSHA256/);
      assert.ok(
        !ask("openssl", ["pkcs12", "-in", "store.p12", "-passin", "pass:wrong", "-nodes"], directory)
          .isAccepted,
      );
    });
  });

  for (const kind of ["PKCS12", "JKS"] as const) {
    const judges = { skip: needs("keytool").skip || needs("openssl").skip };
    // Java refuses any password outside ASCII for PBES2, whoever wrote the file; its own JKS takes every letter.
    const password = kind === "JKS" ? PASSWORD : "correct horse";
    test(`${kind} with a ${algorithm} key is opened by keytool, key and chain unharmed`, judges, async () => {
      const bundle = { ...(await bundleOf(algorithm)), friendlyName: "Db Key" };
      const store =
        kind === "JKS"
          ? buildJks(bundle, { password, createdAt: NOON })
          : await buildPkcs12(bundle, { password });
      withFiles({ store, "password.txt": password }, (directory) => {
        // keytool copies the entry into a store of its own, which it can only do after decrypting the key.
        const from = ["-srckeystore", "store", "-srcstoretype", kind, "-srcstorepass:file", "password.txt"];
        const to = ["-destkeystore", "copy.p12", "-deststoretype", "PKCS12", "-deststorepass", "changeit"];
        const args = ["-J-Dfile.encoding=UTF-8", "-J-Duser.language=en", "-importkeystore", ...from, ...to];
        const verdict = ask(
          "keytool",
          [...args, "-srcalias", "db key", "-destkeypass", "changeit"],
          directory,
        );
        assert.ok(verdict.isAccepted, verdict.output);
        assertOpensslFinds(bundle, directory, ["copy.p12", "changeit"]);
      });
    });
  }
}

test("the same chance gives the same file, fresh chance another", async () => {
  const bundle = await bundleOf("EC_prime256v1");
  const random = (octets: number): Buffer => Buffer.alloc(octets, 7);
  const fixed = () => buildPkcs12(bundle, { password: "changeit", iterations: 1, random });
  assert.ok((await fixed()).equals(await fixed()));
  const fresh = () => buildPkcs12(bundle, { password: "changeit", iterations: 1 });
  assert.ok(!(await fresh()).equals(await fresh()));
});

test("a JKS file ends in the digest Java looks for, and short passwords are refused", async () => {
  const bundle = await bundleOf("EC_prime256v1");
  const store = buildJks(bundle, { password: "changeit", createdAt: NOON });
  assert.equal(store.readUInt32BE(0), 0xfeedfeed);
  const password = Buffer.from("changeit", "utf16le").swap16();
  const content = store.subarray(0, -20);
  const digest = createHash("sha1").update(password).update("Mighty Aphrodite").update(content).digest();
  assert.ok(store.subarray(-20).equals(digest));
  assert.throws(() => buildJks(bundle, { password: "short", createdAt: NOON }), X509Error);
});
