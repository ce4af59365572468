/**
 * The OCSP responder (RFC 6960, RFC 5019). Responses are signed by a delegated responder key, so the
 * CA's own key is not used; they are cached for as long as they are true: a revocation drops them on
 * every node at once.
 */
import { LRUCache } from "lru-cache";
import { systemActor } from "../platform/actor.ts";
import { requireTrustedClock, type Clock } from "../platform/clock.ts";
import type { Keyring, EncryptionContext } from "../platform/crypto/index.ts";
import type { Db } from "../platform/db/index.ts";
import type { Log } from "../platform/log.ts";
import { Touches, type Tail, type TopicWatch } from "../platform/outbox/index.ts";
import { certificateRevoked, certificateReleased } from "../certificates/events.ts";
import { SMALL_STEP_MS } from "./model.ts";
import { findSigner, findStatus, storeSigner, type SignerRow } from "./store.ts";
import { canDelegate, type Issuer, type Issuers, type Signing } from "../signing/index.ts";
import { addSeconds, beginning, latest, toSecond } from "../certificates/index.ts";
import {
  DerError,
  defaultSignatureAlgorithm,
  exportPkcs8,
  exportSpki,
  generateKeys,
  importPrivateKey,
  isIssuedBy,
  issuerHashes,
  makeResponder,
  nameFrom,
  ocspError,
  ocspNoCheck,
  parseCertificate,
  parseOcspRequest,
  reasonOfCode,
  signOcspResponse,
  X509Error,
  type CertId,
  type OcspRequest,
  type OcspResponder,
  type SingleAnswer,
} from "@keyward/x509";

interface OcspNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly tail: Tail;
  readonly keyring: Keyring;
  readonly issuers: Issuers;
  readonly signing: Signing;
}

export interface OcspReply {
  readonly body: Buffer;
  /** Absent for responses that must not be cached: errors and those with a nonce. */
  readonly thisUpdate?: Date;
  readonly nextUpdate?: Date;
}

export type Ocsp = ReturnType<typeof createOcsp>;

const SIGNER_LIFE_SECONDS = 30 * 86_400;
const ANSWER_LIFE_SECONDS = 3_600;
const REMEMBERED_ANSWERS = 100_000;
const REMEMBERED_SIGNERS = 1_000;

interface Remembered extends OcspReply {
  readonly certificateId: string | undefined;
  readonly keepUntil: number;
}
interface Responder {
  readonly responder: OcspResponder;
  readonly renewAt: number;
}

const signerPlace = (keyId: string): EncryptionContext => ({
  table: "ocsp_signers",
  row: keyId,
  column: "sealed_key",
});

export function createOcsp({ db, clock, log, tail, keyring, issuers, signing }: OcspNeeds) {
  let latestAnswer = Number.NEGATIVE_INFINITY;
  const answers = new LRUCache<string, Remembered>({ max: REMEMBERED_ANSWERS });
  const byCertificate = new Map<string, Set<string>>();
  const responders = new LRUCache<string, Responder>({ max: REMEMBERED_SIGNERS });
  const opening = new Map<string, Promise<Responder>>();

  // A response whose status was read before a change and signed after it is sent, not cached.
  const touches = new Touches();
  const forget = (certificateId: string): void => {
    touches.touch(certificateId);
    for (const key of byCertificate.get(certificateId) ?? []) answers.delete(key);
    byCertificate.delete(certificateId);
  };
  tail.onInvalidate((fact) => {
    if (certificateRevoked.is(fact) || certificateReleased.is(fact)) forget(fact.data.certificateId);
  });
  const forgetAll = (): void => {
    touches.touchAll();
    answers.clear();
    byCertificate.clear();
  };
  tail.onReconnect(forgetAll);

  const delegate = async (issuer: Issuer): Promise<SignerRow> => {
    const { publicKey, privateKey } = await generateKeys("EC_prime256v1");
    const now = clock.now();
    const notBefore = beginning(now, SIGNER_LIFE_SECONDS, issuer.certificate.notBefore);
    const wished = addSeconds(toSecond(now), SIGNER_LIFE_SECONDS);
    const notAfter = issuer.certificate.notAfter < wished ? issuer.certificate.notAfter : wished;
    const issued = await signing.issue({
      actor: systemActor("ocsp"),
      projectId: issuer.projectId,
      orgId: issuer.orgId,
      profileId: null,
      applicationId: null,
      issuer,
      template: {
        subject: nameFrom({ commonName: `OCSP ${issuer.keyId.slice(-12)}` }),
        altNames: [],
        keyUsages: ["digital_signature"],
        extendedKeyUsages: ["ocsp_signing"],
        isCa: false,
        pathLength: undefined,
        nameConstraints: undefined,
        notBefore,
        notAfter,
        signatureAlgorithm: undefined,
        extensions: [ocspNoCheck()],
      },
      publicKey: exportSpki(publicKey),
      privateKey: exportPkcs8(privateKey),
      keepsKey: false,
      isInternal: true,
      context: { friendlyName: "OCSP responder" },
      idempotency: undefined,
      findings: [],
      isBlockedKey: false,
    });
    const dataKey = await keyring.dataKeyOf({ projectId: issuer.projectId });
    const row = {
      der: issued.der ?? Buffer.alloc(0),
      dataKeyId: dataKey.keyId,
      sealedKey: dataKey.encrypt(exportPkcs8(privateKey), signerPlace(issuer.keyId)),
      notAfter,
    };
    await db.write(async (tx) => storeSigner(tx, issuer.keyId, row), { audited: false });
    return row;
  };

  /** The CA itself where it cannot delegate any more: it has expired, or its names or its chain allow no responder. */
  const ownResponder = (issuer: Issuer, forSeconds = ANSWER_LIFE_SECONDS): Responder => ({
    responder: makeResponder(issuer.signer, issuer.certificate.publicKey, []),
    renewAt: clock.millis() + forSeconds * 1000,
  });

  /** What is kept, if it lasts; one that ends with its authority is kept to the end, since no other would last longer. */
  const signerFor = async (issuer: Issuer, now: Date): Promise<SignerRow> => {
    const known = await db.read((q) => findSigner(q, issuer.keyId));
    const isLasting =
      known !== undefined &&
      (known.notAfter > addSeconds(now, SIGNER_LIFE_SECONDS / 2) ||
        known.notAfter >= issuer.certificate.notAfter);
    return isLasting ? known : delegate(issuer);
  };

  const openResponder = async (issuer: Issuer): Promise<Responder> => {
    const now = clock.now();
    if (issuer.certificate.notAfter <= addSeconds(now, 60) || !canDelegate(issuer, now))
      return ownResponder(issuer);
    const row = await signerFor(issuer, now).catch((error: unknown) => {
      const reason = (error as Error).message;
      log.warn(
        { keyId: issuer.keyId, reason },
        "no OCSP responder could be made; the authority answers itself",
      );
    });
    if (!row) return ownResponder(issuer, 60);
    const key = importPrivateKey(
      (await keyring.dataKeyById(row.dataKeyId)).decrypt(row.sealedKey, signerPlace(issuer.keyId)),
    );
    const certificate = parseCertificate(row.der);
    const halfway = row.notAfter.getTime() - (SIGNER_LIFE_SECONDS / 2) * 1000;
    const responder = makeResponder(
      { key, algorithm: defaultSignatureAlgorithm(key) },
      certificate.publicKey,
      [certificate.der],
    );
    return { responder, renewAt: Math.max(halfway, clock.millis() + 60_000) };
  };

  const responderOf = async (issuer: Issuer): Promise<OcspResponder> => {
    const known = responders.get(issuer.keyId);
    if (known && clock.millis() < known.renewAt) return known.responder;
    const running =
      opening.get(issuer.keyId) ?? openResponder(issuer).finally(() => opening.delete(issuer.keyId));
    opening.set(issuer.keyId, running);
    const made = await running;
    responders.set(issuer.keyId, made);
    return made.responder;
  };

  const isAbout = (certId: CertId, issuer: Issuer): boolean =>
    certId.hash !== undefined &&
    isIssuedBy(
      certId,
      issuerHashes(issuer.certificate.subject.der, issuer.certificate.publicKey, certId.hash),
    );

  const answerOne = async (
    certId: CertId,
    issuer: Issuer,
    validity: { readonly thisUpdate: Date; readonly nextUpdate: Date },
  ): Promise<{ answer: SingleAnswer; certificateId: string | undefined }> => {
    const times = { certId: certId.der, ...validity };
    const row = isAbout(certId, issuer)
      ? await db.read((q) => findStatus(q, issuer.keyId, certId.serialNumber))
      : undefined;
    if (!row) return { answer: { status: "unknown", ...times }, certificateId: undefined };
    if (row.revokedAt === null) return { answer: { status: "good", ...times }, certificateId: row.id };
    const reason = reasonOfCode(row.revocationReason ?? 0) ?? "UNSPECIFIED";
    return {
      // Nobody has known of it before it happened.
      answer: {
        ...times,
        status: "revoked",
        revokedAt: row.revokedAt,
        reason,
        thisUpdate: latest(validity.thisUpdate, row.revokedAt),
      },
      certificateId: row.id,
    };
  };

  const answer = async (request: OcspRequest, issuer: Issuer): Promise<Remembered> => {
    // First of all: making one takes time, and the status must not become stale meanwhile.
    const responder = await responderOf(issuer);
    requireTrustedClock(clock);
    // A clock may be set back a little; what was said of a certificate does not become younger by that.
    const now = clock.millis();
    latestAnswer = latestAnswer - now > SMALL_STEP_MS ? now : Math.max(latestAnswer, now);
    const producedAt = toSecond(new Date(latestAnswer));
    const thisUpdate = beginning(producedAt, ANSWER_LIFE_SECONDS);
    const nextUpdate = addSeconds(producedAt, ANSWER_LIFE_SECONDS);
    const singles = await Promise.all(
      request.certIds.map((certId) => answerOne(certId, issuer, { thisUpdate, nextUpdate })),
    );
    const reply = {
      producedAt,
      answers: singles.map((each) => each.answer),
      ...(request.nonce ? { nonce: request.nonce } : {}),
    };
    const body = await signOcspResponse(reply, responder);
    const keepUntil = clock.millis() + (ANSWER_LIFE_SECONDS * 1000) / 2;
    return {
      body,
      thisUpdate,
      nextUpdate,
      certificateId: singles[0]?.certificateId,
      keepUntil,
    };
  };

  const remember = (key: string, made: Remembered, watch: TopicWatch): void => {
    if (made.certificateId === undefined || touches.isTouched(watch, [made.certificateId])) return;
    answers.set(key, made);
    const keys = byCertificate.get(made.certificateId) ?? new Set();
    byCertificate.set(made.certificateId, keys.add(key));
    if (byCertificate.size > 2 * REMEMBERED_ANSWERS) forgetAll();
  };

  return {
    async respond(keyId: string, bytes: Buffer | undefined): Promise<OcspReply> {
      const issuer = await issuers.ofKey(keyId);
      if (!issuer) return { body: ocspError("unauthorized") };
      let request: OcspRequest;
      try {
        request = parseOcspRequest(bytes ?? Buffer.alloc(0));
      } catch (error) {
        if (error instanceof DerError || error instanceof X509Error)
          return { body: ocspError("malformedRequest") };
        throw error;
      }
      if (request.nonce !== undefined || request.certIds.length !== 1) {
        const { body } = await answer(request, issuer);
        return { body };
      }
      const key = `${keyId}:${request.certIds[0]?.der.toString("base64") ?? ""}`;
      const known = tail.isFresh() ? answers.get(key) : undefined;
      if (
        known &&
        clock.millis() < known.keepUntil &&
        known.thisUpdate !== undefined &&
        known.thisUpdate <= clock.now()
      )
        return known;
      const watch = touches.begin();
      try {
        const made = await answer(request, issuer);
        remember(key, made, watch);
        return made;
      } finally {
        touches.end(watch);
      }
    },
  };
}
