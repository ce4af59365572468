/**
 * From the caller's input to an issuance request for signing, and from the certificate to the answer. The calling code has
 * checked who asks and under which profile or CA.
 */
import type { KeyObject } from "node:crypto";
import type { Actor, MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { Pace } from "../../platform/pace.ts";
import { badRequest, notFound, Problem } from "../../platform/problem.ts";
import type { PolicyRules } from "../../policies/contract.ts";
import type { Attributes, IssuedView } from "../contract.ts";
import { keyAlgorithmFor, renewBeforeSeconds, timeFindings, templateOf, type Replaced } from "../model.ts";
import {
  type Issuer,
  type Issuers,
  type IssuanceContext,
  type IssuanceRequest,
  openCertificateKey,
  type Signing,
  type Issued,
  makeKey,
  standInFor,
  takesTurns,
} from "../../signing/index.ts";
import { type CertificateRow, findCertificateById } from "../../inventory/index.ts";
import { asRefusal, judged, chainToPem } from "../../certificates/index.ts";
import { judgeInSteps } from "../../policies/index.ts";
import type { ProfileRow } from "../../profiles/index.ts";
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
} from "@keyward/x509";

interface IssuanceRequestNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly issuers: Issuers;
  readonly signing: Signing;
}

export type IssuanceRequests = ReturnType<typeof createIssuanceRequests>;

/** What an issuance request is made from, once it is known who asks under which profile or CA. */
export interface IssuanceInput {
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
  readonly isDryRun?: boolean;
  /** May the caller see the key that is used again? */
  readonly showsKey: boolean;
  readonly context: IssuanceContext;
  /** For a renewal: the certificate that it replaces. */
  readonly replaced?: Replaced;
  readonly idempotency: IssuanceRequest["idempotency"];
  /** Checks the right once more: a key may take long to make. */
  readonly requireStill?: () => Promise<unknown>;
}

interface ChainTexts {
  readonly issuing: string;
  readonly whole: string;
  readonly withoutRoot: string;
}
/** An issuer's chain is the same in every answer: encoded once. */
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

/** Every finding, though some input cannot even be encoded: its error is the finding. */
const findingsOf = (error: unknown): readonly Finding[] | undefined =>
  error instanceof Problem && error.status === 400 && Array.isArray(error.details)
    ? (error.details as Finding[])
    : undefined;

/** The names of a request times the patterns of a policy: yields to other requests meanwhile. */
async function inSteps<T>(steps: Generator<undefined, T>): Promise<T> {
  const pace = new Pace();
  const next = () => judged("attributes", () => steps.next());
  for (let step = next(); ; step = next()) {
    if (step.done) return step.value;
    if (pace.isDue()) await pace.rest();
  }
}

export function createIssuanceRequests({ db, clock, keyring, issuers, signing }: IssuanceRequestNeeds) {
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

  const keyFor = async (
    issuance: IssuanceInput,
  ): Promise<{ publicKey: Buffer; privateKey: Buffer | undefined }> => {
    if (issuance.csr) return { publicKey: issuance.csr.publicKey, privateKey: undefined };
    const algorithm = judged("keyAlgorithm", () =>
      keyAlgorithmFor({
        attributes: issuance.attributes,
        defaults: issuance.profile?.defaults ?? {},
        rules: issuance.rules,
      }),
    );
    if (issuance.key) return { publicKey: exportSpki(issuance.key), privateKey: exportPkcs8(issuance.key) };
    if (issuance.isDryRun) return { publicKey: await standInFor(algorithm), privateKey: undefined };
    const made = await makeKey(algorithm, issuance.orgId);
    if (takesTurns(algorithm)) await issuance.requireStill?.();
    return made;
  };

  const requestOf = async (issuance: IssuanceInput): Promise<IssuanceRequest> => {
    const key = await keyFor(issuance);
    const { attributes, csr, rules, issuer, replaced } = issuance;
    const now = clock.now();
    const { template, judging } = judged("attributes", () => {
      const algorithm = keyAlgorithmOf(readPublicKey(key.publicKey));
      const defaults = issuance.profile?.defaults ?? {};
      const wanted = templateOf({ attributes, csr, defaults, rules, issuer, replaced, now }, algorithm);
      const signature = wanted.signatureAlgorithm ?? issuer?.signer.algorithm ?? "";
      return { template: wanted, judging: judgeInSteps(rules, wanted, { key: algorithm, signature }) };
    });
    const policyFindings = await inSteps(judging);
    return judged("attributes", () => {
      const findings = [...policyFindings, ...timeFindings(rules, template, now)];
      const own = issuance.context;
      const renewal = issuance.profile && {
        autoRenew: (own.autoRenewal ?? issuance.profile.autoRenew) && key.privateKey !== undefined,
        renewBeforeSeconds: own.renewBeforeSeconds ?? renewBeforeSeconds(issuance.profile, template),
      };
      return {
        actor: issuance.actor,
        projectId: issuance.projectId,
        orgId: issuance.orgId,
        profileId: issuance.profile?.id ?? null,
        applicationId: issuance.applicationId,
        issuer,
        template,
        ...key,
        ...(issuance.key ? { reusesKey: true } : {}),
        keepsKey: true,
        context: { ...own, ...renewal },
        idempotency: issuance.idempotency,
        findings,
        isBlockedKey: false,
      };
    });
  };

  /** The certificate as it is in the inventory; only a retry with the same Idempotency-Key has to read it. */
  const viewOf = async (
    issued: Issued,
    request: IssuanceRequest,
    shown: { readonly removeRoot: boolean; readonly key: boolean },
  ): Promise<IssuedView> => {
    const kept = issued.der ? undefined : await db.read((q) => findCertificateById(q, issued.certificateId));
    const der = issued.der ?? kept?.der;
    if (!der) throw notFound("The certificate", issued.certificateId);
    // The CA may have another certificate by now than when a retried request was signed.
    const chain = kept?.chain ? textsOf(kept.chain) : request.issuer && chainTextsOf(request.issuer);
    const certificate = certificateToPem(der).trimEnd();
    return {
      certificate,
      issuingCaCertificate: chain?.issuing || certificate,
      certificateChain: (shown.removeRoot ? chain?.withoutRoot : chain?.whole) ?? "",
      ...(request.privateKey && shown.key
        ? { privateKey: encodePem("PRIVATE KEY", request.privateKey).trimEnd() }
        : {}),
      serialNumber: issued.serialNumber,
      certificateId: issued.certificateId,
    };
  };

  /** Every read of a private key leaves a row in the audit log before the key is sent. */
  const noteKeyRead = (actor: MemberActor, row: CertificateRow): Promise<void> =>
    db.write(async (tx) =>
      tx.audit(actor, {
        event: "read-certificate-private-key",
        orgId: row.orgId,
        projectId: row.projectId,
        metadata: { certificateId: row.id, serialNumber: row.serialNumber },
      }),
    );

  /** A retry gets the first call's certificate and key, without a new key being made. */
  const replayed = async (
    issuance: IssuanceInput,
    removeRoot: boolean,
  ): Promise<{ view: IssuedView; requestId: string } | undefined> => {
    if (!issuance.idempotency) return undefined;
    const probe: IssuanceRequest = {
      ...(await requestOf({
        ...issuance,
        attributes: { ...issuance.attributes, keyAlgorithm: "EC_prime256v1" },
      })),
      idempotency: issuance.idempotency,
    };
    const issued = await signing.replay(probe);
    if (!issued) return undefined;
    const row = await db.read((q) => findCertificateById(q, issued.certificateId));
    const key = row && (await openCertificateKey(keyring, row));
    const privateKey = key && exportPkcs8(key);
    const shown = { removeRoot, key: issuance.showsKey };
    // For a key that is used again, the renewal writes the audit row.
    if (privateKey && issuance.showsKey && !issuance.key && issuance.actor.kind !== "system")
      await noteKeyRead(issuance.actor, row);
    return { requestId: issued.requestId, view: await viewOf(issued, { ...probe, privateKey }, shown) };
  };

  const issueFor = async (
    issuance: IssuanceInput,
    removeRoot: boolean,
  ): Promise<{ view: IssuedView; requestId: string }> => {
    const earlier = await replayed(issuance, removeRoot);
    if (earlier) return earlier;
    const request = await requestOf(issuance);
    const issued = await signing.issue(request);
    if (issued.der === undefined) {
      const again = await replayed(issuance, removeRoot);
      if (again) return again;
    }
    const shown = { removeRoot, key: issuance.showsKey };
    return { requestId: issued.requestId, view: await viewOf(issued, request, shown) };
  };

  const issuerOf = (profile: ProfileRow): Promise<Issuer | null> => {
    if (profile.issuerType === "self-signed") return Promise.resolve(null);
    if (profile.authorityId === null) throw badRequest("The profile has no certificate authority.");
    return issuers.require(profile.authorityId, profile.projectId);
  };

  /** Dry run: nothing is issued; every finding is answered. */
  const dryRun = async (issuance: IssuanceInput) => {
    let known: readonly Finding[] = [];
    try {
      const request = await requestOf({ ...issuance, isDryRun: true });
      known = request.findings;
      const { findings, tbs } = await signing.dryRun(request);
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

  return { readCsr, requestOf, issueFor, replayed, dryRun, issuerOf, noteKeyRead };
}
