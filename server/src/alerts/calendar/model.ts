/** Upcoming expiries as iCalendar (RFC 5545): lines of at most 75 octets, ended by CR LF, text escaped. */

export interface CalendarCertificate {
  readonly id: string;
  readonly commonName: string;
  readonly serialNumber: string;
  readonly notAfter: Date;
}

const stamp = (at: Date): string => at.toISOString().replace(/[-:]|\.\d{3}/g, "");

const escapeText = (text: string): string =>
  text
    .replace(/[\\;,]/g, (char) => `\\${char}`)
    .replace(/\r\n|[\r\n]/g, "\\n")
    .replace(/\p{Cc}/gu, " ");

/** Folds between characters, never inside one: the limit counts octets. */
function foldLine(line: string): string {
  const parts: string[] = [];
  let part = "";
  let octets = 0;
  for (const char of line) {
    const size = Buffer.byteLength(char);
    if (octets + size > 75) {
      parts.push(part);
      part = " ";
      octets = 1;
    }
    part += char;
    octets += size;
  }
  return [...parts, part].join("\r\n");
}

export function toCalendar(
  certificates: readonly CalendarCertificate[],
  context: { readonly now: Date; readonly viewUrl: (id: string) => string },
): string {
  const lines = [
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    "PRODID:-//Keyward//Certificate expiries//EN",
    "CALSCALE:GREGORIAN",
    "METHOD:PUBLISH",
    "X-WR-CALNAME:Certificate expiries",
    "REFRESH-INTERVAL;VALUE=DURATION:PT1H",
  ];
  for (const { id, commonName, serialNumber, notAfter } of certificates) {
    lines.push(
      "BEGIN:VEVENT",
      `UID:${id}@keyward`,
      `DTSTAMP:${stamp(context.now)}`,
      `DTSTART:${stamp(notAfter)}`,
      `SUMMARY:${escapeText(`${commonName === "" ? serialNumber : commonName} expires`)}`,
      `DESCRIPTION:${escapeText(`Certificate ${serialNumber} ends at ${notAfter.toISOString()}.`)}`,
      `URL:${context.viewUrl(id)}`,
      "TRANSP:TRANSPARENT",
      "END:VEVENT",
    );
  }
  return [...lines, "END:VCALENDAR", ""].map(foldLine).join("\r\n");
}
