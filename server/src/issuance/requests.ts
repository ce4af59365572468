/** The state of a certificate request: clients poll it, and find the certificate there once it is issued. */
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import type { Db } from "../platform/db/index.ts";
import { notFound } from "../platform/problem.ts";
import { orgOf, type Permissions } from "../permissions/index.ts";
import { attributesOf, type CertificateRow, findCertificateById } from "../inventory/index.ts";
import { openCertificateKey, findRequestInOrg } from "../signing/index.ts";
import { chainToPem } from "../certificates/index.ts";
import { certificateToPem, exportPkcs8Pem } from "@keyward/x509";

interface RequestNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
}

export type CertificateRequests = ReturnType<typeof createCertificateRequests>;

const partsOf = (row: CertificateRow | undefined) => ({
  certificate: row ? certificateToPem(row.der).trimEnd() : null,
  certificateChain: row ? chainToPem(row.chain ?? []) : null,
  issuingCaCertificate: row?.chain?.[0] ? certificateToPem(row.chain[0]).trimEnd() : null,
  certificateId: row?.id ?? null,
  serialNumber: row?.serialNumber ?? null,
  commonName: row?.commonName ?? null,
});

export function createCertificateRequests({ db, clock, keyring, permissions }: RequestNeeds) {
  return {
    async get(actor: MemberActor, id: string) {
      const request = await db.read((q) => findRequestInOrg(q, orgOf(actor), id));
      if (!request) throw notFound("The certificate request", id);
      const row =
        request.status === "issued"
          ? await db.read((q) => findCertificateById(q, request.certificateId))
          : undefined;
      const attributes = row && attributesOf(row, clock.now());
      const wanted = { action: "read", subject: "certificates", ...(attributes ? { attributes } : {}) };
      const ability = await permissions.requireInProject(actor, request.projectId, wanted);
      const mayReadKey =
        attributes !== undefined && ability.can("read-private-key", "certificates", attributes);
      const key = row && mayReadKey ? await openCertificateKey(keyring, row) : undefined;
      if (key) {
        await db.write(async (tx) => {
          const metadata = { certificateId: request.certificateId, serialNumber: request.serialNumber };
          tx.audit(actor, {
            event: "read-certificate-private-key",
            orgId: request.orgId,
            projectId: request.projectId,
            metadata,
          });
        });
      }
      return {
        ...partsOf(row),
        status: request.status,
        privateKey: key ? exportPkcs8Pem(key).trimEnd() : null,
        errorMessage: request.error,
        pendingMessage: null,
        profileId: request.profileId,
        createdAt: request.createdAt,
        updatedAt: request.updatedAt,
      };
    },
  };
}
