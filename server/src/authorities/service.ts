import type { KeyObject } from "node:crypto";
import type { MemberActor } from "../platform/actor.ts";
import { createBound } from "../platform/bound.ts";
import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import { isUniqueViolation, type Db, type Tx } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { badRequest, notFound } from "../platform/problem.ts";
import { orgOf, permittedOf, type Permissions } from "../permissions/index.ts";
import type { AuthorityChange, NewAuthority } from "./contract.ts";
import { authorityNameTaken, checkListUrls, subjectOf, toAuthorityView, type AuthorityRow } from "./model.ts";
import {
  countAuthorities,
  deleteAuthority,
  findAuthority,
  findAuthorityCertificate,
  hasAuthorityNamed,
  hasIssued,
  listAuthorities,
  updateAuthority,
  type AuthorityKeyRow,
} from "./store.ts";
import { issuanceChanged } from "../certificates/events.ts";
import { createNamedAccess, judged, type CertificateScope } from "../certificates/index.ts";
import {
  speaksFor,
  authorityKeyContext,
  isBlockedKey,
  inKeyTurn,
  findLineage,
  type LineageRow,
} from "../signing/index.ts";
import {
  encodeName,
  exportPkcs8,
  exportSpki,
  generateKeys,
  parseCertificate,
  parseKeyAlgorithm,
  type Certificate,
} from "@keyward/x509";

interface AuthorityNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly scope: CertificateScope;
}

/** Each has CRLs to be signed, and they are listed in one answer. */
const room = createBound({
  most: 1000,
  words: ["A project has at most", "certificate authorities"],
  count: countAuthorities,
});

export type Authorities = ReturnType<typeof createAuthorities>;

interface NewKey {
  readonly row: AuthorityKeyRow;
  readonly privateKey: KeyObject;
}

/** A fresh key with its row, encrypted under the project's key. */
export async function newAuthorityKey(
  needs: Pick<AuthorityNeeds, "keyring" | "clock">,
  authority: {
    readonly id: string;
    readonly projectId: string;
    readonly orgId: string;
    readonly keyAlgorithm: string;
    readonly crlShards: number;
  },
): Promise<NewKey> {
  const algorithm = judged("configuration.keyAlgorithm", () => parseKeyAlgorithm(authority.keyAlgorithm));
  const { publicKey, privateKey } = await inKeyTurn(algorithm, authority.orgId, () =>
    generateKeys(algorithm),
  );
  const id = newId();
  const dataKey = await needs.keyring.dataKeyOf({ projectId: authority.projectId });
  const sealedKey = dataKey.encrypt(exportPkcs8(privateKey), authorityKeyContext(id));
  const row: AuthorityKeyRow = {
    id,
    authorityId: authority.id,
    keyAlgorithm: authority.keyAlgorithm,
    publicKey: exportSpki(publicKey),
    dataKeyId: dataKey.keyId,
    sealedKey,
    crlShards: authority.crlShards,
    createdAt: needs.clock.now(),
  };
  return { row, privateKey };
}

export function createAuthorities(needs: AuthorityNeeds) {
  const { db, clock, permissions, scope } = needs;

  const { require, find } = createNamedAccess(
    { db, permissions },
    { subject: "certificate-authorities", what: "The certificate authority", find: findAuthority },
  );

  const change = async (
    actor: MemberActor,
    event: string,
    row: { readonly id: string; readonly projectId: string; readonly name: string },
    work: (tx: Tx) => void | Promise<void>,
  ): Promise<void> => {
    try {
      await db.write(async (tx) => {
        await work(tx);
        tx.audit(actor, {
          event,
          orgId: orgOf(actor),
          projectId: row.projectId,
          metadata: { caId: row.id, name: row.name },
        });
        tx.emit(issuanceChanged({ projectId: row.projectId }));
      });
    } catch (error) {
      if (isUniqueViolation(error, "certificate_authorities_name_unique")) throw authorityNameTaken(row.name);
      throw error;
    }
  };

  /** What is known here of the CA's chain, if it is acceptable. */
  const lineOf = async (row: AuthorityRow, chain: readonly Certificate[]): Promise<LineageRow[]> => {
    const [own] = chain;
    const [line, isBlocked, isInUse] = await db.read((q) =>
      Promise.all([
        findLineage(q, chain),
        own ? isBlockedKey(q, row.orgId, own.publicKey) : false,
        hasIssued(q, row.id, row.activeKeyId),
      ]),
    );
    const revoked = line.find(({ isRevoked }) => isRevoked);
    if (revoked)
      throw badRequest(`The certificate of "${revoked.commonName}" is revoked: it cannot be active.`);
    if (isBlocked) throw badRequest("The key of the certificate is compromised: it cannot be active.");
    const active = row.der ? parseCertificate(row.der) : undefined;
    if (isInUse && own && active?.publicKey.equals(own.publicKey) && !speaksFor(own, active))
      throw badRequest(
        "The authority's key has issued certificates under another name or key identifier, and nobody could check their revocation any more. Have the certificate issued for the same subject and subject key identifier, or give the authority a new key first.",
      );
    return line;
  };

  /** Any certificate that the authority ever had, of whichever key, as long as clients would accept it. */
  const requireStanding = async (row: AuthorityRow, certificateId: string) => {
    const found = await db.read((q) => findAuthorityCertificate(q, certificateId));
    if (found?.authorityId !== row.id) throw notFound("A certificate of this authority", certificateId);
    if (found.notAfter <= clock.now())
      throw badRequest(`The certificate expired on ${found.notAfter.toISOString()}: it cannot be active.`);
    await lineOf(row, [found.der, ...found.chain].map(parseCertificate));
    return found;
  };

  return {
    find,
    change,
    lineOf,

    /** A new CA with its key; nothing of it is stored yet. */
    async prepare(
      actor: MemberActor,
      input: NewAuthority,
    ): Promise<{ readonly row: AuthorityRow; readonly key: NewKey }> {
      const project = await scope.projectOf(actor, input.projectId);
      await require(actor, project.id, "create", input.name);
      if (await db.read((q) => hasAuthorityNamed(q, project.id, input.name)))
        throw authorityNameTaken(input.name);
      await db.read((q) => room.check(q, project.id));
      const { configuration } = input;
      const { type, friendlyName, commonName, organization, ou, country, province, locality, crlShards } =
        configuration;
      const parentId = configuration.parentCaId ?? null;
      if (type === "root" && parentId !== null)
        throw badRequest("A root has no parent: leave parentCaId out, or make it an intermediate.");
      if (parentId !== null) {
        const parent = await find(actor, parentId, "sign-intermediate");
        if (parent.projectId !== project.id) throw notFound("The certificate authority", parentId);
      }
      const subject = { friendlyName, commonName, organization, ou, country, province, locality };
      if (subjectOf(subject).length === 0)
        throw badRequest("An authority needs a subject: send at least commonName.");
      judged("configuration", () => encodeName(subjectOf(subject)));
      checkListUrls(configuration.crlDistributionPointUrls);
      const id = newId();
      const key = await newAuthorityKey(needs, {
        id,
        projectId: project.id,
        orgId: project.orgId,
        keyAlgorithm: configuration.keyAlgorithm,
        crlShards,
      });
      await require(actor, project.id, "create", input.name); // making a key may have taken long
      const at = clock.now();
      const row: AuthorityRow = {
        id,
        projectId: project.id,
        orgId: orgOf(actor),
        name: input.name,
        kind: type,
        status: input.status === "disabled" ? "disabled" : "pending-certificate",
        keyAlgorithm: configuration.keyAlgorithm,
        subject,
        parentId,
        maxPathLength: configuration.maxPathLength ?? null,
        nameConstraints: configuration.nameConstraints ?? null,
        crlUrls: configuration.crlDistributionPointUrls,
        hasManagedCrl: !configuration.disableManagedCrlDistributionPointUrl,
        crlShards,
        activeKeyId: key.row.id,
        activeCertificateId: null,
        createdAt: at,
        updatedAt: at,
        serialNumber: null,
        notBefore: null,
        notAfter: null,
        der: null,
      };
      return { row, key };
    },

    /** With the row of a new one. */
    leaveRoom: (tx: Tx, projectId: string) => room.leaveRoom(tx, projectId),

    async list(actor: MemberActor, ref: string | undefined) {
      const project = await scope.projectOf(actor, ref);
      const ability = await require(actor, project.id, "read");
      const rows = await db.read((q) => listAuthorities(q, project.id));
      const seen = await permittedOf(rows, ({ name }) =>
        ability.can("read", "certificate-authorities", { name }),
      );
      return seen.map(toAuthorityView);
    },

    get: async (actor: MemberActor, id: string) => toAuthorityView(await find(actor, id, "read")),

    async update(actor: MemberActor, id: string, input: AuthorityChange) {
      const before = await find(actor, id, "edit");
      const settings = input.configuration ?? {};
      const chosen =
        settings.activeCaCertId === undefined
          ? undefined
          : await requireStanding(before, settings.activeCaCertId);
      const hasCertificate = before.activeCertificateId !== null;
      if (
        input.status !== undefined &&
        (input.status === "pending-certificate") === hasCertificate &&
        input.status !== "disabled"
      ) {
        throw badRequest(
          hasCertificate
            ? "The authority has a certificate: it can be active or disabled."
            : "The authority has no certificate yet: it cannot be active.",
        );
      }
      const { crlDistributionPointUrls: crlUrls, disableManagedCrlDistributionPointUrl: isOff } = settings;
      checkListUrls(crlUrls ?? []);
      const patch = {
        name: input.name,
        status: input.status,
        crlUrls,
        hasManagedCrl: isOff === undefined ? undefined : !isOff,
        chosen,
      };
      const named = { ...before, name: input.name ?? before.name };
      await change(actor, "update-ca", named, (tx) => updateAuthority(tx, id, patch, clock.now()));
      return toAuthorityView(await find(actor, id, "edit"));
    },

    async delete(actor: MemberActor, id: string) {
      const row = await find(actor, id, "delete");
      await change(actor, "delete-ca", row, (tx) => deleteAuthority(tx, id, clock.now()));
      return toAuthorityView(row);
    },

    /** Anybody may fetch it: certificates point here. */
    async issuerDer(certificateId: string, authorityId?: string): Promise<Buffer> {
      const row = await db.read((q) => findAuthorityCertificate(q, certificateId));
      if (!row || (authorityId !== undefined && row.authorityId !== authorityId))
        throw notFound("The certificate", certificateId);
      return row.der;
    },
  };
}
