import type { MemberActor } from "../platform/actor.ts";
import { createBound } from "../platform/bound.ts";
import type { Clock } from "../platform/clock.ts";
import { isForeignKeyViolation, isUniqueViolation, type Db, type Tx } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { notFound } from "../platform/problem.ts";
import { orgOf, permittedOf, type Permissions } from "../permissions/index.ts";
import type { NewPolicy, PolicyChange, PolicyRules } from "./contract.ts";
import { checkPolicy, policyInUse, policyNameTaken } from "./model.ts";
import {
  countPolicies,
  deletePolicy,
  findPolicies,
  findPolicy,
  insertPolicy,
  policyNames,
  updatePolicy,
  type PolicyRow,
} from "./store.ts";
import { issuanceChanged } from "../certificates/events.ts";
import { createNamedAccess, type CertificateScope } from "../certificates/index.ts";

interface PolicyNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly scope: CertificateScope;
}

/** All names are read for a page. */
const room = createBound({
  most: 10_000,
  words: ["A project has at most", "certificate policies"],
  count: countPolicies,
});

export type Policies = ReturnType<typeof createPolicies>;

const PARTS = [
  "subject",
  "sans",
  "keyUsages",
  "extendedKeyUsages",
  "algorithms",
  "validity",
  "basicConstraints",
] as const;

/** Only what was said: a part that is null or absent restricts nothing and is not stored. */
function rulesFrom(input: Partial<PolicyRules>, before: PolicyRules = {}): PolicyRules {
  const rules: Record<string, unknown> = { ...before };
  for (const part of PARTS) {
    if (input[part] === null) delete rules[part];
    else if (input[part] !== undefined) rules[part] = input[part];
  }
  return rules as PolicyRules;
}

const toPolicyView = ({ rules, ...row }: PolicyRow) => ({ ...row, ...rules });

export function createPolicies({ db, clock, permissions, scope }: PolicyNeeds) {
  const { require, find } = createNamedAccess(
    { db, permissions },
    { subject: "certificate-policies", what: "The certificate policy", find: findPolicy },
  );

  const change = async (
    actor: MemberActor,
    event: string,
    row: PolicyRow,
    work: (tx: Tx) => Promise<unknown>,
  ) => {
    try {
      await db.write(async (tx) => {
        await work(tx);
        tx.audit(actor, {
          event,
          orgId: orgOf(actor),
          projectId: row.projectId,
          metadata: { policyId: row.id, name: row.name },
        });
        tx.emit(issuanceChanged({ projectId: row.projectId }));
      });
    } catch (error) {
      if (isUniqueViolation(error, "certificate_policies_name_unique")) throw policyNameTaken(row.name);
      if (isForeignKeyViolation(error, "certificate_profiles_policy")) throw policyInUse();
      throw error;
    }
    return toPolicyView(row);
  };

  return {
    find,

    async create(actor: MemberActor, input: NewPolicy) {
      const project = await scope.projectOf(actor, input.projectId);
      await require(actor, project.id, "create", input.name);
      const rules = rulesFrom(input);
      checkPolicy(rules);
      const at = clock.now();
      const row: PolicyRow = {
        id: newId(),
        projectId: project.id,
        name: input.name,
        description: input.description ?? null,
        rules,
        createdAt: at,
        updatedAt: at,
      };
      return change(actor, "create-certificate-policy", row, async (tx) => {
        await room.leaveRoom(tx, project.id);
        insertPolicy(tx, row);
      });
    },

    async list(
      actor: MemberActor,
      ref: string | undefined,
      page: { readonly offset: number; readonly limit: number; readonly search?: string | undefined },
    ) {
      const project = await scope.projectOf(actor, ref);
      const ability = await require(actor, project.id, "read");
      // A caller who may see some of them gets full pages of those, and no hint of how many others there are.
      const names = await db.read((q) => policyNames(q, project.id, page.search), { tenant: project.orgId });
      const visible = await permittedOf(names, ({ name }) =>
        ability.can("read", "certificate-policies", { name }),
      );
      const shown = visible.slice(page.offset, page.offset + page.limit).map(({ id }) => id);
      const rows =
        shown.length === 0 ? [] : await db.read((q) => findPolicies(q, shown), { tenant: project.orgId });
      return { certificatePolicies: rows.map(toPolicyView), totalCount: visible.length };
    },

    get: async (actor: MemberActor, id: string) => toPolicyView(await find(actor, id, "read")),

    async update(actor: MemberActor, id: string, input: PolicyChange) {
      const before = await find(actor, id, "edit");
      const rules = rulesFrom(input, before.rules);
      checkPolicy(rules);
      const description = input.description === undefined ? before.description : input.description;
      const row: PolicyRow = {
        ...before,
        name: input.name ?? before.name,
        description,
        rules,
        updatedAt: clock.now(),
      };
      return change(actor, "update-certificate-policy", row, async (tx) => {
        if (!(await updatePolicy(tx, row))) throw notFound("The certificate policy", id);
      });
    },

    async delete(actor: MemberActor, id: string) {
      const row = await find(actor, id, "delete");
      return change(actor, "delete-certificate-policy", row, (tx) => deletePolicy(tx, id));
    },
  };
}
