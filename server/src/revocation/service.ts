import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db, Tx } from "../platform/db/index.ts";
import { certificateRevoked, issuanceChanged, certificateReleased } from "../certificates/events.ts";
import { alreadyRevoked, isOfCompromisedKey, notOnHold, notOurs, revoking, tellsOfKey } from "./model.ts";
import {
  blockKey,
  certificatesOfKey,
  markListChanged,
  releaseCertificate,
  revokeCertificate,
  type KeyHolder,
  type KeyPlace,
} from "./store.ts";
import type { CertificateRow, Inventory } from "../inventory/index.ts";
import type { RevocationReason } from "@keyward/x509";

interface RevocationNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly inventory: Inventory;
}

export type Revocation = ReturnType<typeof createRevocation>;

interface Revocable extends CertificateRow {
  readonly authorityKeyId: string;
}
interface RevocationOrder {
  readonly actor: MemberActor;
  readonly orgId: string;
  readonly projectId: string;
  readonly reason: RevocationReason;
  readonly at: Date;
}
const isRevocable = (row: CertificateRow): row is Revocable => row.authorityKeyId !== null;

/** Each CRL once, and in one order everywhere, so that no two transactions deadlock. */
function markLists(
  tx: Tx,
  changed: readonly Pick<KeyHolder, "authorityKeyId" | "crlShard">[],
  at: Date,
): void {
  const places = new Map(
    changed.map(({ authorityKeyId, crlShard }) => {
      const place = { keyId: authorityKeyId, shard: crlShard ?? 0 };
      return [`${place.keyId}/${place.shard}`, place];
    }),
  );
  for (const [, place] of [...places].sort(([one], [other]) => (one < other ? -1 : 1)))
    markListChanged(tx, place, at);
}

/** Certificates of a compromised key that are revoked in one transaction. */
const CASCADE_BATCH = 100;
const BEFORE_ALL = "00000000-0000-0000-0000-000000000000";

export function createRevocation({ db, clock, inventory }: RevocationNeeds) {
  /** Undefined when it is revoked for good already. */
  const revokeOne = async (
    tx: Tx,
    order: RevocationOrder,
    { id, serialNumber, isCa }: KeyHolder,
  ): Promise<Date | undefined> => {
    const { actor, orgId, projectId, reason, at } = order;
    const change = revoking(serialNumber, reason, at);
    if (!(await revokeCertificate(tx, id, change, at))) return undefined;
    tx.audit(actor, {
      event: "revoke-certificate",
      orgId,
      projectId,
      metadata: { certificateId: id, serialNumber, reason },
    });
    tx.emit(certificateRevoked({ orgId, projectId, certificateId: id }));
    // It may be a CA's own: cached issuers of that CA are loaded again, on every node.
    if (isCa) tx.emit(issuanceChanged({ projectId }));
    return change.revokedAt;
  };

  /** A compromised key makes every certificate of it worthless, not only the named one. */
  const cascade = async (order: RevocationOrder, key: KeyPlace): Promise<void> => {
    for (let after = BEFORE_ALL; ;) {
      const page = await db.read((q) => certificatesOfKey(q, key, after, CASCADE_BATCH));
      const last = page.at(-1);
      if (!last) return;
      after = last.id;
      // Unaudited only if others have revoked every one of them meanwhile.
      await db.write(
        async (tx) => {
          for (const each of page) await revokeOne(tx, order, each);
          markLists(tx, page, order.at);
        },
        { audited: false },
      );
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
      const order = { actor, orgId: row.orgId, projectId: row.projectId, reason, at: clock.now() };
      const isCompromised = tellsOfKey(reason, row);
      // An interrupted cascade is finished by a retry.
      if (isCompromised && isOfCompromisedKey(row)) await cascade(order, row);
      const revokedAt = await db.write(async (tx) => {
        const done = await revokeOne(tx, order, row);
        if (!done) throw alreadyRevoked();
        markLists(tx, [row], order.at);
        if (isCompromised) blockKey(tx, row.orgId, row.keyFingerprint, order.at);
        return done;
      });
      if (isCompromised) await cascade(order, row);
      return { serialNumber: row.serialNumber, revokedAt };
    },

    async unhold(actor: MemberActor, id: string): Promise<{ serialNumber: string }> {
      const row = await inventory.find(actor, id, "delete");
      if (!isRevocable(row)) throw notOurs();
      const at = clock.now();
      await db.write(async (tx) => {
        if (!(await releaseCertificate(tx, id, at))) throw notOnHold();
        markLists(tx, [row], at);
        tx.audit(actor, {
          event: "unhold-certificate",
          orgId: row.orgId,
          projectId: row.projectId,
          metadata: { certificateId: id, serialNumber: row.serialNumber },
        });
        tx.emit(certificateReleased({ projectId: row.projectId, certificateId: id }));
        if (row.isCa) tx.emit(issuanceChanged({ projectId: row.projectId }));
      });
      return { serialNumber: row.serialNumber };
    },
  };
}
