/** The content of a notification, independent of the channel. It is fixed at creation, so that a retry sends the same. */

export type NoticeKind =
  "expiration" | "issuance" | "renewal" | "revocation" | "renewal-failed" | "resolution" | "test";

export interface NoticeCertificate {
  readonly id: string;
  readonly serialNumber: string;
  readonly commonName: string;
  readonly san: readonly string[];
  readonly profileName: string | null;
  /** ISO 8601, like every moment in a notice: it is kept as JSON. */
  readonly notBefore: string;
  readonly notAfter: string;
  readonly status: "active" | "expired" | "revoked";
  readonly daysUntilExpiry: number;
  readonly revokedAt?: string;
  readonly revocationReason?: string;
  /** For a renewal that failed: why. */
  readonly failure?: string;
  readonly viewUrl: string;
}

export interface NoticeContent {
  readonly kind: NoticeKind;
  readonly at: string;
  readonly alert: {
    readonly id: string;
    readonly name: string;
    readonly alertBefore: string;
    readonly applicationId: string | null;
  };
  /** At most SHOWN of them, the most urgent first. */
  readonly certificates: readonly NoticeCertificate[];
  readonly total: number;
  readonly viewUrl: string;
}

export interface Notice extends NoticeContent {
  /** The delivery's id: the same however often it is sent. */
  readonly id: string;
  /** Of several recipients only those at these indexes of the channel's list: the others have it. */
  readonly remainingRecipients?: readonly number[] | null;
}

/** A message shows this many certificates and says how many more there are. */
export const SHOWN = 20;

/**
 * taken    the receiver accepted it; a remark names those of several who did not
 * refused  it will never accept this one: a retry is pointless
 * later    not now: retry, not before `afterSeconds` if the receiver asked for that, and of several recipients only
 *          for those at the indexes `remainingRecipients`
 * unready  this server cannot send through this channel yet (no mail server is configured): keep it, say why
 */
export type DeliveryOutcome =
  | { readonly kind: "taken"; readonly remark?: string }
  | { readonly kind: "refused"; readonly reason: string }
  | {
      readonly kind: "later";
      readonly reason: string;
      readonly afterSeconds?: number;
      readonly remainingRecipients?: readonly number[];
    }
  | { readonly kind: "unready"; readonly reason: string };
