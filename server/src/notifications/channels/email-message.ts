/**
 * The content of a mail. Mail clients render HTML of twenty years ago, so: tables, inline styles, no image, no script,
 * nothing loaded from anywhere. The text part says the same, for those who read that.
 */
import type { Notice, NoticeCertificate } from "../contract.ts";
import { headline, inDays, oneLine, remainder, shortTime } from "../model.ts";
import { escapeHtml } from "../../platform/html.ts";

export const subjectOf = (notice: Notice): string =>
  oneLine(`[Keyward] ${headline(notice)} – ${notice.alert.name}`, 180);

const nameOf = (certificate: NoticeCertificate): string =>
  oneLine(certificate.commonName === "" ? `serial ${certificate.serialNumber}` : certificate.commonName, 120);

function endOf(certificate: NoticeCertificate): string {
  if (certificate.revokedAt !== undefined) {
    const why =
      certificate.revocationReason === undefined
        ? ""
        : ` (${certificate.revocationReason.toLowerCase().replace(/_/g, " ")})`;
    return `revoked ${shortTime(certificate.revokedAt)}${why}`;
  }
  return `expires ${shortTime(certificate.notAfter)}, ${inDays(certificate.daysUntilExpiry)}`;
}

const sansOf = (certificate: NoticeCertificate): string => {
  const shown = certificate.san
    .slice(0, 5)
    .map((san) => oneLine(san, 80))
    .join(", ");
  return certificate.san.length > 5 ? `${shown} and ${certificate.san.length - 5} more` : shown;
};

function detailsOf(certificate: NoticeCertificate): [string, string][] {
  const rows: [string, string][] = [["Serial number", certificate.serialNumber]];
  if (certificate.san.length > 0) rows.push(["Names", sansOf(certificate)]);
  if (certificate.profileName !== null) rows.push(["Profile", oneLine(certificate.profileName)]);
  if (certificate.failure !== undefined) rows.push(["Reason", oneLine(certificate.failure, 500)]);
  return rows;
}

const moreLine = (notice: Notice): string =>
  `…and ${remainder(notice).toLocaleString("en-US")} more: see the full list in Keyward.`;

export function textBody(notice: Notice): string {
  const parts = [`${headline(notice)}.`];
  for (const certificate of notice.certificates) {
    const details = detailsOf(certificate).map(([label, value]) => `  ${label}: ${value}`);
    parts.push(
      [`* ${nameOf(certificate)}`, `  ${endOf(certificate)}`, ...details, `  ${certificate.viewUrl}`].join(
        "\n",
      ),
    );
  }
  if (remainder(notice) > 0) parts.push(moreLine(notice));
  parts.push(`Alert "${oneLine(notice.alert.name)}": ${notice.viewUrl}`);
  parts.push(
    "You receive this because your address is a recipient of this alert. Whoever manages it can change that in Keyward.",
  );
  return `${parts.join("\n\n")}\n`;
}

const CELL = "padding:12px 16px;border-top:1px solid #e3e6ea;font-size:14px;line-height:20px;color:#1d2733;";
const MUTED = "color:#5b6775;font-size:13px;line-height:18px;";

function htmlRow(certificate: NoticeCertificate): string {
  const details = detailsOf(certificate)
    .map(([label, value]) => `<br><span style="${MUTED}">${escapeHtml(label)}: ${escapeHtml(value)}</span>`)
    .join("");
  return `<tr><td style="${CELL}"><a href="${escapeHtml(certificate.viewUrl)}" style="color:#0b5cad;font-weight:bold;text-decoration:none;">${escapeHtml(nameOf(certificate))}</a><br>${escapeHtml(endOf(certificate))}${details}</td></tr>`;
}

export function htmlBody(notice: Notice): string {
  const rows = notice.certificates.map(htmlRow).join("");
  const more =
    remainder(notice) > 0 ? `<tr><td style="${CELL}">${escapeHtml(moreLine(notice))}</td></tr>` : "";
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(subjectOf(notice))}</title></head>
<body style="margin:0;padding:24px 12px;background:#f4f6f8;font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;">
<table role="presentation" width="100%" cellpadding="0" cellspacing="0"><tr><td align="center">
<table role="presentation" width="600" cellpadding="0" cellspacing="0" style="max-width:600px;width:100%;background:#ffffff;border:1px solid #e3e6ea;border-radius:6px;">
<tr><td style="padding:20px 16px;font-size:18px;line-height:26px;font-weight:bold;color:#1d2733;">${escapeHtml(headline(notice))}</td></tr>
${rows}${more}
<tr><td style="${CELL}${MUTED}">Alert <b>${escapeHtml(oneLine(notice.alert.name))}</b> · <a href="${escapeHtml(notice.viewUrl)}" style="color:#0b5cad;">open in Keyward</a></td></tr>
</table>
<p style="${MUTED}max-width:600px;">You receive this because your address is a recipient of this alert. Whoever manages it can change that in Keyward.</p>
</td></tr></table></body></html>
`;
}
