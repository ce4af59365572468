/** Why may, or may not, somebody do something? The same evaluation that decides, asked for its reasons. */
import type { MemberActor } from "../../platform/actor.ts";
import { Pace } from "../../platform/pace.ts";
import { invalidField, notFound } from "../../platform/problem.ts";
import {
  compileRules,
  findSubject,
  type Ability,
  type ConditionAttributes,
  type Permissions,
  type Rule,
} from "../../permissions/index.ts";
import { canonicalPath } from "../paths.contract.ts";
import { requireRight, type Access } from "../access.ts";
import type { ExplainQuestion } from "./contract.ts";

interface ExplainNeeds {
  readonly access: Access;
  readonly permissions: Permissions;
}

export type Explanations = ReturnType<typeof createExplanations>;

function attributesOf(question: ExplainQuestion): ConditionAttributes {
  const path = question.secretPath === undefined ? undefined : canonicalPath(question.secretPath);
  if (path && !path.ok) throw invalidField(["secretPath"], path.reason);
  return {
    environment: question.environment,
    secretPath: path?.path,
    secretName: question.secretName,
    secretTags:
      question.secretTags === undefined
        ? []
        : question.secretTags
            .split(",")
            .map((slug) => slug.trim())
            .filter((slug) => slug !== ""),
  };
}

const shown = (rule: Rule) => ({
  ...rule,
  subject: [...[rule.subject].flat()],
  action: [...[rule.action].flat()],
  inverted: rule.inverted === true,
});

export function createExplanations({ access, permissions }: ExplainNeeds) {
  return {
    async explain(actor: MemberActor, projectRef: string, question: ExplainQuestion) {
      const scope = await access.scope(actor, projectRef);
      await permissions.requireMember(actor, scope.project.id);
      const subject = findSubject(question.subject, "project");
      if (!subject) throw invalidField(["subject"], "is no subject of a project's permissions");
      if (!subject.actions.has(question.action))
        throw invalidField(["action"], "is no action of this subject");
      const ability = await abilityOf(scope.ability, question.identityId, scope.project);
      const { allowed, decidedBy, considered } = ability.explain(
        question.action,
        question.subject,
        attributesOf(question),
      );
      return { allowed, decidedBy: decidedBy && shown(decidedBy), considered: considered.map(shown) };
    },
  };

  async function abilityOf(
    own: Ability,
    identityId: string | undefined,
    project: { id: string; orgId: string },
  ): Promise<Ability> {
    if (identityId === undefined) return own;
    requireRight(own, "read", "identity", { identityId });
    const rules = await permissions.rulesOf({ id: identityId, orgId: project.orgId }, project.id);
    if (rules.length === 0) throw notFound("The identity", identityId);
    const ability = compileRules(rules);
    // A thousand rules were compiled; yield before they are evaluated.
    await new Pace().rest();
    return ability;
  }
}
