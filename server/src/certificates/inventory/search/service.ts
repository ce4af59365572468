/** The whole project's inventory: pages by cursor, one stream for everything, and acting on what a query finds. */
import { Readable } from "node:stream";
import type { MemberActor } from "../../../platform/actor.ts";
import type { Clock } from "../../../platform/clock.ts";
import type { Db } from "../../../platform/db/index.ts";
import { Problem } from "../../../platform/problem.ts";
import type { Ability, Permissions } from "../../../permissions/index.ts";
import type { ProjectRow } from "../../../projects/index.ts";
import type { Issuance } from "../../issuance/service.ts";
import { parseMoment, statusOf } from "../../model.ts";
import type { Profiles } from "../../profiles/service.ts";
import type { Revocation } from "../../revocation/service.ts";
import type { CertificateScope } from "../../service.ts";
import type { RevocationReason } from "../../x509/index.ts";
import type { BulkInput } from "../contract.ts";
import { decodeCursor, encodeCursor, type CertificateQuery, type Cursor } from "../model.ts";
import {
  countCertificates,
  findCertificateById,
  searchCertificates,
  type FoundCertificate,
} from "../store/certificates.ts";

export interface SearchNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly scope: CertificateScope;
  readonly profiles: Profiles;
  readonly issuance: Issuance;
  readonly revocation: Revocation;
}

export type CertificateSearch = ReturnType<typeof createCertificateSearch>;

const STREAM_PAGE = 1000;
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

const toFound = (row: FoundCertificate, now: Date) => ({
  ...row,
  status: statusOf(row, now),
  caId: row.authorityId,
  isCA: row.isCa,
  renewedByCertificateId: row.renewedById,
  altNames: [...row.altNames],
});

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

export function createCertificateSearch({
  db,
  clock,
  permissions,
  scope,
  profiles,
  issuance,
  revocation,
}: SearchNeeds) {
  const enter = async (
    actor: MemberActor,
    ref: string,
    action: string,
  ): Promise<{ project: ProjectRow; ability: Ability }> => {
    const project = await scope.projectOf(actor, ref);
    return {
      project,
      ability: await permissions.requireInProject(actor, project.id, { action, subject: "certificates" }),
    };
  };

  const checked = (query: CertificateQuery): CertificateQuery => {
    if (query.expiresBefore) parseMoment(query.expiresBefore, "expiresBefore");
    if (query.issuedBefore) parseMoment(query.issuedBefore, "issuedBefore");
    return query;
  };

  const mayRead = (ability: Ability, row: FoundCertificate, now: Date): boolean =>
    ability.can("read", "certificates", {
      commonName: row.commonName,
      altNames: row.altNames.map(({ value }) => value),
      serialNumber: row.serialNumber,
      status: statusOf(row, now),
    });

  async function* pages(projectId: string, query: CertificateQuery): AsyncGenerator<FoundCertificate[]> {
    let after: Cursor | undefined;
    for (;;) {
      const rows = await db.read((q) =>
        searchCertificates(q, projectId, query, { now: clock.now(), after, limit: STREAM_PAGE }),
      );
      if (rows.length > 0) yield rows;
      const last = rows.at(-1);
      if (!last || rows.length < STREAM_PAGE) return;
      after = { at: last.at, id: last.id };
    }
  }

  async function* lines(
    projectId: string,
    query: CertificateQuery,
    format: "ndjson" | "csv",
    ability: Ability,
  ): AsyncGenerator<string> {
    if (format === "csv") yield `${CSV_COLUMNS.join(",")}\r\n`;
    for await (const rows of pages(projectId, query)) {
      const now = clock.now();
      const found = rows.filter((row) => mayRead(ability, row, now)).map((row) => toFound(row, now));
      yield found
        .map((row) => {
          if (format === "csv") return `${CSV_COLUMNS.map((column) => csvCell(row[column])).join(",")}\r\n`;
          const shown = Object.fromEntries(CSV_COLUMNS.map((column) => [column, row[column]]));
          return `${JSON.stringify(shown)}\n`;
        })
        .join("");
    }
  }

  /** Asks once per certificate, stops at none, and says which failed and why. */
  const onEach = async (projectId: string, input: BulkInput, act: (id: string) => Promise<void>) => {
    const query = { ...checked(input.query), status: "active" as const };
    const reading = { now: clock.now(), after: undefined, limit: input.limit };
    if (input.dryRun)
      return {
        matched: await db.read((q) => countCertificates(q, projectId, query, reading)),
        done: 0,
        failed: [],
        dryRun: true,
      };
    const rows = await db.read((q) => searchCertificates(q, projectId, query, reading));
    const failed: { id: string; message: string }[] = [];
    for (const { id } of rows) {
      try {
        await act(id);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        failed.push({ id, message: error.message });
      }
    }
    return { matched: rows.length, done: rows.length - failed.length, failed, dryRun: false };
  };

  return {
    async search(
      actor: MemberActor,
      ref: string,
      query: CertificateQuery & { cursor?: string | undefined; limit: number },
    ) {
      const { project, ability } = await enter(actor, ref, "read");
      const now = clock.now();
      const after = query.cursor ? decodeCursor(query.cursor) : undefined;
      const rows = await db.read((q) =>
        searchCertificates(q, project.id, checked(query), { now, after, limit: query.limit }),
      );
      const last = rows.at(-1);
      const nextCursor =
        last && rows.length === query.limit ? encodeCursor({ at: last.at, id: last.id }) : null;
      return {
        certificates: rows.filter((row) => mayRead(ability, row, now)).map((row) => toFound(row, now)),
        nextCursor,
      };
    },

    async export(
      actor: MemberActor,
      ref: string,
      query: CertificateQuery & { format: "ndjson" | "csv" },
    ): Promise<Readable> {
      const { project, ability } = await enter(actor, ref, "read");
      return Readable.from(lines(project.id, checked(query), query.format, ability), { objectMode: false });
    },

    async bulkRevoke(actor: MemberActor, ref: string, input: BulkInput, reason: RevocationReason) {
      const { project } = await enter(actor, ref, "delete");
      return onEach(project.id, input, async (id) => void (await revocation.revoke(actor, id, reason)));
    },

    async bulkRenew(actor: MemberActor, ref: string, input: BulkInput) {
      const { project } = await enter(actor, ref, "read");
      return onEach(project.id, input, async (id) => {
        const row = await db.read((q) => findCertificateById(q, id));
        if (!row) return;
        const profile =
          row.profileId === null ? null : await profiles.find(actor, row.profileId, "issue-cert");
        await issuance.renewRow(
          actor,
          { row, profile, idempotency: undefined },
          { removeRootsFromChain: false },
        );
      });
    },
  };
}
