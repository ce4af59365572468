/**
 * The number of a CA's certificates is bounded, and nobody can delete one: so the oldest unneeded ones are removed when
 * a new one has no room. They stay in the inventory, as every certificate does.
 */
import { createBound } from "../platform/bound.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db, Tx } from "../platform/db/index.ts";
import type { AuthorityRow } from "./model.ts";
import { countAuthorityCertificates, forgetCertificates, unneededCertificates } from "./store.ts";
import { addSeconds, CRL_LIFE_SECONDS } from "../certificates/index.ts";

const MOST = 1000;
const KEPT_SECONDS = 86_400;

/** They are listed in one answer; and each new key has CRLs of its own to be signed. */
const room = createBound({
  most: MOST,
  words: ["An authority has at most", "certificates that are of today or in use"],
  count: countAuthorityCertificates,
});

export interface CertificateRoom {
  /** Before anything is signed. */
  make(row: AuthorityRow): Promise<void>;
  /** With the row of a new one. */
  leave(tx: Tx, authorityId: string): Promise<void>;
}

export const createCertificateRoom = (db: Db, clock: Clock): CertificateRoom => ({
  async make({ id, orgId }) {
    if ((await db.read((q) => countAuthorityCertificates(q, id, MOST))) < MOST) return;
    const now = clock.now();
    // As long as CRLs name one of its certificates, the key has to be able to sign them.
    const [madeBefore, endingAfter] = [addSeconds(now, -KEPT_SECONDS), addSeconds(now, -CRL_LIFE_SECONDS)];
    const ids = await db.read((q) => unneededCertificates(q, id, madeBefore, endingAfter), { tenant: orgId });
    if (ids.length > 0) await db.write((tx) => forgetCertificates(tx, id, ids), { audited: false });
    await db.read((q) => room.check(q, id));
  },
  leave: (tx, authorityId) => room.leaveRoom(tx, authorityId),
});
