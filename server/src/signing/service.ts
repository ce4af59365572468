/**
 * The only way to the signer. Every request for a certificate (the API, a renewal, a CA for itself, later
 * ACME and EST) is an issuance request here, and nothing else holds a signer:
 *
 *   policy → TBS with a fresh serial number → name constraints and lint → record → sign → compare → store, with the facts
 *
 * The record is committed before the signer is called and holds exactly the bytes to be signed. If the process dies
 * anywhere, every signature that may exist is of bytes that the database has; and a caller who retries
 * with the same Idempotency-Key gets the certificate of those same bytes, signed now or then.
 */
import type { KeyObject } from "node:crypto";
import type { Actor } from "../platform/actor.ts";
import { requireTrustedClock, type Clock } from "../platform/clock.ts";
import type { Keyring, EncryptionContext } from "../platform/crypto/index.ts";
import { isUniqueViolation, type Db, type WriteTx, type Tx } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { conflict, invalidField } from "../platform/problem.ts";
import { certificateIssued, certificateRenewed } from "../certificates/events.ts";
import { shardOf, type Issuer } from "./issuers.model.ts";
import type { Issuers } from "./issuers.ts";
import {
  prepareTbs,
  inventoryFacts,
  renewalTime,
  type PreparedTbs,
  type InventoryFacts,
  type IssuanceRequest,
} from "./model.ts";
import {
  addCertificate,
  findRequestByKey,
  insertRequest,
  failRequest,
  isBlockedKey,
  linkSuccessor,
  settleRequest,
  type NewCertificate,
  type NewRequest,
} from "./store.ts";
import { judged, refused } from "../certificates/index.ts";
import {
  checkTbsMatches,
  hasErrors,
  importPrivateKey,
  readTbs,
  schemeOfIdentifier,
  signTbs,
  type SigningKey,
  type TbsCertificate,
} from "@keyward/x509";

interface SigningNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly issuers: Issuers;
}

export interface Issued {
  readonly requestId: string;
  readonly certificateId: string;
  readonly serialNumber: string;
  /** Undefined when an earlier call under the same key has stored it already. */
  readonly der: Buffer | undefined;
}

export const certificateKeyContext = (certificateId: string): EncryptionContext => ({
  table: "certificates",
  row: certificateId,
  column: "private_key",
});

/** The private key of a certificate whose key is stored here. The caller is responsible for permission and audit. */
export async function openCertificateKey(
  keyring: Keyring,
  row: { readonly id: string; readonly dataKeyId: string | null; readonly sealedKey: Buffer | null },
): Promise<KeyObject | undefined> {
  if (row.dataKeyId === null || row.sealedKey === null) return undefined;
  const dataKey = await keyring.dataKeyById(row.dataKeyId);
  return importPrivateKey(dataKey.decrypt(row.sealedKey, certificateKeyContext(row.id)));
}

export type Signing = ReturnType<typeof createSigning>;

type Recorded = Omit<NewRequest, "idempotencyKey">;
interface Signed {
  readonly der: Buffer;
  readonly parsed: TbsCertificate;
}

/**
 * Of several renewals of one certificate at the same time, the first to be stored is its successor; and none is where
 * a revocation came first: it would undo the revocation.
 */
class AlreadyReplaced extends Error {}

async function succeed(
  tx: Tx,
  { certificateId, replacedId, at }: { certificateId: string; replacedId: string; at: Date },
): Promise<void> {
  if (!(await linkSuccessor(tx, replacedId, certificateId, at)))
    throw new AlreadyReplaced("The certificate was renewed or revoked by somebody else at the same time.");
}

const keyReused = () =>
  invalidField(["Idempotency-Key"], "this Idempotency-Key was used for another request");

export function createSigning({ db, clock, keyring, issuers }: SigningNeeds) {
  const record = async (request: IssuanceRequest, made: PreparedTbs): Promise<Recorded> => {
    const certificateId = newId(clock.millis());
    const dataKey =
      request.keepsKey && request.privateKey
        ? await keyring.dataKeyOf({ projectId: request.projectId })
        : undefined;
    const sealedKey =
      dataKey && request.privateKey
        ? dataKey.encrypt(request.privateKey, certificateKeyContext(certificateId))
        : null;
    const row: NewRequest = {
      id: newId(clock.millis()),
      projectId: request.projectId,
      profileId: request.profileId,
      applicationId: request.applicationId,
      authorityId: request.issuer?.authorityId ?? null,
      authorityCertificateId: request.issuer?.certificateId ?? null,
      certificateId,
      serialNumber: made.serialNumber,
      tbs: made.tbs,
      context: request.context,
      dataKeyId: dataKey?.keyId ?? null,
      sealedKey,
      idempotencyKey: request.idempotency?.key ?? null,
      requestDigest: request.idempotency?.digest ?? null,
      createdAt: clock.now(),
    };
    await db.groupCommit((tx) => insertRequest(tx, row), { audited: false });
    return row;
  };

  const rowOf = (
    row: Recorded,
    made: { der: Buffer; issuer: Issuer | null; facts: InventoryFacts; at: Date },
  ): NewCertificate => {
    const { issuer, facts } = made;
    const context = row.context ?? {};
    const { friendlyName, metadata = [], renewBeforeSeconds, autoRenewal } = context;
    return {
      id: row.certificateId,
      projectId: row.projectId,
      profileId: row.profileId,
      applicationId: row.applicationId,
      authorityId: row.authorityId,
      authorityKeyId: issuer?.keyId ?? null,
      authorityCertificateId: row.authorityCertificateId,
      renewedFromId: context.renewedFromId ?? null,
      renewAt: renewalTime(facts, context),
      crlShard: issuer ? shardOf(row.serialNumber, issuer.crlShards) : null,
      source: "issued",
      at: made.at,
      facts,
      details: { ...facts.details, friendlyName, metadata, renewBeforeSeconds, autoRenewal },
      der: made.der,
      chain: null,
      dataKeyId: row.dataKeyId,
      sealedKey: row.sealedKey,
    };
  };

  const store = async (
    row: Recorded,
    { der, parsed }: Signed,
    issuer: Issuer | null,
    who: { readonly actor: Actor; readonly orgId: string; readonly isInternal?: boolean },
  ): Promise<Issued> => {
    const tbs = row.tbs ?? Buffer.alloc(0);
    const facts = inventoryFacts(tbs, parsed);
    const at = clock.now();
    const data = { orgId: who.orgId, projectId: row.projectId, certificateId: row.certificateId };
    const issued = { requestId: row.id, certificateId: row.certificateId, serialNumber: row.serialNumber };
    const replacedId = row.context?.renewedFromId;
    const settle = (tx: WriteTx): void => {
      if (who.isInternal !== true) addCertificate(tx, rowOf(row, { der, issuer, facts, at }));
      settleRequest(tx, row.id, at);
      tx.audit(who.actor, {
        event: replacedId === undefined ? "issue-certificate" : "renew-certificate",
        orgId: who.orgId,
        projectId: row.projectId,
        metadata: {
          certificateId: row.certificateId,
          serialNumber: row.serialNumber,
          commonName: facts.commonName,
          profileId: row.profileId,
        },
      });
      if (who.isInternal === true) return;
      tx.emit(
        replacedId === undefined ? certificateIssued(data) : certificateRenewed({ ...data, replacedId }),
      );
    };
    try {
      if (replacedId === undefined) await db.groupCommit(settle);
      else await db.write((tx) => succeed(tx, { ...issued, replacedId, at }).then(() => settle(tx)));
    } catch (error) {
      // Two calls under one key finished the same request at the same moment: the first one's signature counts.
      if (isUniqueViolation(error, "certificates_pkey")) return { ...issued, der: undefined };
      if (error instanceof AlreadyReplaced) {
        await db.write(async (tx) => failRequest(tx, row.id, error.message, at), { audited: false });
        throw conflict(error.message);
      }
      throw error;
    }
    return { ...issued, der };
  };

  const sign = async (row: Recorded, signer: SigningKey, read?: TbsCertificate): Promise<Signed> => {
    requireTrustedClock(clock);
    const tbs = row.tbs ?? Buffer.alloc(0);
    const parsed = read ?? readTbs(tbs);
    const der = await signTbs(tbs, signer);
    checkTbsMatches(der, tbs, parsed);
    return { der, parsed };
  };

  const signerFor = async (
    row: Recorded,
    { issuer, privateKey, ...request }: IssuanceRequest,
  ): Promise<SigningKey> => {
    const { algorithmIdentifier, publicKey } = readTbs(row.tbs ?? Buffer.alloc(0));
    const algorithm = schemeOfIdentifier(algorithmIdentifier)?.name;
    if (algorithm === undefined) throw new Error("a recorded request names an unknown algorithm");
    if (issuer) return { key: issuer.signer.key, algorithm };
    // A CA's own key is not stored with the request: the retry brings it along, unless it was to be a new one.
    if (privateKey && request.publicKey.equals(publicKey))
      return { key: importPrivateKey(privateKey), algorithm };
    if (row.dataKeyId === null || row.sealedKey === null)
      throw conflict(
        "The earlier request under this Idempotency-Key is underway or was interrupted, and its key is not kept: ask again later, or under another one.",
      );
    const dataKey = await keyring.dataKeyById(row.dataKeyId);
    return {
      key: importPrivateKey(dataKey.decrypt(row.sealedKey, certificateKeyContext(row.certificateId))),
      algorithm,
    };
  };

  /** Finishes what an earlier call under the same key began. */
  const resume = async (request: IssuanceRequest, digest: Buffer): Promise<Issued | undefined> => {
    const known =
      request.idempotency &&
      (await db.read((q) => findRequestByKey(q, request.projectId, request.idempotency?.key ?? "")));
    if (!known) return undefined;
    if (known.requestDigest === null || !known.requestDigest.equals(digest)) throw keyReused();
    const answer = {
      requestId: known.id,
      certificateId: known.certificateId,
      serialNumber: known.serialNumber,
    };
    if (known.status === "issued") return { ...answer, der: undefined };
    if (known.tbs === null)
      throw conflict(
        `The earlier request under this Idempotency-Key failed: ${known.error ?? "it was interrupted."}`,
      );
    const issuer = request.issuer;
    if ((issuer?.certificateId ?? null) !== known.authorityCertificateId)
      throw conflict(
        "The authority's certificate changed since the request under this Idempotency-Key began.",
      );
    return store(known, await sign(known, await signerFor(known, request)), issuer, request);
  };

  const prepare = async (request: IssuanceRequest): Promise<PreparedTbs> => {
    // A key made a moment ago cannot be on the list of compromised keys.
    const isBlocked =
      (request.privateKey === undefined || request.reusesKey === true) &&
      (await db.read((q) => isBlockedKey(q, request.orgId, request.publicKey)));
    return judged("certificate", () =>
      prepareTbs({ ...request, isBlockedKey: isBlocked }, issuers.revocationUrl),
    );
  };

  return {
    /** Dry run: what would be signed and all findings; nothing is recorded. */
    dryRun: prepare,

    /** What an earlier call under this key led to, before any key is made again. */
    replay: (request: IssuanceRequest): Promise<Issued | undefined> =>
      request.idempotency ? resume(request, request.idempotency.digest) : Promise.resolve(undefined),

    async issue(request: IssuanceRequest): Promise<Issued> {
      requireTrustedClock(clock);
      const made = await prepare(request);
      if (hasErrors(made.findings)) throw refused(made.findings);
      let row: Recorded;
      try {
        row = await record(request, made);
      } catch (error) {
        if (request.idempotency && isUniqueViolation(error, "certificate_requests_idempotent")) {
          const earlier = await resume(request, request.idempotency.digest);
          // Its key is the recorded one, not the one of this issuance request: the caller has to check.
          if (earlier) return { ...earlier, der: undefined };
        }
        throw error;
      }
      return store(row, await sign(row, made.signer, made.parsed), request.issuer, request);
    },
  };
}
