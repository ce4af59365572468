import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { anIntermediate, aProfile, aRoot, certProject, issue } from "../certificates.ts";
import { openTestHouse, type TestHouse } from "../harness.ts";
import { isInstalled, JUDGES, layOut, type Case } from "./judges.ts";

const AUTHORITY_KEYS = ["RSA_2048", "EC_prime256v1", "EC_secp384r1", "EC_secp521r1", "Ed25519"];
const LEAF_KEYS = ["RSA_2048", "EC_prime256v1", "EC_secp384r1", "Ed25519"];
const dns = (value: string) => ({ type: "dns_name", value });
const NAMES: Readonly<Record<string, Record<string, unknown>>> = {
  "dns name": { commonName: "a.example.com", altNames: [dns("a.example.com"), dns("*.example.com")] },
  "no subject": { commonName: "", altNames: [dns("b.example.com")] },
  addresses: {
    commonName: "c.example.com",
    altNames: [
      dns("c.example.com"),
      { type: "ip_address", value: "10.1.2.3" },
      { type: "ip_address", value: "2001:db8::1" },
    ],
  },
  "all kinds": {
    commonName: "Jörg's Gerät, 東京",
    organization: "Acme + Söhne",
    country: "DE",
    altNames: [
      dns("xn--bcher-kva.example"),
      { type: "email", value: "a@example.com" },
      { type: "uri", value: "spiffe://example.com/x" },
      { type: "upn", value: "x@corp.example.com" },
    ],
  },
};

const split = (pem: string): string[] =>
  pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];

describe("every certificate of the matrix is accepted by every judge", () => {
  let house: TestHouse;
  let cases: Case[] = [];
  const add = async (name: string, profileId: string, attributes: Record<string, unknown>) => {
    const { certificate, certificateChain } = await issue(house.owner, profileId, attributes);
    const chain = split(certificateChain);
    cases.push({
      name,
      leaf: certificate,
      intermediates: chain.slice(0, -1),
      root: chain.at(-1) ?? "",
      at: new Date(house.clock.millis() + 60_000),
      hasEd25519: name.includes("Ed25519"),
    });
  };
  before(async () => {
    house = await openTestHouse();
    const { id: projectId } = await certProject(house.owner);
    for (const [index, keyAlgorithm] of AUTHORITY_KEYS.entries()) {
      const root = await aRoot(house.owner, projectId, { keyAlgorithm, commonName: `Root ${keyAlgorithm}` });
      const nameConstraints = {
        permitted: [
          { type: "dns_name", value: "example.com" },
          { type: "dns_name", value: "example" },
        ],
        excluded: [],
      };
      const intermediate = await anIntermediate(house.owner, projectId, root.id, {
        keyAlgorithm,
        commonName: `Middle ${keyAlgorithm}`,
        ...(index === 1 ? { nameConstraints } : {}),
      });
      for (const caId of [root.id, intermediate.id]) {
        const profile = await aProfile(house.owner, projectId, caId);
        for (const leafKey of LEAF_KEYS) {
          for (const [what, attributes] of Object.entries(NAMES)) {
            // An RSA key takes a quarter of a second; one kind of name shows what the key changes.
            if (leafKey === "RSA_2048" && what !== "dns name") continue;
            const where = caId === root.id ? "root" : "intermediate";
            await add(`${keyAlgorithm}, ${where}, ${leafKey}, ${what}`, profile.id, {
              ...attributes,
              keyAlgorithm: leafKey,
            });
          }
        }
      }
    }
    // Keys of 4,096 bits take seconds: one of each kind of holder.
    const root = await aRoot(house.owner, projectId, {
      keyAlgorithm: "RSA_4096",
      commonName: "Root RSA_4096",
    });
    const profile = await aProfile(house.owner, projectId, root.id);
    const { "dns name": attributes } = NAMES;
    await add("RSA_4096, root, RSA_4096, dns name", profile.id, { ...attributes, keyAlgorithm: "RSA_4096" });
  });
  after(() => house.close());

  const withFolders = <T>(chosen: readonly Case[], work: (directory: string) => T): T => {
    const directory = mkdtempSync(join(tmpdir(), "keyward-verifiers-"));
    try {
      layOut(chosen, directory);
      return work(directory);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  };

  for (const judge of JUDGES) {
    const skip = isInstalled(judge) ? false : `${judge.name} is not installed, so it has judged nothing`;
    test(`${judge.name} accepts all`, { skip }, () => {
      const suited = cases.filter((one) => judge.suits?.(one) ?? true);
      assert.ok(suited.length >= 72);
      const refused = withFolders(suited, (directory) => judge.judge(suited, directory));
      assert.deepEqual([...refused], []);
    });

    test(`${judge.name} does refuse another root, and a certificate that has ended`, { skip }, () => {
      const suited = cases.filter((one) => judge.suits?.(one) ?? true);
      const [one, other] = [suited[0], suited.find(({ root }) => root !== suited[0]?.root)];
      assert.ok(one && other);
      const stranger = [{ ...one, root: other.root }];
      assert.equal(withFolders(stranger, (directory) => judge.judge(stranger, directory)).size, 1);
      const later = { ...one, at: new Date(one.at.getTime() + 200 * 86_400_000) };
      // A judge that knows only today cannot be asked about another day.
      if (judge.suits?.(later) === false) return;
      const ended = [later];
      assert.equal(withFolders(ended, (directory) => judge.judge(ended, directory)).size, 1);
    });
  }
});
