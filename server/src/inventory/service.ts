import type { KeyObject } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import type { Db } from "../platform/db/index.ts";
import { badRequest, invalidField, notFound } from "../platform/problem.ts";
import { createFairQueue } from "../platform/fair-queue.ts";
import { orgOf, type Permissions } from "../permissions/index.ts";
import type { CertificateView, ProfileListQuery } from "./contract.ts";
import { attributesOf, toListed, type CertificateRow } from "./model.ts";
import { seenOf, seenPage, seesAll, sightOf } from "./sight.ts";
import {
  findCertificate,
  findLatestActive,
  removeCertificate,
  setRenewalTime,
} from "./store/certificates.ts";
import { listOfProfile } from "./store/profile-list.ts";
import { namesOfProfile, searchInProfile } from "./store/profile-search.ts";
import { NEWEST_SAMPLED, planSearch, sampleOf, type SearchSample } from "./search-planner.model.ts";
import { renewalTime, openCertificateKey } from "../signing/index.ts";
import { judged, statusOf, chainToPem } from "../certificates/index.ts";
import type { Profiles, ProfileRow } from "../profiles/index.ts";
import { buildJks, buildPkcs12, certificateToPem, exportPkcs8Pem, fingerprintsOf } from "@keyward/x509";

interface InventoryNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly profiles: Profiles;
}

/** A sample only guides the search, so it may be some minutes old. */
const SAMPLE_MS = 300_000;
const SMALL_SAMPLE_MS = 5_000;
const SAMPLED_PROFILES = 200;

export type Inventory = ReturnType<typeof createInventory>;

/** By what was asked for: the time of the next try moves when one has failed. */
function renewBeforeDays(row: CertificateRow): number {
  const { renewBeforeSeconds } = row.details;
  const wished = renewalTime(row, { autoRenew: true, renewBeforeSeconds }) ?? row.notAfter;
  return Math.max(1, Math.round((row.notAfter.getTime() - wished.getTime()) / 86_400_000));
}

function toCertificateView(row: CertificateRow, now: Date): CertificateView {
  const { details } = row;
  const { subject = {}, pathLength } = details;
  const fingerprints = fingerprintsOf(row.der);
  return {
    ...row,
    caId: row.authorityId,
    caCertId: row.authorityCertificateId,
    certificateTemplateId: null,
    status: statusOf(row, now),
    friendlyName: details.friendlyName ?? row.commonName,
    altNames: row.altNames.map(({ value }) => value).join(","),
    keyUsages: [...(details.keyUsages ?? [])],
    extendedKeyUsages: [...(details.extendedKeyUsages ?? [])],
    renewBeforeDays: row.renewAt ? renewBeforeDays(row) : null,
    renewedFromCertificateId: row.renewedFromId,
    renewedByCertificateId: row.renewedById,
    subjectOrganization: subject.organization ?? null,
    subjectOrganizationalUnit: subject.organizationalUnit ?? null,
    subjectCountry: subject.country ?? null,
    subjectState: subject.state ?? null,
    subjectLocality: subject.locality ?? null,
    fingerprintSha256: fingerprints.sha256,
    fingerprintSha1: fingerprints.sha1,
    fingerprints,
    isCA: row.isCa,
    pathLength: pathLength ?? null,
    keySource: "keyward",
    subject: { ...subject, domainComponents: [...(subject.domainComponents ?? [])] },
    basicConstraints: { isCA: row.isCa, ...(pathLength === undefined ? {} : { pathLength }) },
    caName: row.authorityName,
    caType: row.authorityId ? "internal" : null,
    profileName: row.profileSlug,
    hasPrivateKey: row.sealedKey !== null,
    metadata: [...(details.metadata ?? [])],
  };
}

/** Each takes as long as a few signatures, and a caller that fetches hundreds of them waits behind itself. */
const turns = createFairQueue({
  what: "keystores are being sealed",
  places: 2,
  perTenant: 1,
  waitingPerTenant: 512,
  waiting: 4096,
  patienceMs: 30_000,
});

export function createInventory({ db, clock, keyring, permissions, profiles }: InventoryNeeds) {
  /** The certificate, if it is of the caller's organisation and the caller may do that with it. */
  const find = async (actor: MemberActor, id: string, action: string): Promise<CertificateRow> => {
    const row = await db.read((q) => findCertificate(q, orgOf(actor), id));
    if (!row) throw notFound("The certificate", id);
    await permissions.requireInProject(actor, row.projectId, {
      action,
      subject: "certificates",
      attributes: attributesOf(row, clock.now()),
    });
    return row;
  };

  /** Every read of a private key leaves a row in the audit log before the key is sent. */
  const openKey = async (actor: MemberActor, row: CertificateRow): Promise<KeyObject | undefined> => {
    const key = await openCertificateKey(keyring, row);
    if (!key) return undefined;
    await db.write(async (tx) => {
      tx.audit(actor, {
        event: "read-certificate-private-key",
        orgId: row.orgId,
        projectId: row.projectId,
        metadata: { certificateId: row.id, serialNumber: row.serialNumber },
      });
    });
    return key;
  };

  const requireKey = async (
    actor: MemberActor,
    id: string,
  ): Promise<{ row: CertificateRow; key: KeyObject }> => {
    const row = await find(actor, id, "read-private-key");
    const key = await openKey(actor, row);
    if (!key) throw notFound("A private key of this certificate");
    return { row, key };
  };

  const bundleOf = async (actor: MemberActor, row: CertificateRow) => {
    const ability = await permissions.inProject(actor, row.projectId);
    const key = ability.can("read-private-key", "certificates", attributesOf(row, clock.now()))
      ? await openKey(actor, row)
      : undefined;
    return {
      certificate: certificateToPem(row.der).trimEnd(),
      certificateChain: row.chain && row.chain.length > 0 ? chainToPem(row.chain) : null,
      privateKey: key ? exportPkcs8Pem(key).trimEnd() : null,
      serialNumber: row.serialNumber,
    };
  };

  /** To switch on automatic renewal, the caller must be allowed to issue now. */
  const requireRenewable = async (actor: MemberActor, row: CertificateRow): Promise<void> => {
    if (row.sealedKey === null)
      throw badRequest("The server cannot renew this certificate: its private key is not kept here.");
    if (row.profileId === null)
      throw badRequest("The server cannot renew this certificate: it is under no profile.");
    await profiles.find(actor, row.profileId, "issue-cert");
    if (row.renewedById !== null || statusOf(row, clock.now()) !== "active")
      throw badRequest("Only an active certificate that was not renewed yet can be renewed.");
  };

  const samples = new LRUCache<string, SearchSample>({ max: SAMPLED_PROFILES });

  const takeSample = async (profileId: string): Promise<SearchSample> => {
    const sample = await sampleOf(await db.read((q) => namesOfProfile(q, profileId)));
    samples.set(profileId, sample, {
      ttl: sample.newestCount < NEWEST_SAMPLED ? SMALL_SAMPLE_MS : SAMPLE_MS,
    });
    return sample;
  };

  const searchProfile = async (
    profile: Pick<ProfileRow, "id" | "orgId">,
    query: ProfileListQuery & { readonly search: string },
    now: Date,
  ) => {
    const sample = samples.get(profile.id) ?? (await takeSample(profile.id));
    return db.read(
      (q) => searchInProfile(q, profile.id, query, { now, plan: planSearch(query.search, sample, query) }),
      { tenant: profile.orgId },
    );
  };

  return {
    find,

    /** Operation 1. */
    async ofProfile(actor: MemberActor, profileId: string, query: ProfileListQuery) {
      const profile = await profiles.find(actor, profileId, "read");
      const now = clock.now();
      const sight = sightOf(await permissions.inProject(actor, profile.projectId));
      const turn = { tenant: profile.orgId };
      const read = (offset: number, limit: number) => {
        const { search } = query;
        const asked = { ...query, offset, limit };
        return search
          ? searchProfile(profile, { ...asked, search }, now)
          : db.read((q) => listOfProfile(q, profile.id, asked, now), turn);
      };
      const rows = seesAll(sight)
        ? await read(query.offset, query.limit)
        : await seenPage(read, (some) => seenOf({ db, turn, now }, sight, some), query);
      return { certificates: rows.map((row) => toListed(row, now)) };
    },

    async latestActive(actor: MemberActor, profileId: string) {
      const profile = await profiles.find(actor, profileId, "read");
      const latest = await db.read((q) => findLatestActive(q, profile.id, clock.now()));
      if (!latest) return { certificate: null, certificateChain: null, privateKey: null, serialNumber: null };
      return bundleOf(actor, await find(actor, latest.id, "read"));
    },

    get: async (actor: MemberActor, id: string) =>
      toCertificateView(await find(actor, id, "read"), clock.now()),

    async body(actor: MemberActor, id: string) {
      const { der, chain, serialNumber } = await find(actor, id, "read");
      return {
        certificate: certificateToPem(der).trimEnd(),
        certificateChain: chain && chain.length > 0 ? chainToPem(chain) : null,
        serialNumber,
      };
    },

    bundle: async (actor: MemberActor, id: string) => bundleOf(actor, await find(actor, id, "read")),

    privateKey: async (actor: MemberActor, id: string): Promise<string> =>
      exportPkcs8Pem((await requireKey(actor, id)).key).trimEnd(),

    async keystore(
      actor: MemberActor,
      id: string,
      wish: { format: "pkcs12" | "jks"; password: string; alias?: string | undefined },
    ): Promise<Buffer> {
      const contents = async () => {
        const { row, key } = await requireKey(actor, id);
        const friendlyName = wish.alias ?? row.details.friendlyName ?? (row.commonName || row.serialNumber);
        return { privateKey: key, certificate: row.der, chain: row.chain ?? [], friendlyName };
      };
      if (wish.format === "jks") {
        const bundle = await contents();
        return judged("password", () =>
          buildJks(bundle, { password: wish.password, createdAt: clock.now() }),
        );
      }
      const { orgId } = await find(actor, id, "read-private-key");
      // The key is decrypted in the turn and not before: rights may be lost while it waits.
      return turns.run(orgId, async () => buildPkcs12(await contents(), { password: wish.password }));
    },

    async setRenewal(
      actor: MemberActor,
      id: string,
      wish: { renewBeforeDays?: number | undefined; enableAutoRenewal?: boolean | undefined },
    ) {
      if (wish.enableAutoRenewal === undefined && wish.renewBeforeDays === undefined)
        throw invalidField(["enableAutoRenewal"], "send enableAutoRenewal, renewBeforeDays or both");
      const row = await find(actor, id, "edit");
      const isOn = wish.enableAutoRenewal ?? true;
      if (isOn) await requireRenewable(actor, row);
      const asked = wish.renewBeforeDays === undefined ? undefined : wish.renewBeforeDays * 86_400;
      const renewBeforeSeconds = asked ?? row.details.renewBeforeSeconds;
      const renewAt = renewalTime(row, { autoRenew: isOn, renewBeforeSeconds });
      const own = { autoRenewal: isOn, ...(renewBeforeSeconds === undefined ? {} : { renewBeforeSeconds }) };
      await db.write(async (tx) => {
        setRenewalTime(tx, id, renewAt, { at: clock.now(), own });
        tx.audit(actor, {
          event: "update-certificate-renewal",
          orgId: row.orgId,
          projectId: row.projectId,
          metadata: { certificateId: id, autoRenewal: isOn },
        });
      });
      return {
        message: isOn
          ? "The server will renew this certificate."
          : "The server will not renew this certificate.",
        ...(wish.renewBeforeDays === undefined ? {} : { renewBeforeDays: wish.renewBeforeDays }),
      };
    },

    /** An active certificate of ours cannot be removed: it could not be revoked any more. */
    async delete(actor: MemberActor, id: string): Promise<CertificateView> {
      const row = await find(actor, id, "delete");
      const now = clock.now();
      if (row.source === "issued" && row.notAfter > now)
        throw badRequest(
          "A certificate issued here can be removed once it has expired; until then its revocation must be known.",
        );
      await db.write(async (tx) => {
        if (!(await removeCertificate(tx, id))) throw notFound("The certificate", id);
        tx.audit(actor, {
          event: "delete-certificate",
          orgId: row.orgId,
          projectId: row.projectId,
          metadata: { certificateId: id, serialNumber: row.serialNumber },
        });
      });
      return toCertificateView(row, now);
    },
  };
}
