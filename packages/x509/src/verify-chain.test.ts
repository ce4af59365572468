import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { certificateToPem, parseCertificate, signCertificateSync, type Certificate } from "./certificate.ts";
import {
  authorityKeyIdentifier,
  basicConstraints,
  extendedKeyUsage,
  keyUsage,
  makeExtension,
  subjectKeyIdentifier,
} from "./extensions.ts";
import { ask, needs, withFiles } from "./judges.ts";
import { exportSpki } from "./keys.ts";
import { nameConstraints } from "./name-constraints.ts";
import { nameFrom } from "./names.ts";
import {
  dns,
  freshSerial,
  issueLeaf,
  leafFields,
  makeAuthority,
  NOON,
  sharedKeys,
  type Authority,
} from "./test-authority.ts";
import { verifyChain, type ChainQuestion } from "./verify-chain.ts";

const SOON = new Date(NOON.getTime() + 60_000);

interface Case {
  readonly leaf: Certificate;
  readonly intermediates?: readonly Certificate[];
  readonly roots: readonly Certificate[];
  readonly at?: Date;
  readonly purpose?: ChainQuestion["purpose"];
}

/** Every question put below, kept so that openssl can be asked the same at the end. */
const asked: {
  readonly files: Record<string, string>;
  readonly args: string[];
  readonly isValid: boolean;
}[] = [];

/** Our answer as codes of problems. */
async function judge({ leaf, intermediates = [], roots, at = SOON, purpose }: Case): Promise<string[]> {
  const answer = await verifyChain({ leaf, intermediates, roots, at, purpose });
  const pem = (list: readonly Certificate[]): string =>
    list.map((each) => certificateToPem(each.der)).join("");
  const pool = intermediates.length === 0 ? [] : ["-untrusted", "pool.pem"];
  const forPurpose = purpose === "server_auth" ? ["-purpose", "sslserver"] : [];
  const time = ["-attime", String(at.getTime() / 1000)];
  asked.push({
    files: { "roots.pem": pem(roots), "pool.pem": pem(intermediates), "leaf.pem": pem([leaf]) },
    args: ["verify", ...time, ...forPurpose, "-CAfile", "roots.pem", ...pool, "leaf.pem"],
    isValid: answer.isValid,
  });
  return answer.isValid ? [] : answer.problems.map(({ code }) => code);
}

describe("a chain is accepted", () => {
  test("through intermediates, whatever their order, and is given leaf first", async () => {
    const root = await makeAuthority();
    const middle = await makeAuthority({ name: "Middle", parent: root });
    const lower = await makeAuthority({ name: "Lower", parent: middle, pathLength: 0 });
    const leaf = await issueLeaf(lower);
    const pool = [root.certificate, lower.certificate, middle.certificate];
    const roots = [root.certificate];
    assert.deepEqual(await judge({ leaf, intermediates: pool, roots, purpose: "server_auth" }), []);
    const answer = await verifyChain({ leaf, intermediates: pool, roots, at: SOON });
    assert.ok(answer.isValid);
    assert.deepEqual(
      answer.chain.map(({ serialNumber }) => serialNumber),
      [leaf, lower.certificate, middle.certificate, root.certificate].map(({ serialNumber }) => serialNumber),
    );
  });

  test("when the leaf is itself a trusted root", async () => {
    const root = await makeAuthority();
    assert.deepEqual(await judge({ leaf: root.certificate, roots: [root.certificate] }), []);
  });

  test("over a cross-signed twin when the direct root is not trusted", async () => {
    const [oldRoot, newRoot] = [await makeAuthority({ name: "Old" }), await makeAuthority({ name: "New" })];
    const cross = await makeAuthority({ name: "New", parent: oldRoot });
    const leaf = await issueLeaf(newRoot);
    const roots = [oldRoot.certificate];
    assert.deepEqual(await judge({ leaf, intermediates: [cross.certificate], roots }), []);
    // openssl stops at the untrusted root when it is offered one; the search here turns back and takes the other way.
    const pool = [newRoot.certificate, cross.certificate];
    assert.ok((await verifyChain({ leaf, intermediates: pool, roots, at: SOON })).isValid);
  });

  test("at the first and at the last second", async () => {
    const root = await makeAuthority();
    const leaf = await issueLeaf(root);
    const roots = [root.certificate];
    assert.ok((await verifyChain({ leaf, intermediates: [], roots, at: leaf.notBefore })).isValid);
    assert.ok((await verifyChain({ leaf, intermediates: [], roots, at: leaf.notAfter })).isValid);
  });
});

describe("a chain is refused", () => {
  const roots = async (): Promise<{ root: Authority; trusted: Certificate[] }> => {
    const root = await makeAuthority();
    return { root, trusted: [root.certificate] };
  };

  test("without a known issuer", async () => {
    const { root } = await roots();
    const stranger = await makeAuthority({ name: "Stranger" });
    assert.deepEqual(await judge({ leaf: await issueLeaf(stranger), roots: [root.certificate] }), [
      "chain.no_issuer",
    ]);
  });

  test("when the signature is another's", async () => {
    const { root, trusted } = await roots();
    const { privateKey } = await sharedKeys("EC_prime256v1", "forger");
    const forged = signCertificateSync(await leafFields(root), {
      key: privateKey,
      algorithm: "ECDSA-SHA256",
    });
    assert.deepEqual(await judge({ leaf: parseCertificate(forged), roots: trusted }), ["chain.signature"]);
  });

  test("before and after its time", async () => {
    const { root, trusted } = await roots();
    const leaf = await issueLeaf(root);
    assert.deepEqual(await judge({ leaf, roots: trusted, at: new Date(leaf.notBefore.getTime() - 1000) }), [
      "chain.not_yet_valid",
    ]);
    assert.deepEqual(await judge({ leaf, roots: trusted, at: new Date(leaf.notAfter.getTime() + 1000) }), [
      "chain.expired",
    ]);
  });

  test("when an ordinary certificate signs as if it were an authority", async () => {
    const { root, trusted } = await roots();
    const impostor = await issueLeaf(root, { subject: nameFrom({ commonName: "Impostor" }) });
    const { privateKey, publicKey } = await sharedKeys("EC_prime256v1", "leaf");
    const fields = {
      ...(await leafFields(root)),
      issuer: impostor.subject.der,
      publicKey: exportSpki(publicKey),
    };
    const extensions = fields.extensions.filter(({ oid }) => oid !== "2.5.29.35");
    const leaf = parseCertificate(
      signCertificateSync({ ...fields, extensions }, { key: privateKey, algorithm: "ECDSA-SHA256" }),
    );
    assert.deepEqual(await judge({ leaf, intermediates: [impostor], roots: trusted }), ["chain.not_ca"]);
  });

  test("when an authority may not sign certificates", async () => {
    const { root, trusted } = await roots();
    const { publicKey } = await sharedKeys("EC_prime256v1", "Mute");
    const mute = await makeAuthority({
      name: "Mute",
      parent: root,
      fields: {
        extensions: [
          basicConstraints({ isCa: true }),
          keyUsage(["crl_sign"]),
          subjectKeyIdentifier(exportSpki(publicKey).subarray(-20)),
          authorityKeyIdentifier(root.keyId),
        ],
      },
    });
    const leaf = await issueLeaf(mute, { extensions: [keyUsage(["digital_signature"])] });
    assert.deepEqual(await judge({ leaf, intermediates: [mute.certificate], roots: trusted }), [
      "chain.key_usage",
    ]);
  });

  test("when it is longer than an authority allows", async () => {
    const root = await makeAuthority({ name: "Flat", pathLength: 0 });
    const middle = await makeAuthority({ name: "Middle", parent: root });
    const leaf = await issueLeaf(middle);
    assert.deepEqual(await judge({ leaf, intermediates: [middle.certificate], roots: [root.certificate] }), [
      "chain.path_length",
    ]);
  });

  test("when a name lies outside the constraints of any authority above", async () => {
    const { root, trusted } = await roots();
    const limit = nameConstraints({
      permitted: [{ type: "dns_name", value: "example.com" }],
      excluded: [{ type: "ip_address", value: "10.0.0.0/8" }],
    });
    const limited = await makeAuthority({ name: "Limited", parent: root, extensions: [limit] });
    const lower = await makeAuthority({ name: "Lower", parent: limited });
    const pool = [limited.certificate, lower.certificate];
    const subject = nameFrom({ organization: "Acme" });
    const ask = async (altNames: Parameters<typeof issueLeaf>[1]) =>
      await judge({
        leaf: await issueLeaf(lower, { subject, ...altNames }),
        intermediates: pool,
        roots: trusted,
      });
    assert.deepEqual(await ask({ altNames: [dns("db.example.com")] }), []);
    assert.deepEqual(await ask({ altNames: [dns("db.example.org")] }), ["chain.name_constraints"]);
    assert.deepEqual(await ask({ altNames: [{ type: "ip_address", value: "10.1.2.3" }] }), [
      "chain.name_constraints",
    ]);
    assert.deepEqual(await ask({ altNames: [{ type: "ip_address", value: "192.0.2.1" }] }), []);
    assert.deepEqual(await ask({ subject: nameFrom({ commonName: "www.evil.org" }), altNames: [] }), [
      "chain.name_constraints",
    ]);
  });

  test("when a leaf that bears its issuer's name lies outside the constraints", async () => {
    const { root, trusted } = await roots();
    const permitted = [{ type: "dns_name" as const, value: "example.com" }];
    const limit = nameConstraints({ permitted, excluded: [] });
    const limited = await makeAuthority({ name: "Limited", parent: root, extensions: [limit] });
    const ask = async (value: string) =>
      await judge({
        leaf: await issueLeaf(limited, {
          altNames: [dns(value)],
          fields: { subject: limited.certificate.subject.der },
        }),
        intermediates: [limited.certificate],
        roots: trusted,
      });
    assert.deepEqual(await ask("db.example.com"), []);
    assert.deepEqual(await ask("db.example.org"), ["chain.name_constraints"]);
  });

  test("when a critical extension is unknown", async () => {
    const { root, trusted } = await roots();
    const odd = makeExtension("1.3.6.1.4.1.99999.7", true, Buffer.from([5, 0]));
    const fields = await leafFields(root);
    const leaf = parseCertificate(
      signCertificateSync({ ...fields, extensions: [...fields.extensions, odd] }, root.signer),
    );
    assert.deepEqual(await judge({ leaf, roots: trusted }), ["chain.unknown_critical"]);
  });

  test("when leaf or authority are meant for something else", async () => {
    const { root, trusted } = await roots();
    const clientOnly = await makeAuthority({
      name: "Clients",
      parent: root,
      extensions: [extendedKeyUsage(["client_auth"])],
    });
    const leaf = await issueLeaf(clientOnly);
    const pool = [clientOnly.certificate];
    assert.deepEqual(await judge({ leaf, intermediates: pool, roots: trusted, purpose: "server_auth" }), [
      "chain.purpose",
    ]);
    assert.deepEqual(await judge({ leaf, intermediates: pool, roots: trusted }), []);
  });

  test("when authorities sign each other in a circle, without running for ever", async () => {
    const [a, b] = [await makeAuthority({ name: "A" }), await makeAuthority({ name: "B" })];
    const [aByB, bByA] = [
      await makeAuthority({ name: "A", parent: b }),
      await makeAuthority({ name: "B", parent: a }),
    ];
    const stranger = await makeAuthority({ name: "Trusted" });
    const pool = [aByB.certificate, bByA.certificate];
    const codes = await judge({
      leaf: await issueLeaf(a),
      intermediates: pool,
      roots: [stranger.certificate],
    });
    assert.ok(codes.includes("chain.no_issuer"));
  });

  test("when a thousand authorities share one name, in bounded time", async () => {
    const { root, trusted } = await roots();
    const leaf = await issueLeaf(await makeAuthority({ name: "Twin" }));
    const twin = await makeAuthority({
      name: "Twin",
      parent: root,
      fields: { publicKey: root.certificate.publicKey },
    });
    const pool = Array.from({ length: 1000 }, () => ({
      ...twin.certificate,
      der: Buffer.concat([twin.certificate.der, Buffer.from(freshSerial())]),
    }));
    const answer = await verifyChain({ leaf, intermediates: pool, roots: trusted, at: SOON });
    assert.ok(!answer.isValid);
    assert.ok(answer.problems.some(({ code }) => code === "chain.too_many"));
    assert.ok(answer.problems.length <= 32);
  });
});

test("openssl verify gives the same yes or no to every question above", needs("openssl"), () => {
  assert.ok(asked.length >= 15, String(asked.length));
  for (const { files, args, isValid } of asked) {
    const verdict = withFiles(files, (directory) => ask("openssl", args, directory));
    assert.equal(verdict.isAccepted, isValid, verdict.output);
  }
});
