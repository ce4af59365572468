/**
 * CAs as signers. Importing a private key costs as much as ten signatures, so a loaded issuer is cached until a fact says
 * that its project's issuance changed or a certificate of its chain was revoked; at rest the key is encrypted.
 */
import type { Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db/index.ts";
import type { Keyring, EncryptionContext } from "../platform/crypto/index.ts";
import { createFactCache, type Tail } from "../platform/outbox/index.ts";
import { badRequest, notFound } from "../platform/problem.ts";
import { projectDeleted } from "../projects/index.ts";
import { certificateRevoked, certificateReleased, issuanceChanged } from "../certificates/events.ts";
import { isBlockedKey } from "./store.ts";
import {
  accessExtension,
  authorityExtension,
  levelsBelow,
  purposesLeft,
  type Issuer,
} from "./issuers.model.ts";
import { findActiveIssuer, findIssuerOfKey, findLineage, type IssuerRow } from "./issuers.store.ts";
import {
  defaultSignatureAlgorithm,
  importPrivateKey,
  parseCertificate,
  type NameConstraints,
} from "@keyward/x509";

interface IssuerNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly tail: Tail;
  readonly keyring: Keyring;
  /** Base URL of CRLs, OCSP and CA certificates. */
  readonly revocationUrl: string;
}

export const authorityKeyContext = (keyId: string): EncryptionContext => ({
  table: "authority_keys",
  row: keyId,
  column: "sealed_key",
});

export type Issuers = ReturnType<typeof createIssuers>;

const CACHED_ISSUERS = 2_000;

export function createIssuers({ db, clock, tail, keyring, revocationUrl }: IssuerNeeds) {
  const cache = createFactCache<Issuer>(tail, CACHED_ISSUERS, ({ lineage }) => lineage);
  tail.onInvalidate((fact) => {
    if (certificateRevoked.is(fact) || certificateReleased.is(fact)) cache.dropGroup(fact.data.certificateId);
    if (issuanceChanged.is(fact) || projectDeleted.is(fact))
      cache.dropWhere((issuer) => issuer.projectId === fact.data.projectId);
  });

  const open = async (row: IssuerRow): Promise<Issuer> => {
    const dataKey = await keyring.dataKeyById(row.dataKeyId);
    const key = importPrivateKey(dataKey.decrypt(row.sealedKey, authorityKeyContext(row.keyId)));
    const certificate = parseCertificate(row.der);
    const known = [certificate, ...row.chain.map(parseCertificate)];
    const constraints = known
      .map((each) => each.extensions.nameConstraints)
      .filter((each): each is NameConstraints => each !== undefined);
    const [line, isBlocked] = await db.read((q) =>
      Promise.all([findLineage(q, known), isBlockedKey(q, row.orgId, certificate.publicKey)]),
    );
    return {
      ...row,
      lineage: line.map(({ id }) => id),
      revokedName: line.find(({ isRevoked }) => isRevoked)?.commonName,
      isBlocked,
      isUsable: row.status === "active" && !row.isDeleted,
      certificate,
      chain: [row.der, ...row.chain],
      constraints,
      levelsBelow: levelsBelow(known),
      purposes: purposesLeft(known),
      signer: { key, algorithm: defaultSignatureAlgorithm(key) },
      keyIdentifierExtension: authorityExtension(certificate),
      accessExtension: accessExtension(revocationUrl, row.keyId, row.certificateId),
    };
  };

  /** It exists and is active, yet nobody would accept what it issues. */
  const whyUnfit = ({ revokedName, isBlocked, certificate }: Issuer): string | undefined => {
    if (revokedName !== undefined)
      return `a revoked certificate stands in its chain, that of "${revokedName}". Renew the authority or make another of its certificates active.`;
    if (isBlocked) return "its key is compromised. Renew it with a new key.";
    return certificate.notAfter <= clock.now()
      ? `its certificate expired on ${certificate.notAfter.toISOString()}. Renew it.`
      : undefined;
  };

  return {
    revocationUrl,

    /** For issuing: it must exist in the project, have a valid certificate, and be active. */
    async require(authorityId: string, projectId: string): Promise<Issuer> {
      const issuer = await cache.get(authorityId, async () => {
        const row = await db.read((q) => findActiveIssuer(q, authorityId));
        return row && open(row);
      });
      if (!issuer)
        throw badRequest(
          "The certificate authority has no certificate yet: give it one before it can issue.",
        );
      if (issuer.projectId !== projectId) throw notFound("The certificate authority", authorityId);
      if (!issuer.isUsable)
        throw badRequest(
          `The certificate authority ${issuer.name} does not issue: it is disabled or deleted.`,
        );
      const why = whyUnfit(issuer);
      if (why !== undefined)
        throw badRequest(`The certificate authority ${issuer.name} does not issue: ${why}`);
      return issuer;
    },

    /** For CRLs and OCSP: also when it is disabled, deleted or has a newer key. */
    ofKey: (keyId: string): Promise<Issuer | undefined> =>
      cache.get(`key:${keyId}`, async () => {
        const row = await db.read((q) => findIssuerOfKey(q, keyId));
        return row && open(row);
      }),
  };
}
