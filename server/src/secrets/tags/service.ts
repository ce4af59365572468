/**
 * Labels on secrets, for searching and for conditions of roles. Looked up whenever they matter and not
 * cached: a role may depend on a tag, and an answer must not be newer in its revision than in its tags.
 */
import type { MemberActor } from "../../platform/actor.ts";
import { createBound } from "../../platform/bound.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import { isUniqueViolation, type Db, type Tx } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { inChunks, Pace } from "../../platform/pace.ts";
import { conflict, notFound } from "../../platform/problem.ts";
import { JudgingBudget } from "../../permissions/index.ts";
import { requireRight, type Access, type ProjectScope } from "../access.ts";
import { originsOf, writeChangesNow, type SecretChangeStep } from "../changes.ts";
import { findDependants } from "../changes.store.ts";
import { attributesOf, decryptState, type FolderPlace, type TagRef } from "../model.ts";
import { nextDraft } from "../service/drafts.ts";
import { touchProject } from "../revisions.store.ts";
import { lockTreeAlone } from "../store.ts";
import type { NewTag, TagChange } from "./contract.ts";
import {
  countTags,
  deleteTag,
  findTag,
  findTagBySlug,
  findTags,
  insertTag,
  nextTagged,
  PAGE,
  tagsOfProject,
  updateTag,
  versionsWithTag,
  type TaggedSecret,
  type TaggedVersion,
  type TagRow,
} from "./store.ts";

type KnownTags = ReadonlyMap<string, TagRef>;

interface TagNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly access: Access;
}

export type Tags = ReturnType<typeof createTags>;

/** They are listed in one answer, and a project file holds no more. */
const room = createBound({ most: 10_000, words: ["A project has at most", "tags"], count: countTags });
const NONE: readonly TagRef[] = [];
const NO_TAGS: KnownTags = new Map();
const placeOf = ({ folderId, projectId, environmentId, environment, path }: TaggedSecret): FolderPlace => ({
  id: folderId,
  projectId,
  environmentId,
  environment,
  path,
});
const unknownTag = (id: string) => notFound("The tag", id);

export function createTags({ db, clock, keyring, access }: TagNeeds) {
  /** Answers once for a whole list of secrets; most have no tags, and then nothing is asked. */
  const lookUp = async (projectId: string, idLists: readonly (readonly string[])[]): Promise<KnownTags> => {
    const ids = new Set<string>();
    await inChunks(idLists, (list) => {
      for (const id of list) ids.add(id);
    });
    if (ids.size === 0) return NO_TAGS;
    const rows = await db.read((q) => findTags(q, projectId, [...ids]));
    return new Map(
      rows.map((row) => [row.id, { id: row.id, slug: row.slug, name: row.name, color: row.color }]),
    );
  };

  const write = async <T extends TagRow | undefined>(
    scope: ProjectScope,
    event: string,
    change: (tx: Tx) => Promise<T>,
  ) => {
    try {
      return await db.write(
        async (tx) => {
          const row = await change(tx);
          if (!row) throw notFound("The tag");
          const { orgId, id: projectId } = scope.project;
          tx.audit(scope.actor, { event, orgId, projectId, metadata: { tagId: row.id, slug: row.slug } });
          touchProject(tx, projectId);
          return row;
        },
        { tenant: scope.project.orgId },
      );
    } catch (error) {
      if (isUniqueViolation(error, "tags_slug_unique"))
        throw conflict("A tag with this slug exists in the project already.");
      throw error;
    }
  };

  const enter = async (actor: MemberActor, projectRef: string, action: string): Promise<ProjectScope> => {
    const scope = await access.scope(actor, projectRef);
    requireRight(scope.ability, action, "tags", {});
    return scope;
  };

  /**
   * A tag may be what protects values, so only a caller who can read everything that carries it may remove it or give it
   * another meaning: every secret, and every older version, which is checked by the tags it had. The caller holds the
   * exclusive lock on the tree, so nothing gets the tag meanwhile.
   */
  const requireReadable = async (tx: Tx, { ability, project }: ProjectScope, id: string): Promise<void> => {
    let last: TaggedVersion | undefined;
    const budget = new JudgingBudget();
    do {
      const page = await versionsWithTag(tx, { projectId: project.id, id }, last);
      const known = await lookUp(
        project.id,
        page.map((one) => one.tagIds),
      );
      for (const one of page) {
        requireRight(ability, "readValue", "secrets", attributesOf(one, one.key, tagsFor(known, one.tagIds)));
        if (budget.isDue()) await budget.giveWay();
      }
      last = page.length < PAGE ? undefined : page.at(-1);
    } while (last);
  };

  /** Each secret changes as if the tag had been removed by hand: a version, and a fact. */
  const untag = async (tx: Tx, { actor, project }: ProjectScope, id: string): Promise<void> => {
    const { orgId, id: projectId } = project;
    const dataKey = await keyring.dataKeyOf({ projectId }, tx);
    const at = clock.now();
    for (let last: TaggedSecret | undefined; ;) {
      const page = await nextTagged(tx, { projectId, id }, last);
      if (page.length === 0) return;
      const changes: SecretChangeStep[] = [];
      const pace = new Pace();
      for (const before of page) {
        if (pace.isDue()) await pace.rest();
        const from = placeOf(before);
        const state = decryptState(await keyring.dataKeyById(before.keyId, tx), before);
        const tagIds = state.tagIds.filter((other) => other !== id);
        changes.push({
          kind: "update",
          before,
          from,
          after: nextDraft(before, from, before.key, { ...state, tagIds }),
          isSameText: true,
        });
      }
      const affected = await findDependants(
        tx,
        page.flatMap((row) => originsOf(row, [row.key])),
      );
      await writeChangesNow(tx, { actor, orgId, projectId, dataKey, at }, changes, affected);
      last = page.at(-1);
    }
  };

  return {
    lookUp,

    /** The tags behind the ids that a caller sent; an unknown one is a mistake of the caller. */
    async resolver(projectId: string, idLists: readonly (readonly string[])[]) {
      const known = await lookUp(projectId, idLists);
      return (ids: readonly string[]): readonly TagRef[] =>
        ids.length === 0
          ? NONE
          : [...new Set(ids)].map((id) => {
              const tag = known.get(id);
              if (!tag) throw unknownTag(id);
              return tag;
            });
    },

    async list(actor: MemberActor, projectRef: string): Promise<TagRow[]> {
      const { project } = await enter(actor, projectRef, "read");
      return db.read((q) => tagsOfProject(q, project.id));
    },
    async get(actor: MemberActor, projectRef: string, id: string): Promise<TagRow> {
      const { project } = await enter(actor, projectRef, "read");
      const row = await db.read((q) => findTag(q, project.id, id));
      if (!row) throw unknownTag(id);
      return row;
    },
    async getBySlug(actor: MemberActor, projectRef: string, slug: string): Promise<TagRow> {
      const { project } = await enter(actor, projectRef, "read");
      const row = await db.read((q) => findTagBySlug(q, project.id, slug));
      if (!row) throw unknownTag(slug);
      return row;
    },
    /** For a caller that creates many, one after the other. */
    requireRoom: (projectId: string, more: number) => db.read((q) => room.check(q, projectId, more)),

    async create(actor: MemberActor, projectRef: string, input: NewTag): Promise<TagRow> {
      const scope = await enter(actor, projectRef, "create");
      const row = {
        id: newId(),
        projectId: scope.project.id,
        slug: input.slug,
        name: input.name ?? input.slug,
        color: input.color,
        at: clock.now(),
      };
      return write(scope, "create-tag", async (tx) => {
        await room.leaveRoom(tx, row.projectId);
        return insertTag(tx, row);
      });
    },
    async update(actor: MemberActor, projectRef: string, id: string, patch: TagChange): Promise<TagRow> {
      const scope = await enter(actor, projectRef, "edit");
      if (!(await db.read((q) => findTag(q, scope.project.id, id)))) throw unknownTag(id);
      return write(scope, "update-tag", async (tx) => {
        if (patch.slug !== undefined) {
          await lockTreeAlone(tx, scope.project.id);
          // Asked only now: somebody else may have renamed it meanwhile.
          const known = await findTag(tx, scope.project.id, id);
          if (known && patch.slug !== known.slug) await requireReadable(tx, scope, id);
        }
        return updateTag(tx, { projectId: scope.project.id, id }, patch, clock.now());
      });
    },
    async delete(actor: MemberActor, projectRef: string, id: string): Promise<TagRow> {
      const scope = await enter(actor, projectRef, "delete");
      if (!(await db.read((q) => findTag(q, scope.project.id, id)))) throw unknownTag(id);
      return write(scope, "delete-tag", async (tx) => {
        await lockTreeAlone(tx, scope.project.id);
        await requireReadable(tx, scope, id);
        await untag(tx, scope, id);
        return deleteTag(tx, scope.project.id, id);
      });
    },
  };
}

/** The tags of one secret, out of those of its project. */
export const tagsFor = (known: KnownTags, ids: readonly string[]): readonly TagRef[] =>
  ids.length === 0 ? NONE : ids.flatMap((id) => known.get(id) ?? []);
