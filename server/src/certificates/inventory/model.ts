import { invalidField } from "../../platform/problem.ts";
import { isUuid } from "../../platform/ids.ts";
import { statusOf, type Status } from "../model.ts";

/** A line of a list. */
export interface ListedCertificate {
  readonly id: string;
  readonly serialNumber: string;
  readonly commonName: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly revokedAt: Date | null;
  readonly createdAt: Date;
}

export interface CertificateDetails {
  readonly subject?: {
    readonly commonName?: string;
    readonly organization?: string;
    readonly organizationalUnit?: string;
    readonly country?: string;
    readonly state?: string;
    readonly locality?: string;
    readonly domainComponents?: readonly string[];
  };
  readonly keyUsages?: readonly string[];
  readonly extendedKeyUsages?: readonly string[];
  readonly pathLength?: number;
  readonly friendlyName?: string;
  readonly metadata?: readonly { readonly key: string; readonly value: string }[];
  readonly renewBeforeSeconds?: number;
}

/** Everything about one certificate but its private key in the clear. */
export interface CertificateRow extends ListedCertificate {
  readonly projectId: string;
  readonly orgId: string;
  readonly profileId: string | null;
  readonly applicationId: string | null;
  readonly authorityId: string | null;
  readonly authorityKeyId: string | null;
  readonly authorityCertificateId: string | null;
  readonly renewedFromId: string | null;
  readonly renewedById: string | null;
  readonly updatedAt: Date;
  readonly renewAt: Date | null;
  readonly renewalError: string | null;
  readonly revocationReason: number | null;
  readonly crlShard: number | null;
  readonly isCa: boolean;
  readonly source: "issued" | "imported";
  readonly keyAlgorithm: string | null;
  readonly signatureAlgorithm: string | null;
  readonly altNames: readonly { readonly type: string; readonly value: string }[];
  readonly keyFingerprint: Buffer;
  readonly details: CertificateDetails;
  readonly der: Buffer;
  readonly chain: readonly Buffer[] | null;
  readonly dataKeyId: string | null;
  readonly sealedKey: Buffer | null;
  readonly profileSlug: string | null;
  readonly authorityName: string | null;
  readonly applicationName: string | null;
}

export const toListed = (row: ListedCertificate, now: Date) => ({
  id: row.id,
  serialNumber: row.serialNumber,
  cn: row.commonName,
  status: statusOf(row, now),
  notBefore: row.notBefore,
  notAfter: row.notAfter,
  revokedAt: row.revokedAt,
  createdAt: row.createdAt,
});

/** What a rule of a role may depend on. */
export const attributesOf = (
  row: Pick<
    CertificateRow,
    "commonName" | "altNames" | "serialNumber" | "details" | "revokedAt" | "notAfter"
  >,
  now: Date,
) => ({
  commonName: row.commonName,
  altNames: row.altNames.map(({ value }) => value),
  serialNumber: row.serialNumber,
  friendlyName: row.details.friendlyName ?? "",
  status: statusOf(row, now),
  metadata: row.details.metadata ?? [],
});

export interface CertificateQuery {
  readonly status?: Status | undefined;
  readonly search?: string | undefined;
  readonly profileId?: string | undefined;
  readonly applicationId?: string | undefined;
  readonly caId?: string | undefined;
  readonly keyAlgorithm?: string | undefined;
  readonly source?: "issued" | "imported" | undefined;
  readonly expiresBefore?: string | undefined;
  readonly issuedBefore?: string | undefined;
}

/** A place in a list by (createdAt, id): opaque to callers, exact to the microsecond it was stored with. */
export interface Cursor {
  readonly at: string;
  readonly id: string;
}
export const encodeCursor = ({ at, id }: Cursor): string => Buffer.from(`${at} ${id}`).toString("base64url");
export function decodeCursor(text: string): Cursor {
  const [at = "", id = ""] = Buffer.from(text, "base64url").toString("latin1").split(" ");
  if (!isUuid(id) || Number.isNaN(Date.parse(at)))
    throw invalidField(["cursor"], "this is not a cursor of this list");
  return { at, id };
}

/** The newest names of a profile: enough to tell a common term from a rare one. */
export interface SearchSample {
  readonly texts: readonly string[];
  /** Most certificates of this database are in the profile: then intersecting with it costs more than it saves. */
  readonly isDominant: boolean;
}

/**
 * How to look for a term. A common one is met soon by walking the list in its order. A rare one is found through the
 * trigram index, and quickest by its rarest part alone: every further trigram costs a posting list to read. The
 * whole term is compared afterwards in any case, so a bad guess costs time and never correctness.
 */
export type SearchPlan =
  | { readonly kind: "walk" }
  | { readonly kind: "index"; readonly part: string; readonly isByProfile: boolean };

export const SAMPLE_SIZE = 500;
const COMMON_SHARE = 0.01;
const PART_LENGTHS = [5, 6, 7, 8];
/** What a sample has not shown may still be as common as this among older names. */
const UNSEEN_SHARE = 0.01;
/** How much a needless candidate row weighs against reading a sample's worth of postings. */
const CANDIDATE_WEIGHT = 20_000;

export function planSearch(term: string, { texts, isDominant }: SearchSample): SearchPlan {
  const wanted = term.toLowerCase();
  if (wanted.length < 3 || texts.length < SAMPLE_SIZE) return { kind: "walk" };
  if (texts.filter((text) => text.includes(wanted)).length >= SAMPLE_SIZE * COMMON_SHARE)
    return { kind: "walk" };
  return { kind: "index", part: rarestPart(wanted, texts), isByProfile: !isDominant };
}

function rarestPart(term: string, texts: readonly string[]): string {
  const known = new Map<string, number>();
  const frequency = (gram: string): number => {
    const counted = known.get(gram) ?? texts.filter((text) => text.includes(gram)).length + 1;
    known.set(gram, counted);
    return counted;
  };
  const scoreOf = (part: string): number => {
    const grams = [
      ...new Set(Array.from({ length: part.length - 2 }, (_, at) => part.slice(at, at + 3))),
    ].map(frequency);
    const candidates = grams.reduce(
      (share, count) => share * Math.max(count / texts.length, UNSEEN_SHARE),
      1,
    );
    return grams.reduce((sum, count) => sum + count, 0) + CANDIDATE_WEIGHT * candidates;
  };
  let [best, bestScore] = [term, scoreOf(term)];
  for (const length of PART_LENGTHS) {
    for (let at = 0; at + length <= term.length; at += 1) {
      const part = term.slice(at, at + length);
      const score = scoreOf(part);
      if (score < bestScore) [best, bestScore] = [part, score];
    }
  }
  return best;
}
