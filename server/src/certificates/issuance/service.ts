/**
 * What people ask the gate for: a certificate under a profile, a signature on a request, a renewal. Permission first,
 * then the wish, then the policy's findings; the rest is the gate's.
 */
import { createHash, type KeyObject } from "node:crypto";
import type { Actor, MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { badRequest, notFound } from "../../platform/problem.ts";
import { orgOf, type Permissions } from "../../permissions/index.ts";
import type { Applications } from "../applications/service.ts";
import { chainToPem } from "../authorities/model.ts";
import type { Authorities } from "../authorities/service.ts";
import type { Issuer } from "../authorities/issuers/model.ts";
import type { Issuers } from "../authorities/issuers/service.ts";
import { attributesOf, type CertificateRow } from "../inventory/model.ts";
import { makeKey } from "./keys/service.ts";
import { findCertificate, findCertificateById } from "../inventory/store/certificates.ts";
import { asRefusal, judged } from "../model.ts";
import type { PolicyRules } from "../policies/contract.ts";
import { judge } from "../policies/model.ts";
import type { Profiles } from "../profiles/service.ts";
import type { ProfileRow } from "../profiles/store.ts";
import {
  certificateToPem,
  commonNameOf,
  encodePem,
  exportPkcs8,
  exportSpki,
  hasErrors,
  keyAlgorithmOf,
  parseCsrPem,
  readPublicKey,
  verifyCsr,
  type CertificateRequest,
} from "../x509/index.ts";
import type { Attributes, IssuedView, IssueInput, RenewInput, SignInput } from "./contract.ts";
import { openCertificateKey, type Gate, type Issued } from "./gate/service.ts";
import type { Context, Order } from "./gate/model.ts";
import { attributesAgain, keyAlgorithmFor, renewBeforeSeconds, wishOf } from "./model.ts";

export interface IssuanceNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly profiles: Profiles;
  readonly applications: Applications;
  readonly authorities: Authorities;
  readonly issuers: Issuers;
  readonly gate: Gate;
}

export type Issuance = ReturnType<typeof createIssuance>;

/** What an order is made from, once it is known who asks under which profile or authority. */
interface Brief {
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
  readonly context: Context;
  readonly idempotency: Order["idempotency"];
}

/** A certificate to be replaced, and the profile it was issued under if that still exists. */
export interface Renewable {
  readonly row: CertificateRow;
  readonly profile: ProfileRow | null;
  readonly idempotency: Order["idempotency"];
}

const digestOf = (input: unknown): Buffer => createHash("sha256").update(JSON.stringify(input)).digest();

interface ChainTexts {
  readonly issuing: string;
  readonly whole: string;
  readonly withoutRoot: string;
}
/** An issuer's chain is the same in every answer: written down once. */
const chainTexts = new WeakMap<Issuer, ChainTexts>();
function chainTextsOf(issuer: Issuer): ChainTexts {
  const known = chainTexts.get(issuer);
  if (known) return known;
  const [first] = issuer.chain;
  const made = {
    issuing: first ? certificateToPem(first).trimEnd() : "",
    whole: chainToPem(issuer.chain),
    withoutRoot: chainToPem(issuer.chain.slice(0, -1)),
  };
  chainTexts.set(issuer, made);
  return made;
}

export function createIssuance(needs: IssuanceNeeds) {
  const { db, clock, keyring, profiles, issuers, gate } = needs;

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
    return brief.key
      ? { publicKey: exportSpki(brief.key), privateKey: exportPkcs8(brief.key) }
      : makeKey(algorithm);
  };

  const orderOf = async (brief: Brief): Promise<Order> => {
    const key = await keyFor(brief);
    return judged("attributes", () => {
      const algorithm = keyAlgorithmOf(readPublicKey(key.publicKey));
      const { attributes, csr, rules, issuer } = brief;
      const wish = wishOf(
        { attributes, csr, defaults: brief.profile?.defaults ?? {}, rules, issuer, now: clock.now() },
        algorithm,
      );
      const signature = wish.signatureAlgorithm ?? issuer?.signer.algorithm ?? "";
      const findings = judge(rules, wish, { key: algorithm, signature });
      const renewal = brief.profile && {
        autoRenew: brief.profile.autoRenew && key.privateKey !== undefined,
        renewBeforeSeconds: renewBeforeSeconds(brief.profile, wish),
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
        keepsKey: true,
        context: { ...renewal, ...brief.context },
        idempotency: brief.idempotency,
        findings,
        isBlockedKey: false,
      };
    });
  };

  /** The certificate as it is in the inventory; only a repeat under the same key has to look. */
  const viewOf = async (issued: Issued, order: Order, removeRoot: boolean): Promise<IssuedView> => {
    const chain = order.issuer && chainTextsOf(order.issuer);
    const der = issued.der ?? (await db.read((q) => findCertificateById(q, issued.certificateId)))?.der;
    if (!der) throw notFound("The certificate", issued.certificateId);
    const certificate = certificateToPem(der).trimEnd();
    return {
      certificate,
      issuingCaCertificate: chain?.issuing || certificate,
      certificateChain: (removeRoot ? chain?.withoutRoot : chain?.whole) ?? "",
      ...(order.privateKey ? { privateKey: encodePem("PRIVATE KEY", order.privateKey).trimEnd() } : {}),
      serialNumber: issued.serialNumber,
      certificateId: issued.certificateId,
    };
  };

  const privateKeyOf = (row: CertificateRow) => openCertificateKey(keyring, row);

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
    const key = row && (await privateKeyOf(row));
    const privateKey = key && exportPkcs8(key);
    return { requestId: issued.requestId, view: await viewOf(issued, { ...probe, privateKey }, removeRoot) };
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
    return { requestId: issued.requestId, view: await viewOf(issued, order, removeRoot) };
  };

  const issuerOf = (profile: ProfileRow): Promise<Issuer | null> => {
    if (profile.issuerType === "self-signed") return Promise.resolve(null);
    if (profile.authorityId === null) throw badRequest("The profile has no certificate authority.");
    return issuers.require(profile.authorityId, profile.projectId);
  };

  const applicationOf = async (
    actor: MemberActor,
    profile: ProfileRow,
    id: string | null | undefined,
  ): Promise<string | null> => {
    if (!id) return null;
    const application = await needs.applications.find(actor, id, "read");
    if (application.projectId !== profile.projectId) throw notFound("The application", id);
    return id;
  };

  const keyed = (
    actor: MemberActor,
    what: string,
    key: string | undefined,
    input: unknown,
  ): Order["idempotency"] =>
    key === undefined ? undefined : { key: `${actor.id}:${what}:${key}`, digest: digestOf(input) };

  const briefOf = async (actor: MemberActor, input: IssueInput, key: string | undefined): Promise<Brief> => {
    const profile = await profiles.find(actor, input.profileId, "issue-cert");
    const applicationId = await applicationOf(actor, profile, input.applicationId);
    const [csr, issuer] = [await readCsr(input.csr), await issuerOf(profile)];
    return {
      actor,
      projectId: profile.projectId,
      orgId: profile.orgId,
      profile,
      applicationId,
      issuer,
      rules: profile.policyRules,
      attributes: input.attributes ?? {},
      csr,
      key: undefined,
      context: { friendlyName: input.friendlyName, metadata: input.metadata },
      idempotency: keyed(actor, "issue", key, input),
    };
  };

  /** Renews in somebody's name: theirs when they ask, the house's when it is due. */
  const renewRow = async (actor: Actor, old: Renewable, input: RenewInput) => {
    const { row, profile } = old;
    if (row.revokedAt !== null) throw badRequest("A revoked certificate cannot be renewed.");
    if (row.renewedById !== null)
      throw badRequest(`The certificate was renewed already, by ${row.renewedById}.`);
    const source = input.renewalKeySource ?? (input.csr ? "csr" : "new");
    const key = source === "reuse" ? await privateKeyOf(row) : undefined;
    if (source === "reuse" && !key) throw badRequest("The private key is not kept here: renew with a csr.");
    const csr = await readCsr(source === "csr" ? input.csr : undefined);
    if (source === "csr" && !csr) throw badRequest("Renewal by request needs csr.");
    if (source === "new" && row.sealedKey === null)
      throw badRequest("The private key was made elsewhere: renew with a csr.");
    const issuer = profile
      ? await issuerOf(profile)
      : row.authorityId === null
        ? null
        : await issuers.require(row.authorityId, row.projectId);
    const brief: Brief = {
      actor,
      projectId: row.projectId,
      orgId: row.orgId,
      profile,
      applicationId: row.applicationId,
      issuer,
      rules: profile?.policyRules ?? {},
      attributes: { ...attributesAgain(row, csr !== undefined), ...input.attributes },
      csr,
      key,
      context: {
        friendlyName: row.details.friendlyName,
        metadata: row.details.metadata,
        renewedFromId: row.id,
      },
      idempotency: old.idempotency,
    };
    return issueFor(brief, input.removeRootsFromChain);
  };

  return {
    async issue(actor: MemberActor, input: IssueInput, idempotencyKey: string | undefined) {
      const brief = await briefOf(actor, input, idempotencyKey);
      if (input.dryRun) {
        const { findings, tbs } = await gate.rehearse(await orderOf(brief));
        return {
          certificate: null,
          dryRun: {
            wouldIssue: !hasErrors(findings),
            findings: [...findings],
            toBeSigned: tbs.toString("base64"),
          },
        };
      }
      const { view, requestId } = await issueFor(
        brief,
        input.removeRootsFromChain || input.attributes?.removeRootsFromChain === true,
      );
      return {
        certificate: view,
        certificateRequestId: requestId,
        status: "issued" as const,
        message: "The certificate was issued.",
      };
    },

    async renew(actor: MemberActor, id: string, input: RenewInput, idempotencyKey: string | undefined) {
      const row = await db.read((q) => findCertificate(q, orgOf(actor), id));
      if (!row) throw notFound("The certificate", id);
      const profile = row.profileId === null ? null : await profiles.find(actor, row.profileId, "issue-cert");
      if (!profile)
        await needs.permissions.requireInProject(actor, row.projectId, {
          action: "create",
          subject: "certificates",
          attributes: attributesOf(row, clock.now()),
        });
      const idempotency = keyed(actor, `renew:${id}`, idempotencyKey, input);
      const { view, requestId } = await renewRow(actor, { row, profile, idempotency }, input);
      return { ...view, certificateRequestId: requestId };
    },

    renewRow,

    /** For clients that name an authority instead of a profile; no policy stands between, so the right to create is asked. */
    async sign(actor: MemberActor, input: SignInput, idempotencyKey: string | undefined) {
      if (input.certificateTemplateId) {
        const attributes = {
          ttl: input.ttl,
          notBefore: input.notBefore,
          notAfter: input.notAfter,
          commonName: input.commonName,
        };
        const asked: IssueInput = {
          profileId: input.certificateTemplateId,
          csr: input.csr,
          attributes,
          removeRootsFromChain: false,
          dryRun: false,
        };
        return (await issueFor(await briefOf(actor, asked, idempotencyKey), false)).view;
      }
      if (!input.caId) throw badRequest("Send caId or certificateTemplateId.");
      const authority = await needs.authorities.find(actor, input.caId, "read");
      const csr = await readCsr(input.csr);
      const attributes = {
        ttl: input.ttl,
        notBefore: input.notBefore,
        notAfter: input.notAfter,
        commonName: input.commonName,
      };
      const brief: Brief = {
        actor,
        projectId: authority.projectId,
        orgId: authority.orgId,
        profile: null,
        applicationId: null,
        issuer: await issuers.require(authority.id, authority.projectId),
        rules: {},
        attributes,
        csr,
        key: undefined,
        context: { friendlyName: input.friendlyName },
        idempotency: keyed(actor, "sign", idempotencyKey, input),
      };
      const { wish } = await orderOf(brief);
      const altNames = wish.altNames.flatMap(({ value }) => (typeof value === "string" ? [value] : []));
      const names = {
        commonName: commonNameOf(wish.subject) ?? "",
        altNames,
        friendlyName: input.friendlyName ?? "",
      };
      await needs.permissions.requireInProject(actor, authority.projectId, {
        action: "create",
        subject: "certificates",
        attributes: names,
      });
      return (await issueFor(brief, false)).view;
    },
  };
}
