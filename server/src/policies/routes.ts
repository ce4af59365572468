import { serve, type Route, inProject, toThing } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { Policies } from "./service.ts";
import type { MayIn } from "../certificates/index.ts";

export const policyRoutes = (policies: Policies, mayIn: MayIn): Route[] => [
  serve(
    contract.createPolicy,
    async ({ actor, body }) => ({
      certificatePolicy: await policies.create(actor, body),
    }),
    inProject("create", "certificate-policies", mayIn("create", "certificate-policies")),
  ),
  serve(contract.listPolicies, ({ actor, query }) => policies.list(actor, query.projectId, query)),
  serve(contract.getPolicy, async ({ actor, params }) => ({
    certificatePolicy: await policies.get(actor, params.id),
  })),
  serve(
    contract.updatePolicy,
    async ({ actor, params, body }) => ({
      certificatePolicy: await policies.update(actor, params.id, body),
    }),
    toThing((actor, { params }) => policies.find(actor, params["id"] ?? "", "edit")),
  ),
  serve(
    contract.deletePolicy,
    async ({ actor, params }) => ({
      certificatePolicy: await policies.delete(actor, params.id),
    }),
    toThing((actor, { params }) => policies.find(actor, params["id"] ?? "", "delete")),
  ),
];
