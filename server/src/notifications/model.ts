/** A notification in one sentence, whatever the channel. */
import type { NoticeContent } from "./contract.ts";

/** User-given text for places where a line break or an invisible character could pretend to be something else. */
export function oneLine(text: string, max = 200): string {
  const flat = text
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ")
    .replace(/\s+/g, " ")
    .trim();
  const points = [...flat];
  return points.length > max ? `${points.slice(0, max - 1).join("")}…` : flat;
}

const count = (total: number): string =>
  total === 1 ? "1 certificate" : `${total.toLocaleString("en-US")} certificates`;

/** One sentence without the alert's name: the subject of a mail, the headline of a chat message. */
export function headline({ kind, total, certificates }: NoticeContent): string {
  const [only] = certificates;
  const what =
    total === 1 && only
      ? oneLine(only.commonName === "" ? only.serialNumber : only.commonName, 100)
      : count(total);
  switch (kind) {
    case "expiration":
      return total === 1 && only
        ? `${what} expires ${inDays(only.daysUntilExpiry)}`
        : `${what} are about to expire`;
    case "issuance":
      return `${what} ${total === 1 ? "was" : "were"} issued`;
    case "renewal":
      return `${what} ${total === 1 ? "was" : "were"} renewed`;
    case "revocation":
      return `${what} ${total === 1 ? "was" : "were"} revoked`;
    case "renewal-failed":
      return `${what} could not be renewed`;
    case "resolution":
      return `${what} ${total === 1 ? "needs" : "need"} no more attention`;
    case "test":
      return "This is a test: the channel works";
  }
}

export function inDays(days: number): string {
  if (days <= 0) return "within a day";
  return days === 1 ? "in 1 day" : `in ${days} days`;
}

export const remainder = (notice: NoticeContent): number =>
  Math.max(0, notice.total - notice.certificates.length);

/** `2026-11-15 04:00 UTC`: the same for every reader. */
export const shortTime = (iso: string): string => `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
