/** The whole project's inventory: pages by cursor, one stream for everything, and acting on what a query finds. */
import { Readable } from "node:stream";
import type { Confirm, MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import { decrypt, DecryptError, deriveKey, encrypt, type Keyring } from "../platform/crypto/index.ts";
import type { Db } from "../platform/db/index.ts";
import { badRequest, invalidField, Problem, stoppedAfter } from "../platform/problem.ts";
import { permittedOf, type Ability, type Permissions } from "../permissions/index.ts";
import type { ProjectRow } from "../projects/index.ts";
import type { BulkInput } from "./contract.ts";
import { attributesOf, type CertificateQuery, type Cursor } from "./model.ts";
import {
  certificatesToStream,
  listBodies,
  oldestCertificates,
  searchCertificates,
  type FoundCertificate,
} from "./store/certificates.ts";
import { toFound, writeLines, type ExportFormat } from "./write-lines.ts";
import { parseInstant, statusOf, type CertificateScope } from "../certificates/index.ts";
import type { Profiles } from "../profiles/index.ts";
import type { RevocationReason } from "@keyward/x509";

interface SearchNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly keyring: Keyring;
  readonly scope: CertificateScope;
  readonly profiles: Profiles;
  /** The bulk actions on each certificate: the rooms that do them are above this one. */
  readonly renew: (actor: MemberActor, id: string) => Promise<unknown>;
  readonly revoke: (actor: MemberActor, id: string, reason: RevocationReason) => Promise<unknown>;
}

export type CertificateSearch = ReturnType<typeof createCertificateSearch>;

/** A certificate that a query found, with what a list of certificates does not say. */
interface SearchCandidate {
  readonly row: FoundCertificate;
  readonly attributes: ReturnType<typeof attributesOf>;
  readonly hasKey: boolean;
}

/** With a check whether the caller still has access: many certificates take minutes. */
type BulkOrder = BulkInput & { readonly confirm: Confirm };

interface SearchedAction {
  /** What can be known without doing it. */
  readonly canSucceed: (candidate: SearchCandidate) => boolean;
  /** Asks for permission by itself. */
  readonly act: (candidate: SearchCandidate) => Promise<unknown>;
}

const STREAM_PAGE = 1000;
/**
 * The cursor as callers get it: encrypted, because its position may be that of a certificate they may not see, and bound to its
 * project.
 */
const sealCursor = (key: Buffer, projectId: string, { at, id }: Cursor): string =>
  encrypt(key, `${at} ${id}`, ["certificate-cursor", projectId]).toString("base64url");
function openCursor(key: Buffer, projectId: string, text: string): Cursor {
  try {
    const box = Buffer.from(text, "base64url");
    const [at = "", id = ""] = decrypt(key, box, ["certificate-cursor", projectId]).toString().split(" ");
    return { at, id };
  } catch (error) {
    if (error instanceof DecryptError) throw invalidField(["cursor"], "this is not a cursor of this list");
    throw error;
  }
}

/** About this one certificate or profile, and not that nothing can be answered at the moment. */
const isRefusal = (error: unknown): error is Problem => error instanceof Problem && error.status < 500;

export function createCertificateSearch({
  db,
  clock,
  permissions,
  keyring,
  scope,
  profiles,
  renew,
  revoke,
}: SearchNeeds) {
  const cursorKey = deriveKey(keyring.instanceKey("credential-lookup"), "certificate-cursor");
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

  /** Timestamps in one form, which the database reads as we do. */
  const checked = (query: CertificateQuery): CertificateQuery => {
    const inOneSpelling = (field: "expiresBefore" | "issuedBefore") => {
      const text = query[field];
      return text === undefined ? {} : { [field]: parseInstant(text, field).toISOString() };
    };
    return { ...query, ...inOneSpelling("expiresBefore"), ...inOneSpelling("issuedBefore") };
  };

  /**
   * Those that the caller may read. What a list does not hold is fetched only where a rule asks for it, and only for
   * what is not allowed without it: whatever is unknown counts against the caller.
   */
  const readable = async (
    { project, ability }: { readonly project: ProjectRow; readonly ability: Ability },
    rows: readonly FoundCertificate[],
    now: Date,
  ) => {
    const isAllowed = (row: FoundCertificate): boolean =>
      ability.can("read", "certificates", {
        commonName: row.commonName,
        altNames: row.altNames.map(({ value }) => value),
        serialNumber: row.serialNumber,
        status: statusOf(row, now),
      });
    const allowed = new Set((await permittedOf(rows, isAllowed)).map(({ id }) => id));
    const open = rows.flatMap(({ id }) => (allowed.has(id) ? [] : [id]));
    if (open.length === 0) return rows;
    const asksMore = ability
      .rulesFor("read", "certificates")
      .some(({ conditions = {} }) => "friendlyName" in conditions || "metadata" in conditions);
    const bodies = asksMore ? await db.read((q) => listBodies(q, open), { tenant: project.orgId }) : [];
    const details = new Map(bodies.map((body) => [body.id, body.details]));
    return permittedOf(rows, (row) => {
      const known = details.get(row.id);
      return known
        ? ability.can("read", "certificates", attributesOf({ ...row, details: known }, now))
        : allowed.has(row.id);
    });
  };

  async function* pages(project: ProjectRow, query: CertificateQuery): AsyncGenerator<FoundCertificate[]> {
    let after: Cursor | undefined;
    for (;;) {
      const rows = await db.read(
        (q) => certificatesToStream(q, project.id, query, { now: clock.now(), after, limit: STREAM_PAGE }),
        { tenant: project.orgId },
      );
      if (rows.length > 0) yield rows;
      const last = rows.at(-1);
      if (!last || (rows.length === last.met && last.met < STREAM_PAGE)) return;
      after = { at: last.at, id: last.id };
    }
  }

  /** What the query finds and the caller may see or act on; the rest is not even named. */
  const candidates = async (
    { project, ability }: { project: ProjectRow; ability: Ability },
    input: BulkInput,
    action: "delete" | "read",
  ): Promise<SearchCandidate[]> => {
    const isRenewedToo = action === "delete";
    const query = { ...checked(input.query), status: "active" as const, isRenewedToo };
    const now = clock.now();
    const rows = await db.read((q) => oldestCertificates(q, project.id, query, { now, limit: input.limit }), {
      tenant: project.orgId,
    });
    const ids = rows.map(({ id }) => id);
    const bodies = new Map(
      (await db.read((q) => listBodies(q, ids), { tenant: project.orgId })).map((body) => [body.id, body]),
    );
    const found = rows.flatMap((row) => {
      const body = bodies.get(row.id);
      return body
        ? [{ row, attributes: attributesOf({ ...row, details: body.details }, now), hasKey: body.hasKey }]
        : [];
    });
    return permittedOf(found, ({ attributes }) =>
      [action, "read"].some((each) => ability.can(each, "certificates", attributes)),
    );
  };

  /** Continues after a failure, and says which failed and why; stops only when the database or the caller's access is lost. */
  const onEach = async (
    found: readonly SearchCandidate[],
    { dryRun, confirm }: BulkOrder,
    { canSucceed, act }: SearchedAction,
  ) => {
    if (dryRun) return { matched: found.filter(canSucceed).length, done: 0, failed: [], dryRun };
    const failed: { id: string; message: string }[] = [];
    for (const [at, candidate] of found.entries()) {
      await confirm().catch((error: unknown) => {
        const done = `Until then this was done to ${at - failed.length} of ${found.length} certificates.`;
        throw error instanceof Problem ? stoppedAfter(error, done) : error;
      });
      try {
        await act(candidate);
      } catch (error) {
        if (!isRefusal(error)) throw error;
        failed.push({ id: candidate.row.id, message: error.message });
      }
    }
    return { matched: found.length, done: found.length - failed.length, failed, dryRun };
  };

  /** Of the profiles of these certificates, those that the caller may issue under. */
  const issuableAmong = async (
    actor: MemberActor,
    found: readonly SearchCandidate[],
  ): Promise<Set<string>> => {
    const issuable = new Set<string>();
    for (const id of new Set(found.flatMap(({ row }) => row.profileId ?? [])))
      try {
        issuable.add((await profiles.find(actor, id, "issue-cert")).id);
      } catch (error) {
        if (!isRefusal(error)) throw error;
      }
    return issuable;
  };

  return {
    async search(
      actor: MemberActor,
      ref: string,
      query: CertificateQuery & { cursor?: string | undefined; limit: number },
    ) {
      const { project, ability } = await enter(actor, ref, "read");
      const now = clock.now();
      const after = query.cursor ? openCursor(cursorKey, project.id, query.cursor) : undefined;
      const rows = await db.read(
        (q) => searchCertificates(q, project.id, checked(query), { now, after, limit: query.limit }),
        { tenant: project.orgId },
      );
      const last = rows.at(-1);
      const nextCursor = last && rows.length === query.limit ? sealCursor(cursorKey, project.id, last) : null;
      return {
        certificates: (await readable({ project, ability }, rows, now)).map((row) => toFound(row, now)),
        nextCursor,
      };
    },

    async export(
      actor: MemberActor,
      ref: string,
      query: CertificateQuery & { format: ExportFormat },
    ): Promise<Readable> {
      const { project } = await enter(actor, ref, "read");
      const mayStill = async () => (await enter(actor, project.id, "read")).ability;
      const lines = writeLines({
        format: query.format,
        pages: pages(project, checked(query)),
        now: () => clock.now(),
        mayStill,
        readable: (ability, rows, now) => readable({ project, ability }, rows, now),
      });
      return Readable.from(lines, { objectMode: false });
    },

    async bulkRevoke(actor: MemberActor, ref: string, input: BulkOrder, reason: RevocationReason) {
      const entered = await enter(actor, ref, "delete");
      return onEach(await candidates(entered, input, "delete"), input, {
        canSucceed: ({ row, attributes }) =>
          row.authorityKeyId !== null && entered.ability.can("delete", "certificates", attributes),
        act: ({ row }) => revoke(actor, row.id, reason),
      });
    },

    async bulkRenew(actor: MemberActor, ref: string, input: BulkOrder) {
      const entered = await enter(actor, ref, "read");
      const found = await candidates(entered, input, "read");
      const issuable = input.dryRun ? await issuableAmong(actor, found) : new Set<string>();
      return onEach(found, input, {
        canSucceed: ({ row, attributes, hasKey }) =>
          hasKey &&
          row.renewedById === null &&
          (row.profileId === null
            ? row.source === "issued" && entered.ability.can("create", "certificates", attributes)
            : issuable.has(row.profileId)),
        act: ({ row }) => {
          if (row.source === "imported" && row.profileId === null)
            throw badRequest("A certificate from elsewhere that is under no profile has nobody to renew it.");
          return renew(actor, row.id);
        },
      });
    },
  };
}
