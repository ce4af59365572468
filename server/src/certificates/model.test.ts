import assert from "node:assert/strict";
import { test } from "node:test";
import {
  extendedKeyUsageOid,
  KEY_USAGES,
  REVOCATION_REASONS,
  type ExtendedKeyUsage,
  type RevocationReason,
} from "@keyward/x509";
import type { z } from "zod";
import { templateOf, type Material } from "../issuance/model.ts";
import { extendedKeyUsageWord, keyUsageWord, REASON_WORDS } from "./contract.ts";
import { beginning } from "./model.ts";
import { judge } from "../policies/model.ts";

const NOW = new Date("2026-06-01T12:00:00.750Z");
const SECOND = Date.parse("2026-06-01T12:00:00Z");
const inSeconds = (seconds: number) => new Date(SECOND + seconds * 1000).toISOString();

test("a certificate begins a little ago, for clocks that lag, and lives no longer than asked for and allowed", () => {
  const rules = { validity: { max: "1h" } };
  const timesOf = (attributes: Material["attributes"]) => {
    const template = templateOf(
      { attributes, csr: undefined, defaults: {}, rules, issuer: null, now: NOW },
      undefined,
    );
    const times = [template.notBefore, template.notAfter].map((at) => (at.getTime() - SECOND) / 1000);
    const refusals = judge(rules, template, { key: undefined, signature: "" }).map(({ code }) => code);
    return [...times, ...refusals];
  };
  assert.deepEqual(timesOf({}), [-30, 3570]);
  assert.deepEqual(timesOf({ ttl: "1h" }), [-30, 3570]);
  assert.deepEqual(timesOf({ ttl: "2m" }), [-6, 114]);
  assert.deepEqual(timesOf({ ttl: "10s" }), [0, 10]);
  assert.deepEqual(timesOf({ notAfter: inSeconds(1800) }), [-30, 1800]);
  assert.deepEqual(timesOf({ notAfter: inSeconds(3590) }), [-10, 3590]);
  assert.deepEqual(timesOf({ notAfter: inSeconds(3600) }), [0, 3600]);
  assert.deepEqual(timesOf({ notAfter: inSeconds(3605) }), [0, 3605, "policy.validity"]);
  assert.deepEqual(timesOf({ notBefore: inSeconds(60), notAfter: inSeconds(90) }), [60, 90]);
});

test("nothing begins before its issuer", () => {
  const from = (issuerBegins: number) =>
    (beginning(NOW, 86_400, new Date(SECOND + issuerBegins * 1000)).getTime() - SECOND) / 1000;
  assert.deepEqual([from(-3600), from(-5), from(0), from(60)], [-30, -5, 0, -30]);
});

type Same<A, B> = [A, B] extends [B, A] ? true : false;

test("the words of the contract, which runs where there is no X.509, are those that certificates are made of", () => {
  const [known] = extendedKeyUsageWord.options;
  const isSame: Same<z.output<typeof known>, ExtendedKeyUsage> &
    Same<(typeof REASON_WORDS)[number], Exclude<RevocationReason, "REMOVE_FROM_CRL">> = true;
  assert.ok(isSame);
  assert.deepEqual(keyUsageWord.options, [...KEY_USAGES]);
  for (const word of known.options) assert.notEqual(extendedKeyUsageOid(word), word);
  // Taking a certificate off the list is not a reason to put it there.
  const reasons = Object.keys(REVOCATION_REASONS).filter((word) => word !== "REMOVE_FROM_CRL");
  assert.deepEqual([...REASON_WORDS], reasons);
});

test("a renewal ends with its issuer if that is later than before, and is asked for in full if it is not", () => {
  const endOf = (issuerEnds: number, replacedEnds: number | undefined) => {
    const issuer = {
      certificate: {
        notBefore: new Date(SECOND - 86_400_000),
        notAfter: new Date(SECOND + issuerEnds * 1000),
      },
      signer: { algorithm: "ecdsa-sha256" },
    } as unknown as NonNullable<Material["issuer"]>;
    const replaced =
      replacedEnds === undefined
        ? undefined
        : { lifetimeSeconds: 3600, notAfter: new Date(SECOND + replacedEnds * 1000) };
    const material = { attributes: {}, csr: undefined, defaults: {}, rules: {}, issuer, replaced, now: NOW };
    return (templateOf(material, undefined).notAfter.getTime() - SECOND) / 1000;
  };
  assert.equal(endOf(600, undefined), 600, "a first one ends with its issuer");
  assert.equal(endOf(600, 300), 600);
  assert.equal(endOf(600, 600), 3570, "which is refused: it would last no longer than the old one");
  assert.equal(endOf(86_400, 300), 3570);
});

test("how many authorities may follow is said by the request, then by the CSR", () => {
  const csr = {
    subject: { rdns: [] },
    extensions: { basicConstraints: { isCa: true, pathLength: 2 } },
  } as unknown as NonNullable<Material["csr"]>;
  const lengthOf = (attributes: Material["attributes"], of: Material["csr"] = csr) =>
    templateOf({ attributes, csr: of, defaults: {}, rules: {}, issuer: null, now: NOW }, undefined)
      .pathLength;
  assert.equal(lengthOf({}), 2);
  assert.equal(lengthOf({ basicConstraints: { isCA: true, pathLength: 1 } }), 1);
  assert.equal(lengthOf({ basicConstraints: { isCA: false } }), undefined);
});
