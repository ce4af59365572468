import { serve, type Route } from "../../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { Policies } from "./service.ts";

export const policyRoutes = (policies: Policies): Route[] => [
  serve(contract.createPolicy, async ({ actor, body }) => ({
    certificatePolicy: await policies.create(actor, body),
  })),
  serve(contract.listPolicies, ({ actor, query }) => policies.list(actor, query.projectId, query)),
  serve(contract.getPolicy, async ({ actor, params }) => ({
    certificatePolicy: await policies.get(actor, params.id),
  })),
  serve(contract.updatePolicy, async ({ actor, params, body }) => ({
    certificatePolicy: await policies.update(actor, params.id, body),
  })),
  serve(contract.deletePolicy, async ({ actor, params }) => ({
    certificatePolicy: await policies.delete(actor, params.id),
  })),
];
