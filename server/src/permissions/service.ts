/**
 * May this actor do that, now? Rights come from the roles of a membership; they are compiled once and remembered
 * until a fact says they changed or a temporary role starts or ends. Deny by default.
 */
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db/index.ts";
import { createFactCache, type Tail } from "../platform/outbox/index.ts";
import { badRequest, permissionBoundary, permissionDenied } from "../platform/problem.ts";
import { accessChanged } from "./events.ts";
import {
  builtinRules,
  compileRules,
  type Ability,
  type ConditionAttributes,
  type Rule,
  type RoleScopeKind,
} from "./model/index.ts";
import { missingInChunks } from "./service/compare-rights.ts";
import { rolesInOrganization, rolesInProject, type HeldRole } from "./store.ts";

interface PermissionNeeds {
  readonly db: Db;
  readonly tail: Tail;
  readonly clock: Clock;
}

/** What someone may do in a scope, until a fact says otherwise or, at the latest, until `validUntil`. */
export interface EffectiveRights {
  readonly ability: Ability;
  readonly isMember: boolean;
  /** When a temporary role starts or ends next; the rights have to be worked out again then. */
  readonly validUntil: number;
}

interface CompiledRights extends EffectiveRights {
  readonly orgId: string;
  readonly projectId: string | null;
  readonly actorId: string;
  /**
   * What the actor can do or will be able to without anyone granting anything more: roles that have yet to start
   * count, and a denial that ends by itself does not.
   */
  readonly futureGrants: readonly Rule[];
  /** The part of the ability that lasts until then. Denials count, however short they are and when they begin. */
  readonly lastingUntil: (until: number) => Ability;
}

export interface Permissions {
  inProject(actor: MemberActor, projectId: string): Promise<Ability>;
  inOrganization(actor: MemberActor): Promise<Ability>;
  /** For what outlasts a request. */
  rightsInProject(actor: MemberActor, projectId: string): Promise<EffectiveRights>;
  requireInProject(actor: MemberActor, projectId: string, wanted: WantedPair): Promise<Ability>;
  requireInOrganization(actor: MemberActor, wanted: WantedPair): Promise<Ability>;
  /** Any role, even one without rights, is enough to see that a project exists and what it is called. */
  requireMember(actor: MemberActor, projectId: string): Promise<void>;
  /** The rules that someone else holds or is about to, for asking whether one may act in their name. */
  rulesOf(
    identity: { readonly id: string; readonly orgId: string },
    projectId: string | null,
  ): Promise<readonly Rule[]>;
  /**
   * Nobody grants more than they hold, nor for longer: throws what is missing. `until` is when the grant ends by
   * itself, in milliseconds; a grant without an end needs rights without one, or an admin for an hour would be an
   * admin for ever.
   */
  requireHolds(holder: Ability, rules: readonly Rule[], what: string, until?: number): Promise<void>;
  requireInstanceAdmin(actor: MemberActor): void;
}

interface WantedPair {
  readonly action: string;
  readonly subject: string;
  readonly attributes?: ConditionAttributes;
}

const CACHED_RIGHTS = 50_000;

function rightsFrom(
  held: readonly HeldRole[],
  scope: RoleScopeKind,
  now: number,
): Omit<CompiledRights, "orgId" | "projectId" | "actorId"> {
  const rules: Rule[] = [];
  const ending: { readonly rule: Rule; readonly ends: number }[] = [];
  const comingDenials: { readonly rule: Rule; readonly starts: number }[] = [];
  const futureGrants: Rule[] = [];
  let validUntil = Number.POSITIVE_INFINITY;
  for (const role of held) {
    const starts = role.startsAt?.getTime() ?? Number.NEGATIVE_INFINITY;
    const ends = role.endsAt?.getTime() ?? Number.POSITIVE_INFINITY;
    if (now >= ends) continue;
    const given = role.role === "custom" ? (role.rules ?? []) : (builtinRules(scope, role.role) ?? []);
    const lasts = role.startsAt === null && role.endsAt === null;
    futureGrants.push(...given.filter((rule) => lasts || rule.inverted !== true));
    if (now >= starts) {
      rules.push(...given);
      ending.push(...given.map((rule) => ({ rule, ends })));
    } else comingDenials.push(...given.filter((rule) => rule.inverted).map((rule) => ({ rule, starts })));
    validUntil = Math.min(validUntil, now < starts ? starts : ends);
  }
  const ability = compileRules(rules);
  const lastingUntil = (until: number): Ability => {
    // What one will be kept from while the grant still stands must not be had through the one it was granted to.
    const coming = comingDenials.filter(({ starts }) => starts < until);
    if (coming.length === 0 && ending.every(({ ends }) => ends >= until)) return ability;
    const lasting = ending.filter(({ rule, ends }) => rule.inverted || ends >= until);
    return compileRules([...lasting, ...coming].map(({ rule }) => rule));
  };
  return { ability, futureGrants, lastingUntil, isMember: held.length > 0, validUntil };
}

// From an ability back to the rights it is of, for asking how long it lasts and where it was refused.
const rightsOf = new WeakMap<Ability, CompiledRights>();
const projectOf = (ability: Ability): string | undefined => rightsOf.get(ability)?.projectId ?? undefined;

export function deny(ability: Ability, { action, subject, attributes }: WantedPair): never {
  const { considered } = ability.explain(action, subject, attributes);
  throw permissionDenied(`You are not allowed to ${action} on ${subject}.`, considered, projectOf(ability));
}

export function createPermissions({ db, tail, clock }: PermissionNeeds): Permissions {
  const cache = createFactCache<CompiledRights>(tail, CACHED_RIGHTS, ({ orgId, projectId, actorId }) => [
    `org:${orgId}`,
    `project:${projectId}`,
    `actor:${orgId}:${actorId}`,
  ]);
  tail.onInvalidate((fact) => {
    if (!accessChanged.is(fact)) return;
    const { orgId, projectId, actorId } = fact.data;
    if (actorId !== null && projectId !== null) return cache.drop(`${projectId}:${actorId}`);
    if (projectId !== null) return cache.dropGroup(`project:${projectId}`);
    cache.dropGroup(actorId === null ? `org:${orgId}` : `actor:${orgId}:${actorId}`);
  });

  const load = async (
    actor: { readonly kind: "identity" | "user"; readonly id: string },
    orgId: string,
    projectId: string | null,
  ): Promise<CompiledRights> => {
    const key = `${projectId ?? orgId}:${actor.id}`;
    const fetch = async (): Promise<CompiledRights> => {
      const held = await db.read((q) =>
        projectId ? rolesInProject(q, projectId, actor) : rolesInOrganization(q, orgId, actor),
      );
      const rights = {
        orgId,
        projectId,
        actorId: actor.id,
        ...rightsFrom(held, projectId ? "project" : "organization", clock.millis()),
      };
      rightsOf.set(rights.ability, rights);
      return rights;
    };
    const rights = (await cache.get(key, fetch)) as CompiledRights;
    if (clock.millis() < rights.validUntil) return rights;
    cache.drop(key);
    return fetch();
  };

  const inProject = async (actor: MemberActor, projectId: string) =>
    (await load(actor, orgOf(actor), projectId)).ability;
  const inOrganization = async (actor: MemberActor) => (await load(actor, orgOf(actor), null)).ability;

  const check = (ability: Ability, wanted: WantedPair): Ability =>
    ability.can(wanted.action, wanted.subject, wanted.attributes) ? ability : deny(ability, wanted);

  return {
    inProject,
    inOrganization,
    rightsInProject: (actor, projectId) => load(actor, orgOf(actor), projectId),
    requireInProject: async (actor, projectId, wanted) => check(await inProject(actor, projectId), wanted),
    requireInOrganization: async (actor, wanted) => check(await inOrganization(actor), wanted),
    async requireMember(actor, projectId) {
      const { isMember } = await load(actor, orgOf(actor), projectId);
      if (!isMember) throw permissionDenied("You are not a member of this project.", [], projectId);
    },
    rulesOf: async (identity, projectId) =>
      (await load({ kind: "identity", id: identity.id }, identity.orgId, projectId)).futureGrants,
    async requireHolds(holder, rules, what, until = Number.POSITIVE_INFINITY) {
      const missing = await missingInChunks(rightsOf.get(holder)?.lastingUntil(until) ?? holder, rules);
      if (missing.length > 0)
        throw permissionBoundary(
          `You cannot grant ${what}: it holds more than you do.`,
          missing,
          projectOf(holder),
        );
    },
    requireInstanceAdmin(actor) {
      if (!actor.isInstanceAdmin)
        throw permissionDenied("Only an instance admin may do this.", [
          { action: "manage", subject: "instance", inverted: false },
        ]);
    },
  };
}

/** A user session has no organisation until one is selected; until then it can reach nothing of any. */
export function orgOf(actor: MemberActor): string {
  if (actor.orgId === null)
    throw badRequest("Select an organisation first: POST /api/v3/auth/select-organization.");
  return actor.orgId;
}
