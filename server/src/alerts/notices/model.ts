/** From an alert and its certificates to what a message says; and which pending notice an expiry is. */
import {
  SHOWN,
  type NoticeCertificate,
  type NoticeContent,
  type NoticeKind,
} from "../../notifications/contract.ts";
import type { AlertEventType } from "../contract.ts";
import { DAY_MS, utcDay, type AlertRow } from "../model.ts";

export interface NoticeCertificateRow {
  readonly id: string;
  readonly projectId: string;
  readonly applicationId: string | null;
  readonly serialNumber: string;
  readonly commonName: string;
  readonly san: string[];
  readonly profileName: string | null;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly revokedAt: Date | null;
  readonly revocationReason: number | null;
  readonly isCa: boolean;
}

/** RFC 5280, 5.3.1. */
const REASONS: Readonly<Record<number, string>> = {
  0: "UNSPECIFIED",
  1: "KEY_COMPROMISE",
  2: "CA_COMPROMISE",
  3: "AFFILIATION_CHANGED",
  4: "SUPERSEDED",
  5: "CESSATION_OF_OPERATION",
  6: "CERTIFICATE_HOLD",
  8: "REMOVE_FROM_CRL",
  9: "PRIVILEGE_WITHDRAWN",
  10: "A_A_COMPROMISE",
};

/** One scan of the whole due window a day, also for alerts that report once: anything missed is found then. */
export function needsFullLook(alert: AlertRow, now: Date): boolean {
  if (alert.lookedAt === null || alert.lookedAt > now || now.getTime() - alert.lookedAt.getTime() >= DAY_MS)
    return true;
  return alert.isDaily && utcDay(alert.lookedAt) !== utcDay(now);
}

/** A fact that waits for a digest, with its kind, because the alert may be of another kind by then. */
export const factNotice = (type: AlertEventType, factId: number): string => `${type}:${factId}`;

export const expiryNotice = (alert: Pick<AlertRow, "isDaily">, now: Date): string =>
  alert.isDaily ? `day:${utcDay(now)}` : "";

/** One broken CA fails ten thousand renewals, several times in its first hours: each is reported once a day. */
export const failureNotice = (now: Date): string => `failed:${utcDay(now)}`;
export const isFailure = ({ notice }: { readonly notice: string }): boolean => notice.startsWith("failed:");

export const alertViewUrl = (publicUrl: string, alert: Pick<AlertRow, "id" | "projectId">): string =>
  `${publicUrl}/projects/${alert.projectId}/alerts/${alert.id}`;

function statusOf(certificate: NoticeCertificateRow, now: Date): NoticeCertificate["status"] {
  if (certificate.revokedAt !== null) return "revoked";
  return certificate.notAfter <= now ? "expired" : "active";
}

function toNoticeCertificate(
  certificate: NoticeCertificateRow,
  context: { readonly now: Date; readonly publicUrl: string; readonly failure: string | undefined },
): NoticeCertificate {
  const { now, publicUrl, failure } = context;
  const reason = certificate.revocationReason === null ? undefined : REASONS[certificate.revocationReason];
  return {
    id: certificate.id,
    serialNumber: certificate.serialNumber,
    commonName: certificate.commonName,
    san: certificate.san,
    profileName: certificate.profileName,
    notBefore: certificate.notBefore.toISOString(),
    notAfter: certificate.notAfter.toISOString(),
    status: statusOf(certificate, now),
    daysUntilExpiry: Math.floor((certificate.notAfter.getTime() - now.getTime()) / DAY_MS),
    ...(certificate.revokedAt === null ? {} : { revokedAt: certificate.revokedAt.toISOString() }),
    ...(certificate.revokedAt === null || reason === undefined ? {} : { revocationReason: reason }),
    ...(failure === undefined ? {} : { failure }),
    viewUrl: `${publicUrl}/projects/${certificate.projectId}/certificates/${certificate.id}`,
  };
}

interface ContentWish {
  readonly alert: AlertRow;
  readonly kind: NoticeKind;
  readonly certificates: readonly NoticeCertificateRow[];
  readonly total: number;
  readonly now: Date;
  readonly publicUrl: string;
  /** Why a renewal failed, by certificate. */
  readonly failures?: ReadonlyMap<string, string>;
}

export function contentOf({
  alert,
  kind,
  certificates,
  total,
  now,
  publicUrl,
  failures,
}: ContentWish): NoticeContent {
  return {
    kind,
    at: now.toISOString(),
    alert: {
      id: alert.id,
      name: alert.name,
      alertBefore: alert.alertBefore,
      applicationId: alert.applicationId,
    },
    certificates: certificates
      .slice(0, SHOWN)
      .map((certificate) =>
        toNoticeCertificate(certificate, { now, publicUrl, failure: failures?.get(certificate.id) }),
      ),
    total,
    viewUrl: alertViewUrl(publicUrl, alert),
  };
}
