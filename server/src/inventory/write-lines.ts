/** Everything a query finds, as lines of JSON or CSV: in small parts, made in chunks, with rights checked all along. */
import { Pace } from "../platform/pace.ts";
import type { Ability } from "../permissions/index.ts";
import type { FoundCertificate } from "./store/certificates.ts";
import { statusOf } from "../certificates/index.ts";

export type ExportFormat = "ndjson" | "csv";

const CSV_COLUMNS = [
  "id",
  "serialNumber",
  "commonName",
  "altNames",
  "status",
  "notBefore",
  "notAfter",
  "revokedAt",
  "createdAt",
  "profileSlug",
  "keyAlgorithm",
  "source",
] as const;

export const toFound = (row: FoundCertificate, now: Date) => ({
  ...row,
  status: statusOf(row, now),
  caId: row.authorityId,
  isCA: row.isCa,
  renewedByCertificateId: row.renewedById,
  altNames: [...row.altNames],
});
type Found = ReturnType<typeof toFound>;

/** Quoted always, and never a formula: spreadsheets run what starts with one of these. */
function csvCell(value: unknown): string {
  const text =
    value instanceof Date
      ? value.toISOString()
      : Array.isArray(value)
        ? value.map((each: { value: string }) => each.value).join(" ")
        : typeof value === "string"
          ? value
          : "";
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

const LINES: Readonly<Record<ExportFormat, (row: Found) => string>> = {
  csv: (row) => `${CSV_COLUMNS.map((column) => csvCell(row[column])).join(",")}\r\n`,
  ndjson: (row) =>
    `${JSON.stringify(Object.fromEntries(CSV_COLUMNS.map((column) => [column, row[column]])))}\n`,
};

const JUDGED_MS = 1000;
/** Certificates and names that are judged and shown together: what still goes out when rights have just ended. */
const JUDGED_TOGETHER = 500;
const PART_CHARACTERS = 16_384;
const PART_BYTES = 65_536;

function* fewAtATime(rows: readonly FoundCertificate[]): Generator<readonly FoundCertificate[]> {
  let few: FoundCertificate[] = [];
  let weight = 0;
  for (const row of rows) {
    few.push(row);
    weight += 1 + row.altNames.length;
    if (weight < JUDGED_TOGETHER) continue;
    yield few;
    few = [];
    weight = 0;
  }
  if (few.length > 0) yield few;
}

interface LinesNeeds {
  readonly format: ExportFormat;
  readonly pages: AsyncIterable<readonly FoundCertificate[]>;
  readonly now: () => Date;
  /** Throws once the caller may not read here any more. */
  readonly mayStill: () => Promise<Ability>;
  readonly readable: (
    ability: Ability,
    rows: readonly FoundCertificate[],
    now: Date,
  ) => Promise<readonly FoundCertificate[]>;
}

/** Rights can end while a long answer is being read: asked for each page, and every second within it. */
async function* judgedRows({ pages, now, mayStill, readable }: LinesNeeds): AsyncGenerator<Found[]> {
  for await (const rows of pages) {
    let ability = await mayStill();
    let judgedAt = performance.now();
    for (const few of fewAtATime(rows)) {
      if (performance.now() - judgedAt > JUDGED_MS) {
        ability = await mayStill();
        judgedAt = performance.now();
      }
      const at = now();
      yield (await readable(ability, few, at)).map((row) => toFound(row, at));
    }
  }
}

function* partsOf(text: string): Generator<Buffer> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += PART_BYTES) yield bytes.subarray(at, at + PART_BYTES);
}

export async function* writeLines(needs: LinesNeeds): AsyncGenerator<Buffer> {
  const { [needs.format]: lineOf } = LINES;
  const pace = new Pace();
  let text = needs.format === "csv" ? `${CSV_COLUMNS.join(",")}\r\n` : "";
  for await (const rows of judgedRows(needs)) {
    for (const row of rows) {
      text += lineOf(row);
      if (pace.isDue()) await pace.rest();
      if (text.length < PART_CHARACTERS) continue;
      yield* partsOf(text);
      text = "";
    }
    // Sent before the next part is checked: that may take a while, and may be refused.
    yield* partsOf(text);
    text = "";
  }
  yield* partsOf(text);
}
