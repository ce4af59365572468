/** An authority's own certificates: issued here by itself or by a parent, taken in from outside, renewed. */
import type { KeyObject } from "node:crypto";
import type { MemberActor } from "../../../platform/actor.ts";
import type { Clock } from "../../../platform/clock.ts";
import type { Keyring } from "../../../platform/crypto/index.ts";
import type { Db } from "../../../platform/db/index.ts";
import { newId } from "../../../platform/ids.ts";
import { badRequest } from "../../../platform/problem.ts";
import { judged, refused, findingOf, asRefusal } from "../../model.ts";
import {
  basicConstraints,
  buildCsr,
  certificatesFromPem,
  certificateToPem,
  csrToPem,
  defaultSignatureAlgorithm,
  encodeName,
  exportPkcs8,
  importPrivateKey,
  keyUsage,
  parseCertificate,
  parseCsrPem,
  verifyChain,
  verifyCsr,
  type Certificate,
} from "../../x509/index.ts";
import type { Gate } from "../../issuance/gate/service.ts";
import type { IntermediateWish, NewAuthority } from "../contract.ts";
import type { Issuer } from "../issuers/model.ts";
import { authorityKeyPlace, type Issuers } from "../issuers/service.ts";
import {
  authorityPending,
  authorityWish,
  chainToPem,
  pathLengthOf,
  subjectOf,
  toAuthorityView,
  validityOf,
  type AuthorityRow,
  type ValidityWish,
} from "../model.ts";
import { newAuthorityKey, type Authorities } from "../service.ts";
import {
  addAuthorityCertificate,
  findAuthorityCertificate,
  findAuthorityKey,
  insertAuthorityKey,
  listAuthorityCertificates,
  type AuthorityCertificateRow,
  type AuthorityKeyRow,
} from "../store.ts";

export interface AuthorityCertificateNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly authorities: Authorities;
  readonly issuers: Issuers;
  readonly gate: Gate;
}

export type AuthorityCertificates = ReturnType<typeof createAuthorityCertificates>;

interface OwnKey {
  readonly row: AuthorityKeyRow;
  readonly privateKey: KeyObject;
  readonly isNew: boolean;
}

/** A certificate on its way to become the active one; in the inventory it has the same id. */
interface Adopted {
  readonly id: string;
  readonly der: Buffer;
  readonly chain: readonly Buffer[];
  readonly parentId: string | null;
}

interface CertificateWish extends ValidityWish {
  readonly maxPathLength?: number | null | undefined;
  readonly parentCaId?: string | null | undefined;
}

const toView = (row: AuthorityCertificateRow) => ({
  certificate: certificateToPem(row.der).trimEnd(),
  certificateChain: chainToPem(row.chain),
  serialNumber: row.serialNumber,
  certId: row.id,
  version: row.version,
});

/** The chain above a certificate from elsewhere, checked up to its last member. */
function chainAbove(certificate: Certificate, text: string, now: Date): Certificate[] {
  const given = text.trim() === "" ? [] : certificatesFromPem(text);
  const above = given.filter((each) => !each.der.equals(certificate.der));
  const top = above.at(-1);
  if (!top) return [];
  const answer = verifyChain({ leaf: certificate, intermediates: above, roots: [top], at: now });
  if (answer.isValid) return answer.chain.slice(1);
  throw refused(
    answer.problems.map(({ code, message, subject }) =>
      findingOf(code, "certificateChain", `${subject}: ${message}`),
    ),
  );
}

export function createAuthorityCertificates({
  db,
  clock,
  keyring,
  authorities,
  issuers,
  gate,
}: AuthorityCertificateNeeds) {
  const ownKey = async (row: AuthorityRow): Promise<OwnKey> => {
    const key = await db.read((q) => findAuthorityKey(q, row.activeKeyId));
    if (!key) throw new Error("an authority has lost its key");
    const vault = await keyring.vaultById(key.dataKeyId);
    return {
      row: key,
      privateKey: importPrivateKey(vault.decrypt(key.sealedKey, authorityKeyPlace(key.id))),
      isNew: false,
    };
  };

  const parentOf = async (
    actor: MemberActor,
    row: AuthorityRow,
    asked: string | null | undefined,
  ): Promise<Issuer | null> => {
    if (row.kind === "root") return null;
    const parentId = asked ?? row.parentId;
    if (parentId === null)
      throw badRequest(
        "The parent of this authority is elsewhere: fetch its request (csr) and import the certificate.",
      );
    if (asked) await authorities.find(actor, asked, "sign-intermediate");
    return issuers.require(parentId, row.projectId);
  };

  /** Through the gate like every other certificate; then it becomes the authority's active one. */
  const certify = async (actor: MemberActor, row: AuthorityRow, wish: CertificateWish, key: OwnKey) => {
    const parent = await parentOf(actor, row, wish.parentCaId);
    const pathLength = pathLengthOf(wish.maxPathLength, row.maxPathLength, parent);
    const issued = await gate.issue({
      actor,
      projectId: row.projectId,
      orgId: row.orgId,
      profileId: null,
      applicationId: null,
      issuer: parent,
      wish: authorityWish(
        subjectOf(row.subject),
        validityOf(wish, clock.now(), parent),
        pathLength,
        row.nameConstraints,
      ),
      publicKey: key.row.publicKey,
      privateKey: exportPkcs8(key.privateKey),
      keepsKey: false,
      context: { friendlyName: row.name },
      idempotency: undefined,
      findings: [],
      isBlockedKey: false,
    });
    const der = issued.der ?? Buffer.alloc(0);
    return adopt(
      actor,
      row,
      { der, chain: parent?.chain ?? [], parentId: parent?.authorityId ?? null, id: issued.certificateId },
      key,
    );
  };

  const adopt = async (actor: MemberActor, row: AuthorityRow, given: Adopted, key: OwnKey) => {
    const { serialNumber, notBefore, notAfter } = parseCertificate(given.der);
    const stored = {
      id: given.id,
      authorityId: row.id,
      keyId: key.row.id,
      serialNumber,
      notBefore,
      notAfter,
      der: given.der,
      chain: given.chain,
    };
    await authorities.change(actor, "issue-ca-certificate", row, (tx) => {
      if (key.isNew) insertAuthorityKey(tx, key.row);
      addAuthorityCertificate(tx, stored, given.parentId, clock.now());
    });
    return toView({ ...stored, version: 0 });
  };

  return {
    async create(actor: MemberActor, input: NewAuthority) {
      const row = await authorities.create(actor, input);
      if (row.kind === "root" || row.parentId !== null)
        await certify(actor, row, input.configuration, await ownKey(row));
      if (input.status === "disabled") return authorities.update(actor, row.id, { status: "disabled" });
      return toAuthorityView(await authorities.find(actor, row.id, "create"));
    },

    async csr(actor: MemberActor, id: string): Promise<string> {
      const row = await authorities.find(actor, id, "read");
      if (row.kind === "root")
        throw badRequest("A root certifies itself; only an intermediate has a request.");
      const { privateKey } = await ownKey(row);
      const extensions = [
        basicConstraints({ isCa: true }),
        keyUsage(["digital_signature", "key_cert_sign", "crl_sign"]),
      ];
      const signer = { key: privateKey, algorithm: defaultSignatureAlgorithm(privateKey) };
      return csrToPem(
        await buildCsr({ subject: encodeName(subjectOf(row.subject)), extensions }, signer),
      ).trimEnd();
    },

    async issue(actor: MemberActor, id: string, wish: CertificateWish) {
      const row = await authorities.find(actor, id, "issue-ca-certificate");
      return certify(actor, row, wish, await ownKey(row));
    },

    async renew(actor: MemberActor, id: string, wish: { type: "existing" | "new"; notAfter: string }) {
      const row = await authorities.find(actor, id, "issue-ca-certificate");
      if (row.activeCertificateId === null) throw authorityPending();
      const key =
        wish.type === "existing"
          ? await ownKey(row)
          : { ...(await newAuthorityKey({ keyring, clock }, row)), isNew: true };
      return certify(actor, row, { notAfter: wish.notAfter }, key);
    },

    async active(actor: MemberActor, id: string) {
      const row = await authorities.find(actor, id, "read");
      const { activeCertificateId } = row;
      const stored =
        activeCertificateId === null
          ? undefined
          : await db.read((q) => findAuthorityCertificate(q, activeCertificateId));
      if (!stored) throw authorityPending();
      return toView(stored);
    },

    async list(actor: MemberActor, id: string) {
      await authorities.find(actor, id, "read");
      return (await db.read((q) => listAuthorityCertificates(q, id))).map(toView);
    },

    /** From a parent elsewhere: the key must be ours, the chain must hold. */
    async import(
      actor: MemberActor,
      id: string,
      given: { certificate: string; certificateChain: string },
    ): Promise<void> {
      const row = await authorities.find(actor, id, "issue-ca-certificate");
      const key = await ownKey(row);
      const { der, above } = judged("certificate", () => {
        const [certificate] = certificatesFromPem(given.certificate);
        if (!certificate?.publicKey.equals(key.row.publicKey))
          throw badRequest("The certificate is for another key than this authority's.");
        const { basicConstraints: constraints, keyUsage: usages } = certificate.extensions;
        if (constraints?.isCa !== true || usages?.includes("key_cert_sign") === false)
          throw badRequest("The certificate is not an authority's.");
        return { der: certificate.der, above: chainAbove(certificate, given.certificateChain, clock.now()) };
      });
      await adopt(
        actor,
        row,
        { der, chain: above.map((each) => each.der), parentId: null, id: newId() },
        key,
      );
    },

    async signIntermediate(actor: MemberActor, id: string, wish: IntermediateWish) {
      const row = await authorities.find(actor, id, "sign-intermediate");
      const issuer = await issuers.require(id, row.projectId);
      const csr = judged("csr", () => parseCsrPem(wish.csr));
      await verifyCsr(csr).catch((error: unknown) => {
        throw asRefusal(error, "csr");
      });
      const issued = await gate.issue({
        actor,
        projectId: row.projectId,
        orgId: row.orgId,
        profileId: null,
        applicationId: null,
        issuer,
        wish: authorityWish(
          csr.subject.rdns,
          validityOf(wish, clock.now(), issuer),
          pathLengthOf(wish.maxPathLength, null, issuer),
          wish.nameConstraints ?? null,
        ),
        publicKey: csr.publicKey,
        privateKey: undefined,
        keepsKey: false,
        context: {},
        idempotency: undefined,
        findings: [],
        isBlockedKey: false,
      });
      return {
        certificate: certificateToPem(issued.der ?? Buffer.alloc(0)).trimEnd(),
        certificateChain: chainToPem(issuer.chain),
        issuingCaCertificate: certificateToPem(issuer.certificate.der).trimEnd(),
        serialNumber: issued.serialNumber,
        certificateId: issued.certificateId,
      };
    },
  };
}
