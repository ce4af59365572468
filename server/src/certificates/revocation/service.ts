import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Db } from "../../platform/db/index.ts";
import { certificateRevoked } from "../events.ts";
import type { CertificateRow } from "../inventory/model.ts";
import { findCertificate } from "../inventory/store/certificates.ts";
import type { Inventory } from "../inventory/service.ts";
import type { RevocationReason } from "../x509/index.ts";
import { alreadyRevoked, notOnHold, notOurs, revoking } from "./model.ts";
import {
  blockKey,
  certificatesOfKey,
  markListChanged,
  releaseCertificate,
  revokeCertificate,
} from "./store.ts";
import { certificateReleased } from "./events.ts";

export interface RevocationNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly inventory: Inventory;
}

export type Revocation = ReturnType<typeof createRevocation>;

interface Revocable extends CertificateRow {
  readonly authorityKeyId: string;
}
const isRevocable = (row: CertificateRow): row is Revocable => row.authorityKeyId !== null;

export function createRevocation({ db, clock, inventory }: RevocationNeeds) {
  const revokeRow = async (actor: MemberActor, row: Revocable, reason: RevocationReason): Promise<Date> => {
    const at = clock.now();
    const change = revoking(row.serialNumber, reason, at);
    await db.write(async (tx) => {
      if (!(await revokeCertificate(tx, row.id, change, at))) throw alreadyRevoked();
      markListChanged(tx, { keyId: row.authorityKeyId, shard: row.crlShard ?? 0 }, at);
      if (reason === "KEY_COMPROMISE") blockKey(tx, row.keyFingerprint, at);
      tx.audit(actor, {
        event: "revoke-certificate",
        orgId: row.orgId,
        projectId: row.projectId,
        metadata: { certificateId: row.id, serialNumber: row.serialNumber, reason },
      });
      tx.emit(certificateRevoked({ orgId: row.orgId, projectId: row.projectId, certificateId: row.id }));
    });
    return change.revokedAt;
  };

  /** A key that is known to others makes every certificate of it worthless, not only the one that was named. */
  const cascade = async (actor: MemberActor, row: Revocable): Promise<void> => {
    for (const { id } of await db.read((q) =>
      certificatesOfKey(q, row.keyFingerprint, row.projectId, row.id),
    )) {
      const other = await db.read((q) => findCertificate(q, row.orgId, id));
      if (other && isRevocable(other) && other.revokedAt === null)
        await revokeRow(actor, other, "KEY_COMPROMISE");
    }
  };

  return {
    async revoke(
      actor: MemberActor,
      id: string,
      reason: RevocationReason,
    ): Promise<{ serialNumber: string; revokedAt: Date }> {
      const row = await inventory.find(actor, id, "delete");
      if (!isRevocable(row)) throw notOurs();
      const revokedAt = await revokeRow(actor, row, reason);
      if (reason === "KEY_COMPROMISE") await cascade(actor, row);
      return { serialNumber: row.serialNumber, revokedAt };
    },

    async unhold(actor: MemberActor, id: string): Promise<{ serialNumber: string }> {
      const row = await inventory.find(actor, id, "delete");
      if (!isRevocable(row)) throw notOurs();
      const at = clock.now();
      await db.write(async (tx) => {
        if (!(await releaseCertificate(tx, id, at))) throw notOnHold();
        markListChanged(tx, { keyId: row.authorityKeyId, shard: row.crlShard ?? 0 }, at);
        tx.audit(actor, {
          event: "unhold-certificate",
          orgId: row.orgId,
          projectId: row.projectId,
          metadata: { certificateId: id, serialNumber: row.serialNumber },
        });
        tx.emit(certificateReleased({ projectId: row.projectId, certificateId: id }));
      });
      return { serialNumber: row.serialNumber };
    },
  };
}
