import { badRequest } from "../platform/problem.ts";
import { encodeEntry, reasonOfCode, REVOCATION_REASONS, type RevocationReason } from "@keyward/x509";

/** For a CA's own certificate, cACompromise is about its key (RFC 5280 5.3.1); for any other it is about its issuer's. */
export const tellsOfKey = (reason: RevocationReason, row: { readonly isCa: boolean }): boolean =>
  reason === "KEY_COMPROMISE" || (reason === "CA_COMPROMISE" && row.isCa);
export function isOfCompromisedKey(row: {
  readonly revocationReason: number | null;
  readonly isCa: boolean;
}): boolean {
  const reason = row.revocationReason === null ? undefined : reasonOfCode(row.revocationReason);
  return reason !== undefined && tellsOfKey(reason, row);
}

export const alreadyRevoked = () => badRequest("The certificate is revoked already.");
export const notOnHold = () =>
  badRequest("The certificate is not on hold; a revocation for any other reason is final.");
export const notOurs = () =>
  badRequest("Only its own authority can revoke a certificate: this one was imported or signs itself.");

export interface Revoking {
  readonly reasonCode: number;
  /** Whole seconds: CRLs and OCSP know no smaller unit, and both must say the same. */
  readonly revokedAt: Date;
  readonly entry: Buffer;
}

export function revoking(serialNumber: string, reason: RevocationReason, at: Date): Revoking {
  const revokedAt = new Date(Math.floor(at.getTime() / 1000) * 1000);
  return {
    reasonCode: REVOCATION_REASONS[reason],
    revokedAt,
    entry: encodeEntry({ serialNumber, revokedAt, reason }),
  };
}

export const isFreshCrl = (
  list: { readonly thisUpdate: Date; readonly nextUpdate: Date },
  now: Date,
): boolean =>
  now < new Date((list.thisUpdate.getTime() + list.nextUpdate.getTime()) / 2) && list.thisUpdate <= now;

/** What clocks of nodes may differ by, or be set back by. What is further in the future was made by a clock that was wrong. */
export const SMALL_STEP_MS = 60_000;
