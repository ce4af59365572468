import type { ProjectRow } from "../projects/index.ts";
import type { MemberActor } from "../platform/actor.ts";
import { createBound } from "../platform/bound.ts";
import type { Clock } from "../platform/clock.ts";
import { isUniqueViolation, type Db, type Tx } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { createFactCache, type Tail } from "../platform/outbox/index.ts";
import { badRequest, conflict, notFound } from "../platform/problem.ts";
import { CATALOGUE, orgOf, type Ability, type Permissions, visiblePart } from "../permissions/index.ts";
import { projectDeleted } from "../projects/index.ts";
import type { NewProfile, ProfileChange, ProfileQuery, ProfileView } from "./contract.ts";
import {
  countAllProfiles,
  countProfiles,
  deleteProfile,
  findProfile,
  findProfileBySlug,
  hasAuthority,
  hasPolicy,
  holdProfile,
  insertProfile,
  listProfiles,
  listProfilesById,
  listProfileSlugs,
  updateProfile,
  type ProfileRow,
  type ProfileWrite,
} from "./store.ts";
import { issuanceChanged } from "../certificates/events.ts";
import {
  judged,
  MOST_LOOKED_THROUGH,
  type CertificateScope,
  noteCertificateProject,
} from "../certificates/index.ts";
import { parseKeyAlgorithm, parseSignatureAlgorithm } from "@keyward/x509";

interface ProfileNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly tail: Tail;
  readonly permissions: Permissions;
  readonly scope: CertificateScope;
}

/** For a caller who may see some of them, all are checked for a page. */
const room = createBound({
  most: MOST_LOOKED_THROUGH,
  words: ["A project has at most", "certificate profiles"],
  count: countAllProfiles,
});

export type Profiles = ReturnType<typeof createProfiles>;

const CACHED_PROFILES = 5_000;

const toProfileView = (row: ProfileRow): ProfileView => ({
  ...row,
  caId: row.authorityId,
  certificatePolicyId: row.policyId,
  estConfigId: null,
  apiConfigId: row.id,
  acmeConfigId: null,
  scepConfigId: null,
  apiConfig: {
    id: row.id,
    autoRenew: row.autoRenew,
    renewBeforeDays: row.renewBeforeDays,
    renewBeforePercent: row.renewBeforePercent,
  },
  certificateAuthority: row.authority && { ...row.authority, isExternal: false, externalType: null },
  certificatePolicy: { id: row.policyId, name: row.policyName, description: row.policyDescription },
});

const PROFILE_ACTIONS =
  CATALOGUE.project.find(({ subject }) => subject === "certificate-profiles")?.actions ?? [];

function requireIssuer({ issuerType, authorityId }: ProfileWrite): void {
  if (issuerType === "ca" && authorityId === null)
    throw badRequest("A profile of issuer type ca needs caId; or choose issuerType self-signed.");
}

const given = <T>(value: T | null | undefined, old: T | null): T | null =>
  value === undefined ? old : value;

function changedRenewal(before: ProfileRow, renewal: ProfileChange["apiConfig"]) {
  const { autoRenew = before.autoRenew, renewBeforeDays: days, renewBeforePercent: percent } = renewal ?? {};
  return {
    autoRenew,
    renewBeforeDays: percent && days === undefined ? null : given(days, before.renewBeforeDays),
    renewBeforePercent: days && percent === undefined ? null : given(percent, before.renewBeforePercent),
  };
}

const changed = (before: ProfileRow, input: ProfileChange, at: Date): ProfileWrite => ({
  ...before,
  authorityId: given(input.caId, before.authorityId),
  policyId: input.certificatePolicyId ?? before.policyId,
  slug: input.slug ?? before.slug,
  description: given(input.description, before.description),
  issuerType: input.issuerType ?? before.issuerType,
  defaults: given(input.defaults, before.defaults),
  externalConfigs: given(input.externalConfigs, before.externalConfigs),
  ...changedRenewal(before, input.apiConfig),
  updatedAt: at,
});

export function createProfiles({ db, clock, tail, permissions, scope }: ProfileNeeds) {
  const cache = createFactCache<ProfileRow>(tail, CACHED_PROFILES);
  tail.onInvalidate((fact) => {
    if (issuanceChanged.is(fact) || projectDeleted.is(fact))
      cache.dropWhere((row) => row.projectId === fact.data.projectId);
  });

  const require = (actor: MemberActor, projectId: string, action: string, slug?: string) =>
    permissions.requireInProject(actor, projectId, {
      action,
      subject: "certificate-profiles",
      ...(slug === undefined ? {} : { attributes: { slug } }),
    });

  /** The profile, if it is of the caller's organisation and the caller may do that with it. */
  const find = async (actor: MemberActor, id: string, action: string): Promise<ProfileRow> => {
    const orgId = orgOf(actor);
    const row = await cache.get(id, () => db.read((q) => findProfile(q, id)));
    if (row?.orgId !== orgId) throw notFound("The certificate profile", id);
    await require(actor, row.projectId, action, row.slug);
    return row;
  };

  const check = async (row: ProfileWrite): Promise<void> => {
    const { authorityId, defaults } = row;
    if (defaults?.keyAlgorithm)
      judged("defaults.keyAlgorithm", () => parseKeyAlgorithm(defaults.keyAlgorithm ?? ""));
    if (defaults?.signatureAlgorithm)
      judged("defaults.signatureAlgorithm", () => parseSignatureAlgorithm(defaults.signatureAlgorithm ?? ""));
    if (authorityId !== null && !(await db.read((q) => hasAuthority(q, row.projectId, authorityId))))
      throw notFound("The certificate authority", authorityId);
    if (!(await db.read((q) => hasPolicy(q, row.projectId, row.policyId))))
      throw notFound("The certificate policy", row.policyId);
    requireIssuer(row);
  };

  /** Rights name a profile by its slug: nobody renames it to be rid of a denial, or to get what they had not. */
  const requireRename = async (actor: MemberActor, row: ProfileRow, slug: string): Promise<void> => {
    const ability = await require(actor, row.projectId, "edit", slug);
    for (const action of PROFILE_ACTIONS)
      if (ability.can(action, "certificate-profiles", { slug }))
        await require(actor, row.projectId, action, row.slug);
  };

  const pageOfAll = (project: ProjectRow, query: ProfileQuery) =>
    db.read(
      async (q) => {
        const [rows, total] = await Promise.all([
          listProfiles(q, project.id, query),
          countProfiles(q, project.id, query),
        ]);
        return { rows, total };
      },
      { tenant: project.orgId },
    );

  /** By slug first: what a caller may not see is neither counted nor looked at any further. */
  const pageOf = async (ability: Ability, project: ProjectRow, query: ProfileQuery) => {
    const slugs = await db.read((q) => listProfileSlugs(q, project.id, query, MOST_LOOKED_THROUGH), {
      tenant: project.orgId,
    });
    const mayRead = ({ slug }: { slug: string }) => ability.can("read", "certificate-profiles", { slug });
    const { rows: seen, total } = await visiblePart(slugs, mayRead, query);
    const ids = seen.map(({ id }) => id);
    return { rows: await db.read((q) => listProfilesById(q, ids), { tenant: project.orgId }), total };
  };

  const change = async (
    actor: MemberActor,
    event: string,
    row: ProfileWrite,
    work: (tx: Tx) => Promise<ProfileWrite | void>,
  ): Promise<void> => {
    let slug = row.slug;
    try {
      await db.write(async (tx) => {
        slug = (await work(tx))?.slug ?? slug;
        tx.audit(actor, {
          event,
          orgId: orgOf(actor),
          projectId: row.projectId,
          metadata: { profileId: row.id, slug },
        });
        tx.emit(issuanceChanged({ projectId: row.projectId }));
      });
    } catch (error) {
      if (isUniqueViolation(error, "certificate_profiles_slug_unique"))
        throw conflict(`A profile with the slug ${slug} exists in this project already.`);
      throw error;
    }
  };

  const reread = async (id: string): Promise<ProfileView> => {
    const row = await db.read((q) => findProfile(q, id));
    if (!row) throw notFound("The certificate profile", id);
    return toProfileView(row);
  };

  return {
    find,

    /** For background jobs. */
    load: (id: string): Promise<ProfileRow | undefined> =>
      cache.get(id, () => db.read((q) => findProfile(q, id))),

    async create(actor: MemberActor, input: NewProfile): Promise<ProfileView> {
      const project = await scope.projectOf(actor, input.projectId);
      await require(actor, project.id, "create", input.slug);
      const at = clock.now();
      const row: ProfileWrite = {
        id: newId(),
        projectId: project.id,
        authorityId: input.caId ?? null,
        policyId: input.certificatePolicyId,
        slug: input.slug,
        description: input.description ?? null,
        issuerType: input.issuerType,
        enrollmentType: input.enrollmentType,
        defaults: input.defaults ?? null,
        externalConfigs: input.externalConfigs ?? null,
        autoRenew: input.apiConfig?.autoRenew ?? false,
        renewBeforeDays: input.apiConfig?.renewBeforeDays ?? null,
        renewBeforePercent: input.apiConfig?.renewBeforePercent ?? null,
        createdAt: at,
        updatedAt: at,
      };
      await check(row);
      await change(actor, "create-certificate-profile", row, async (tx) => {
        await room.leaveRoom(tx, project.id);
        noteCertificateProject(tx, project.id);
        insertProfile(tx, row);
      });
      return reread(row.id);
    },

    async list(actor: MemberActor, query: ProfileQuery) {
      const project = await scope.projectOf(actor, query.projectId);
      const ability = await require(actor, project.id, "read");
      const isAll = ability.can("read", "certificate-profiles", {});
      const { rows, total } = await (isAll ? pageOfAll(project, query) : pageOf(ability, project, query));
      return { certificateProfiles: rows.map(toProfileView), totalCount: total };
    },

    get: async (actor: MemberActor, id: string) => toProfileView(await find(actor, id, "read")),

    async getBySlug(actor: MemberActor, ref: string | undefined, slug: string): Promise<ProfileView> {
      const project = await scope.projectOf(actor, ref);
      const row = await db.read((q) => findProfileBySlug(q, project.id, slug));
      if (!row) throw notFound("The certificate profile", slug);
      await require(actor, project.id, "read", slug);
      return toProfileView(row);
    },

    /** Made of what the row says when it is written: others may have changed it a moment ago, on another node. */
    async update(actor: MemberActor, id: string, input: ProfileChange): Promise<ProfileView> {
      await find(actor, id, "edit");
      const before = await db.read((q) => findProfile(q, id));
      if (!before) throw notFound("The certificate profile", id);
      await require(actor, before.projectId, "edit", before.slug);
      const wanted = changed(before, input, clock.now());
      await check(wanted);
      if (wanted.slug !== before.slug) await requireRename(actor, before, wanted.slug);
      await change(actor, "update-certificate-profile", before, async (tx) => {
        const current = await holdProfile(tx, id);
        if (!current) throw notFound("The certificate profile", id);
        if (current.slug !== before.slug)
          throw conflict("Somebody else gave the profile another slug at the same time.");
        const row = changed(current, input, clock.now());
        requireIssuer(row);
        updateProfile(tx, row);
        return row;
      });
      return reread(id);
    },

    async delete(actor: MemberActor, id: string): Promise<ProfileView> {
      const row = await find(actor, id, "delete");
      await change(actor, "delete-certificate-profile", row, async (tx) => deleteProfile(tx, id));
      return toProfileView(row);
    },
  };
}
