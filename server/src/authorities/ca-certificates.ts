/** A CA's own certificates: issued here by itself or by a parent, imported from an external CA, renewed. */
import { createHash } from "node:crypto";
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import type { Db } from "../platform/db/index.ts";
import { badRequest, conflict, notFound } from "../platform/problem.ts";
import type { IntermediateWish, NewAuthority } from "./contract.ts";
import {
  authorityPending,
  authorityWish,
  pathLengthOf,
  subjectOf,
  toAuthorityView,
  validityOf,
  type AuthorityRow,
  type ValidityWish,
} from "./model.ts";
import { newAuthorityKey, type Authorities } from "./service.ts";
import {
  addAuthorityCertificate,
  findAuthorityCertificate,
  findAuthorityKey,
  insertAuthority,
  insertAuthorityKey,
  isAbove,
  listAuthorityCertificates,
  type AuthorityCertificateRow,
} from "./store.ts";
import { createCertificateRoom } from "./prune-ca-certificates.ts";
import { createCaCertificateImport, type OwnKey } from "./import-ca-certificate.ts";
import { asRefusal, judged, chainToPem, noteCertificateProject } from "../certificates/index.ts";
import { findCertificateById } from "../inventory/index.ts";
import {
  type IssuanceRequest,
  type Signing,
  type Issuer,
  authorityKeyContext,
  type Issuers,
} from "../signing/index.ts";
import {
  basicConstraints,
  buildCsr,
  certificateToPem,
  csrToPem,
  defaultSignatureAlgorithm,
  encodeName,
  exportPkcs8,
  importPrivateKey,
  keyUsage,
  parseCertificate,
  parseCsrPem,
  verifyCsr,
} from "@keyward/x509";

interface AuthorityCertificateNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly authorities: Authorities;
  readonly issuers: Issuers;
  readonly signing: Signing;
}

export type AuthorityCertificates = ReturnType<typeof createAuthorityCertificates>;

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

/** What is to be certified for which CA. */
interface Task {
  readonly row: AuthorityRow;
  readonly template: CertificateWish;
  readonly key: OwnKey;
  /** The certificate that the new one replaces: its expiry need not be reported any more. */
  readonly replacedId?: string | undefined;
  readonly idempotency: IssuanceRequest["idempotency"];
}

/** One caller's key for one kind of request to one authority, and what was asked under it. */
const keyed = (
  actor: MemberActor,
  what: string,
  key: string | undefined,
  input: unknown,
): IssuanceRequest["idempotency"] =>
  key === undefined
    ? undefined
    : {
        key: `${actor.id}:${what}:${key}`,
        digest: createHash("sha256").update(JSON.stringify(input)).digest(),
      };

const keyNotKept = () =>
  conflict(
    "The earlier request under this Idempotency-Key is underway or was interrupted, and its new key is not kept: ask again later, or under another one.",
  );

const toView = (row: AuthorityCertificateRow) => ({
  certificate: certificateToPem(row.der).trimEnd(),
  certificateChain: chainToPem(row.chain),
  serialNumber: row.serialNumber,
  certId: row.id,
  version: row.version,
});

export function createAuthorityCertificates({
  db,
  clock,
  keyring,
  authorities,
  issuers,
  signing,
}: AuthorityCertificateNeeds) {
  const ownKey = async (row: AuthorityRow): Promise<OwnKey> => {
    const key = await db.read((q) => findAuthorityKey(q, row.activeKeyId));
    if (!key) throw new Error("an authority has lost its key");
    const dataKey = await keyring.dataKeyById(key.dataKeyId);
    return {
      row: key,
      privateKey: importPrivateKey(dataKey.decrypt(key.sealedKey, authorityKeyContext(key.id))),
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
    if (asked) {
      await authorities.find(actor, asked, "sign-intermediate");
      if (await db.read((q) => isAbove(q, row.id, asked)))
        throw badRequest("An authority cannot stand below itself: parentCaId is it, or is below it.");
    }
    return issuers.require(parentId, row.projectId);
  };

  /** A CA may go back to an earlier certificate and renew that again: its first successor stays the one. */
  const withoutSuccessor = async (id: string): Promise<string | undefined> => {
    const row = await db.read((q) => findCertificateById(q, id));
    return row && row.renewedById === null && row.revokedAt === null ? row.id : undefined;
  };

  const orderOf = (actor: MemberActor, task: Task, parent: Issuer | null): IssuanceRequest => {
    const { row, template, key } = task;
    const pathLength = pathLengthOf(template.maxPathLength, row.maxPathLength, parent);
    const validity = validityOf(template, clock.now(), parent);
    return {
      actor,
      projectId: row.projectId,
      orgId: row.orgId,
      profileId: null,
      applicationId: null,
      issuer: parent,
      template: authorityWish(subjectOf(row.subject), validity, pathLength, row.nameConstraints),
      publicKey: key.row.publicKey,
      privateKey: exportPkcs8(key.privateKey),
      ...(key.isNew ? {} : { reusesKey: true }),
      keepsKey: false,
      context: { friendlyName: row.name, renewedFromId: task.replacedId },
      idempotency: task.idempotency,
      findings: [],
      isBlockedKey: false,
    };
  };

  const room = createCertificateRoom(db, clock);

  /** Through signing like every other certificate; a retry with the same Idempotency-Key gets the first one's. */
  const certified = async (actor: MemberActor, task: Task): Promise<Adopted> => {
    const parent = await parentOf(actor, task.row, task.template.parentCaId);
    const order = orderOf(actor, task, parent);
    const made = await signing.replay(order);
    if (!made) await room.make(task.row);
    const { certificateId: id, der } = made ?? (await signing.issue(order));
    if (der) return { id, der, chain: parent?.chain ?? [], parentId: parent?.authorityId ?? null };
    const row = await db.read((q) => findCertificateById(q, id));
    if (!row) throw notFound("The certificate", id);
    return { id, der: row.der, chain: row.chain ?? [], parentId: row.authorityId };
  };

  /** A certificate on its way, made the active one; unless an earlier call has done that. */
  const certify = async (actor: MemberActor, task: Task) => {
    const made = await certified(actor, task);
    const known = () => db.read((q) => findAuthorityCertificate(q, made.id));
    const earlier = task.idempotency && (await known());
    if (earlier) return toView(earlier);
    if (!parseCertificate(made.der).publicKey.equals(task.key.row.publicKey)) throw keyNotKept();
    try {
      return await adopt(actor, task.row, made, task.key);
    } catch (error) {
      const other = task.idempotency && (await known());
      if (other) return toView(other);
      throw error;
    }
  };

  const storedOf = (row: AuthorityRow, given: Adopted, key: OwnKey) => {
    const { serialNumber, notBefore, notAfter } = parseCertificate(given.der);
    const { id, der, chain } = given;
    return { id, authorityId: row.id, keyId: key.row.id, serialNumber, notBefore, notAfter, der, chain };
  };

  const adopt = async (actor: MemberActor, row: AuthorityRow, given: Adopted, key: OwnKey) => {
    const stored = storedOf(row, given, key);
    await authorities.change(actor, "issue-ca-certificate", row, async (tx) => {
      await room.leave(tx, row.id);
      if (key.isNew) insertAuthorityKey(tx, key.row);
      addAuthorityCertificate(tx, stored, given.parentId, clock.now());
    });
    return toView({ ...stored, version: 0 });
  };

  return {
    /**
     * The certificate comes first, then everything about the CA at once: whatever is refused or interrupted,
     * there is never a CA without its certificate.
     */
    async create(actor: MemberActor, input: NewAuthority) {
      const { row, key: made } = await authorities.prepare(actor, input);
      const key = { ...made, isNew: true };
      await db.write(async (tx) => noteCertificateProject(tx, row.projectId), { audited: false });
      const isCertifiedHere = row.kind === "root" || row.parentId !== null;
      const template = input.configuration;
      const first = isCertifiedHere
        ? await certified(actor, { row, template, key, idempotency: undefined })
        : undefined;
      await authorities.change(actor, "create-ca", row, async (tx) => {
        await authorities.leaveRoom(tx, row.projectId);
        insertAuthority(tx, row);
        insertAuthorityKey(tx, key.row);
        if (first) addAuthorityCertificate(tx, storedOf(row, first, key), first.parentId, clock.now());
      });
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

    async issue(actor: MemberActor, id: string, template: CertificateWish, repeatKey: string | undefined) {
      const row = await authorities.find(actor, id, "issue-ca-certificate");
      const idempotency = keyed(actor, `issue-ca:${id}`, repeatKey, template);
      return certify(actor, { row, template, key: await ownKey(row), idempotency });
    },

    async renew(
      actor: MemberActor,
      id: string,
      template: { type: "existing" | "new"; notAfter: string },
      repeatKey: string | undefined,
    ) {
      const row = await authorities.find(actor, id, "issue-ca-certificate");
      if (row.activeCertificateId === null) throw authorityPending();
      const key =
        template.type === "existing"
          ? await ownKey(row)
          : { ...(await newAuthorityKey({ keyring, clock }, row)), isNew: true };
      // Making a key may have taken long.
      if (template.type === "new") await authorities.find(actor, id, "issue-ca-certificate");
      const idempotency = keyed(actor, `renew-ca:${id}`, repeatKey, template);
      const replacedId = await withoutSuccessor(row.activeCertificateId);
      return certify(actor, { row, template: { notAfter: template.notAfter }, key, replacedId, idempotency });
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

    import: createCaCertificateImport({ clock, authorities, ownKey, withoutSuccessor, room }),

    async signIntermediate(
      actor: MemberActor,
      id: string,
      template: IntermediateWish,
      repeatKey: string | undefined,
    ) {
      const row = await authorities.find(actor, id, "sign-intermediate");
      const issuer = await issuers.require(id, row.projectId);
      const csr = judged("csr", () => parseCsrPem(template.csr));
      await verifyCsr(csr).catch((error: unknown) => {
        throw asRefusal(error, "csr");
      });
      const order: IssuanceRequest = {
        actor,
        projectId: row.projectId,
        orgId: row.orgId,
        profileId: null,
        applicationId: null,
        issuer,
        template: authorityWish(
          csr.subject.rdns,
          validityOf(template, clock.now(), issuer),
          pathLengthOf(template.maxPathLength, null, issuer),
          template.nameConstraints ?? null,
        ),
        publicKey: csr.publicKey,
        privateKey: undefined,
        keepsKey: false,
        context: {},
        idempotency: keyed(actor, `sign-intermediate:${id}`, repeatKey, template),
        findings: [],
        isBlockedKey: false,
      };
      const issued = (await signing.replay(order)) ?? (await signing.issue(order));
      // A retry answers with the issuer of the first call, which may have a new certificate since.
      const known = issued.der
        ? undefined
        : await db.read((q) => findCertificateById(q, issued.certificateId));
      const der = issued.der ?? known?.der;
      const chain = known?.chain ?? issuer.chain;
      if (!der || !chain[0]) throw notFound("The certificate", issued.certificateId);
      return {
        certificate: certificateToPem(der).trimEnd(),
        certificateChain: chainToPem(chain),
        issuingCaCertificate: certificateToPem(chain[0]).trimEnd(),
        serialNumber: issued.serialNumber,
        certificateId: issued.certificateId,
      };
    },
  };
}
