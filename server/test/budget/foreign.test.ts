/** Every request has a budget: keys, chains and certificates that somebody else made, and what is asked of many. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { get } from "node:http";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { der } from "@keyward/x509/testing";
import { anIdentity, aProject } from "../builders.ts";
import { anIntermediate, aProfile, aRoot, issue } from "../certificates.ts";
import type { Answer, Client } from "../harness.ts";
import { accepted, canWatch, openGround, type Ground } from "./ground.ts";
import { encodePem, OID } from "@keyward/x509";

let ground: Ground;
let owner: Client;
before(async () => {
  ground = await openGround();
  ({ owner } = ground);
});
after(() => ground.close());

const CM = "/api/v1/cert-manager";
const IMPORT = `${CM}/certificates/import-certificate`;
const many = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));

const refused = (answer: Answer, code: RegExp): void => {
  assert.equal(answer.status, 400, JSON.stringify(answer.body).slice(0, 500));
  assert.match(answer.body.message as string, code);
};

function number(octets: number): Buffer {
  const magnitude = randomBytes(octets);
  magnitude[0] = 0xc1;
  magnitude[octets - 1] = 0xff;
  return der.unsignedInteger(magnitude);
}

/** Of a kind whose public half OpenSSL works out while it reads it: g^x mod p, with numbers as long as one likes. */
function slowKey(kind: "dsa" | "dh", octets: number): string {
  const [p, g, x] = [number(octets), number(octets), number(octets)];
  const algorithm =
    kind === "dsa"
      ? der.sequence(der.oid("1.2.840.10040.4.1"), der.sequence(p, number(octets), g))
      : der.sequence(der.oid("1.2.840.113549.1.3.1"), der.sequence(p, g));
  return encodePem("PRIVATE KEY", der.sequence(der.integer(0), algorithm, der.octetString(x)));
}

const commonName = (text: string) =>
  der.sequence(der.setOf([der.sequence(der.oid(OID.commonName), der.utf8String(text))]));
const rsaKey = (octets: number, exponent: bigint) =>
  der.sequence(
    der.sequence(der.oid(OID.rsaEncryption), der.nullValue()),
    der.bitString(der.sequence(number(octets), der.integer(exponent))),
  );
const SIGNED_WITH = der.sequence(der.oid(OID.sha256WithRsa), der.nullValue());

interface Foreign {
  readonly issuer: string;
  readonly subject: string;
  readonly key: Buffer;
  readonly extension: Buffer;
  readonly signatureOctets: number;
}
/** Signed by nobody, which is for the reader to find out. */
function foreignCertificate({ issuer, subject, key, extension, signatureOctets }: Foreign): string {
  const tbs = der.sequence(
    der.explicit(0, der.integer(2)),
    der.unsignedInteger(Buffer.concat([Buffer.from([0x11]), randomBytes(15)])),
    SIGNED_WITH,
    commonName(issuer),
    der.sequence(
      der.utcTime(new Date("2026-01-01T00:00:00Z")),
      der.utcTime(new Date("2046-01-01T00:00:00Z")),
    ),
    commonName(subject),
    key,
    der.explicit(3, der.sequence(extension)),
  );
  const signature = randomBytes(signatureOctets);
  signature[0] = 1;
  return encodePem("CERTIFICATE", der.sequence(tbs, SIGNED_WITH, der.bitString(signature)));
}
const authorityExtension = der.sequence(
  der.oid("2.5.29.19"),
  der.boolean(true),
  der.octetString(der.sequence(der.boolean(true))),
);
const namesExtension = (names: readonly string[]) =>
  der.sequence(
    der.oid("2.5.29.17"),
    der.octetString(der.sequenceOf(names.map((name) => der.tlv(der.contextTag(2), Buffer.from(name))))),
  );
const KEY = rsaKey(256, 65537n);
const named = (names: readonly string[]) =>
  foreignCertificate({
    issuer: "I",
    subject: "many",
    key: KEY,
    extension: namesExtension(names),
    signatureOctets: 256,
  });

describe("no stretch of 50 ms, what others made", { skip: !canWatch }, () => {
  it("private keys of kinds that take long only to be read", async () => {
    const { id: projectId } = await aProject(owner, { type: "cert-manager" });
    const root = await aRoot(owner, projectId);
    const profile = await aProfile(owner, projectId, root.id);
    const { certificate: certificatePem } = await issue(owner, profile.id, { ttl: "30d" });
    for (const kind of ["dsa", "dh"] as const)
      await ground.withinBudget(
        `import with a ${kind} key`,
        async () => {
          const body = { projectId, certificatePem, privateKeyPem: slowKey(kind, 2000) };
          refused(await owner.post(IMPORT, body), /key\.unsupported/);
        },
        { rounds: 2 },
      );
  });

  it("a chain of authorities whose keys take long to check with", async () => {
    const { id: projectId } = await aProject(owner, { type: "cert-manager" });
    const { id } = await anIntermediate(owner, projectId, null);
    const { csr } = accepted(await owner.get(`${CM}/ca/internal/${id}/csr`)) as { csr: string };
    const request = Buffer.from(csr.replace(/-----.*?-----|\s/g, ""), "base64");
    const at = request.indexOf(der.sequence(der.oid(OID.ecPublicKey), der.oid(OID.prime256v1))) - 2;
    const above = { issuer: "X", subject: "X", extension: authorityExtension };
    const chainOf = (octets: number, exponent: bigint) => ({
      certificate: foreignCertificate({
        ...above,
        subject: "im",
        key: request.subarray(at, at + 91),
        signatureOctets: octets,
      }),
      certificateChain: many(98, () =>
        foreignCertificate({ ...above, key: rsaKey(octets, exponent), signatureOctets: octets }),
      ).join(""),
    });
    for (const chain of [chainOf(2048, 2n ** 64n - 1n), chainOf(1024, 2n ** 64n - 1n)])
      await ground.withinBudget("take in under a long chain", async () => {
        const path = `${CM}/ca/internal/${id}/import-certificate`;
        refused(await owner.post(path, chain), /chain\.signature/);
      });
  });

  it("certificates with the most names, searched and exported; and not exported any further without rights", async () => {
    const { id: projectId } = await aProject(owner, { type: "cert-manager" });
    const root = await aRoot(owner, projectId);
    const profile = await aProfile(owner, projectId, root.id);
    const body = (count: number, length: number) => ({
      projectId,
      profileId: profile.id,
      certificatePem: named(many(count, () => randomBytes(length).toString("hex").slice(0, length))),
    });
    await Promise.all(
      many(4, async () => {
        for (let n = 0; n < 124; n += 1) accepted(await owner.post(IMPORT, body(1000, 42)));
      }),
    );
    // The sample of a list that is not long is taken anew after five seconds.
    await ground.withinBudget(
      "search in a profile",
      async () =>
        accepted(await owner.get(`${CM}/certificate-profiles/${profile.id}/certificates?limit=5&search=zzz`)),
      { prepare: (round) => (round === 0 ? Promise.resolve() : sleep(5100)), rounds: 3 },
    );
    for (const format of ["ndjson", "csv"])
      await ground.withinBudget(`export as ${format}`, async () => {
        const path = `/api/v1/projects/${projectId}/certificates/export?format=${format}`;
        const text = accepted(await owner.get(path)) as string;
        assert.ok(text.length > 20_000_000, String(text.length));
        // Each of them once, and the authority's own, although pages end by bytes: its id is in the first column.
        const ids = text.split("\n").flatMap((line) => /^(?:{"id":)?"([0-9a-f-]{36})"/.exec(line)?.[1] ?? []);
        assert.deepEqual([ids.length, new Set(ids).size], [497, 497]);
      });

    const { client, ...reader } = await anIdentity(owner, ground.base, projectId, {
      roles: [{ role: "viewer" }],
    });
    assert.ok(client);
    const sent = await new Promise<number>((resolve, reject) => {
      const headers = { authorization: `Bearer ${reader.token}` };
      let bytes = 0;
      let isAsked = false;
      get(`${ground.base}/api/v1/projects/${projectId}/certificates/export`, { headers }, (answer) => {
        const end = () => resolve(bytes);
        answer.on("error", end).on("close", end);
        answer.on("data", (part: Buffer) => {
          bytes += part.length;
          if (isAsked) return;
          isAsked = true;
          answer.pause();
          void owner
            .patch(`/api/v1/projects/${projectId}/memberships/identities/${reader.id}`, {
              roles: [{ role: "no-access" }],
            })
            .then(accepted)
            .then(() => sleep(2000))
            .then(() => answer.resume(), reject);
        });
      }).on("error", reject);
    });
    // What was on its way in the buffers of the connection arrives all the same.
    assert.ok(sent < 20_000_000, `${sent} bytes`);
  });
});
