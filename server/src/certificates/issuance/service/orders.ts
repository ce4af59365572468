/**
 * From what somebody asked for to an order for the gate, and from what the gate issued to the answer. Whoever calls has
 * settled who asks and under which profile or authority.
 */
import type { KeyObject } from "node:crypto";
import type { Actor, MemberActor } from "../../../platform/actor.ts";
import type { Clock } from "../../../platform/clock.ts";
import type { Keyring } from "../../../platform/crypto/index.ts";
import type { Db } from "../../../platform/db/index.ts";
import { Pace } from "../../../platform/pace.ts";
import { badRequest, notFound, Problem } from "../../../platform/problem.ts";
import { chainToPem } from "../../authorities/model.ts";
import type { Issuer } from "../../authorities/issuers/model.ts";
import type { Issuers } from "../../authorities/issuers/service.ts";
import type { CertificateRow } from "../../inventory/model.ts";
import { findCertificateById } from "../../inventory/store/certificates.ts";
import { asRefusal, judged } from "../../model.ts";
import type { PolicyRules } from "../../policies/contract.ts";
import { judgeInSteps } from "../../policies/model.ts";
import type { ProfileRow } from "../../profiles/store.ts";
import {
  certificateToPem,
  encodePem,
  exportPkcs8,
  exportSpki,
  hasErrors,
  isSelfIssued,
  keyAlgorithmOf,
  parseCertificate,
  parseCsrPem,
  readPublicKey,
  verifyCsr,
  type CertificateRequest,
  type Finding,
} from "../../x509/index.ts";
import type { Attributes, IssuedView } from "../contract.ts";
import type { Context, Order } from "../gate/model.ts";
import { openCertificateKey, type Gate, type Issued } from "../gate/service.ts";
import { makeKey, standInFor, takesTurns } from "../keys/service.ts";
import { keyAlgorithmFor, renewBeforeSeconds, timeFindings, wishOf, type Replaced } from "../model.ts";

export interface OrderNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly issuers: Issuers;
  readonly gate: Gate;
}

export type Orders = ReturnType<typeof createOrders>;

/** What an order is made from, once it is known who asks under which profile or authority. */
export interface Brief {
  readonly actor: Actor;
  readonly projectId: string;
  readonly orgId: string;
  readonly profile: ProfileRow | null;
  readonly applicationId: string | null;
  readonly issuer: Issuer | null;
  readonly rules: PolicyRules;
  readonly attributes: Attributes;
  readonly csr: CertificateRequest | undefined;
  /** For a renewal that keeps its key. */
  readonly key: KeyObject | undefined;
  /** Nothing will be issued, so no key is made. */
  readonly isRehearsal?: boolean;
  /** Is the key that is used again the caller's to see? */
  readonly showsKey: boolean;
  readonly context: Context;
  /** For a renewal: what it takes the place of. */
  readonly replaced?: Replaced;
  readonly idempotency: Order["idempotency"];
  /** Asks for the right once more: a key that takes long to make is waited for. */
  readonly requireStill?: () => Promise<unknown>;
}

interface ChainTexts {
  readonly issuing: string;
  readonly whole: string;
  readonly withoutRoot: string;
}
/** An issuer's chain is the same in every answer: written down once. */
const chainTexts = new WeakMap<Issuer, ChainTexts>();
function textsOf(chain: readonly Buffer[]): ChainTexts {
  const [first] = chain;
  const last = chain.at(-1);
  // The end of a chain that was brought from elsewhere need not be a root.
  const hasRoot = last !== undefined && isSelfIssued(parseCertificate(last));
  return {
    issuing: first ? certificateToPem(first).trimEnd() : "",
    whole: chainToPem(chain),
    withoutRoot: chainToPem(hasRoot ? chain.slice(0, -1) : chain),
  };
}

function chainTextsOf(issuer: Issuer): ChainTexts {
  const known = chainTexts.get(issuer) ?? textsOf(issuer.chain);
  chainTexts.set(issuer, known);
  return known;
}

/** Every finding, though some words cannot even be written down: those speak by their refusal. */
const findingsOf = (error: unknown): readonly Finding[] | undefined =>
  error instanceof Problem && error.status === 400 && Array.isArray(error.details)
    ? (error.details as Finding[])
    : undefined;

/** The names of a request times the patterns of a policy: others have their turn meanwhile. */
async function inSteps<T>(steps: Generator<undefined, T>): Promise<T> {
  const pace = new Pace();
  const next = () => judged("attributes", () => steps.next());
  for (let step = next(); ; step = next()) {
    if (step.done) return step.value;
    if (pace.isDue()) await pace.rest();
  }
}

export function createOrders({ db, clock, keyring, issuers, gate }: OrderNeeds) {
  const readCsr = async (text: string | null | undefined): Promise<CertificateRequest | undefined> => {
    if (!text) return undefined;
    try {
      const csr = parseCsrPem(text);
      await verifyCsr(csr);
      return csr;
    } catch (error) {
      throw asRefusal(error, "csr");
    }
  };

  const keyFor = async (brief: Brief): Promise<{ publicKey: Buffer; privateKey: Buffer | undefined }> => {
    if (brief.csr) return { publicKey: brief.csr.publicKey, privateKey: undefined };
    const algorithm = judged("keyAlgorithm", () =>
      keyAlgorithmFor({
        attributes: brief.attributes,
        defaults: brief.profile?.defaults ?? {},
        rules: brief.rules,
      }),
    );
    if (brief.key) return { publicKey: exportSpki(brief.key), privateKey: exportPkcs8(brief.key) };
    if (brief.isRehearsal) return { publicKey: await standInFor(algorithm), privateKey: undefined };
    const made = await makeKey(algorithm, brief.orgId);
    if (takesTurns(algorithm)) await brief.requireStill?.();
    return made;
  };

  const orderOf = async (brief: Brief): Promise<Order> => {
    const key = await keyFor(brief);
    const { attributes, csr, rules, issuer, replaced } = brief;
    const now = clock.now();
    const { wish, judging } = judged("attributes", () => {
      const algorithm = keyAlgorithmOf(readPublicKey(key.publicKey));
      const defaults = brief.profile?.defaults ?? {};
      const wanted = wishOf({ attributes, csr, defaults, rules, issuer, replaced, now }, algorithm);
      const signature = wanted.signatureAlgorithm ?? issuer?.signer.algorithm ?? "";
      return { wish: wanted, judging: judgeInSteps(rules, wanted, { key: algorithm, signature }) };
    });
    const policyFindings = await inSteps(judging);
    return judged("attributes", () => {
      const findings = [...policyFindings, ...timeFindings(rules, wish, now)];
      const own = brief.context;
      const renewal = brief.profile && {
        autoRenew: (own.autoRenewal ?? brief.profile.autoRenew) && key.privateKey !== undefined,
        renewBeforeSeconds: own.renewBeforeSeconds ?? renewBeforeSeconds(brief.profile, wish),
      };
      return {
        actor: brief.actor,
        projectId: brief.projectId,
        orgId: brief.orgId,
        profileId: brief.profile?.id ?? null,
        applicationId: brief.applicationId,
        issuer,
        wish,
        ...key,
        ...(brief.key ? { reusesKey: true } : {}),
        keepsKey: true,
        context: { ...own, ...renewal },
        idempotency: brief.idempotency,
        findings,
        isBlockedKey: false,
      };
    });
  };

  /** The certificate as it is in the inventory; only a repeat under the same key has to look. */
  const viewOf = async (
    issued: Issued,
    order: Order,
    shown: { readonly removeRoot: boolean; readonly key: boolean },
  ): Promise<IssuedView> => {
    const kept = issued.der ? undefined : await db.read((q) => findCertificateById(q, issued.certificateId));
    const der = issued.der ?? kept?.der;
    if (!der) throw notFound("The certificate", issued.certificateId);
    // The authority may have another certificate by now than when a repeated request was signed.
    const chain = kept?.chain ? textsOf(kept.chain) : order.issuer && chainTextsOf(order.issuer);
    const certificate = certificateToPem(der).trimEnd();
    return {
      certificate,
      issuingCaCertificate: chain?.issuing || certificate,
      certificateChain: (shown.removeRoot ? chain?.withoutRoot : chain?.whole) ?? "",
      ...(order.privateKey && shown.key
        ? { privateKey: encodePem("PRIVATE KEY", order.privateKey).trimEnd() }
        : {}),
      serialNumber: issued.serialNumber,
      certificateId: issued.certificateId,
    };
  };

  /** Every look at a private key leaves a row in the audit log before the key leaves the house. */
  const noteKeyRead = (actor: MemberActor, row: CertificateRow): Promise<void> =>
    db.write(async (tx) =>
      tx.audit(actor, {
        event: "read-certificate-private-key",
        orgId: row.orgId,
        projectId: row.projectId,
        metadata: { certificateId: row.id, serialNumber: row.serialNumber },
      }),
    );

  /** A repeat gets the first call's certificate and key, without a new key being made. */
  const replayed = async (
    brief: Brief,
    removeRoot: boolean,
  ): Promise<{ view: IssuedView; requestId: string } | undefined> => {
    if (!brief.idempotency) return undefined;
    const probe: Order = {
      ...(await orderOf({ ...brief, attributes: { ...brief.attributes, keyAlgorithm: "EC_prime256v1" } })),
      idempotency: brief.idempotency,
    };
    const issued = await gate.replay(probe);
    if (!issued) return undefined;
    const row = await db.read((q) => findCertificateById(q, issued.certificateId));
    const key = row && (await openCertificateKey(keyring, row));
    const privateKey = key && exportPkcs8(key);
    const shown = { removeRoot, key: brief.showsKey };
    // A key that is used again was somebody's to see before: whoever renews with it notes that.
    if (privateKey && brief.showsKey && !brief.key && brief.actor.kind !== "system")
      await noteKeyRead(brief.actor, row);
    return { requestId: issued.requestId, view: await viewOf(issued, { ...probe, privateKey }, shown) };
  };

  const issueFor = async (
    brief: Brief,
    removeRoot: boolean,
  ): Promise<{ view: IssuedView; requestId: string }> => {
    const earlier = await replayed(brief, removeRoot);
    if (earlier) return earlier;
    const order = await orderOf(brief);
    const issued = await gate.issue(order);
    if (issued.der === undefined) {
      const again = await replayed(brief, removeRoot);
      if (again) return again;
    }
    const shown = { removeRoot, key: brief.showsKey };
    return { requestId: issued.requestId, view: await viewOf(issued, order, shown) };
  };

  const issuerOf = (profile: ProfileRow): Promise<Issuer | null> => {
    if (profile.issuerType === "self-signed") return Promise.resolve(null);
    if (profile.authorityId === null) throw badRequest("The profile has no certificate authority.");
    return issuers.require(profile.authorityId, profile.projectId);
  };

  /** Nothing is issued; every finding is told. */
  const rehearse = async (brief: Brief) => {
    let known: readonly Finding[] = [];
    try {
      const order = await orderOf({ ...brief, isRehearsal: true });
      known = order.findings;
      const { findings, tbs } = await gate.rehearse(order);
      return {
        wouldIssue: !hasErrors(findings),
        findings: [...findings],
        toBeSigned: tbs.toString("base64"),
      };
    } catch (error) {
      const more = findingsOf(error);
      if (!more) throw error;
      return { wouldIssue: false, findings: [...known, ...more], toBeSigned: null };
    }
  };

  return { readCsr, orderOf, issueFor, replayed, rehearse, issuerOf, noteKeyRead };
}
