import { serve, type Route } from "../../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { Explanations } from "./service.ts";

export const explainRoutes = (explanations: Explanations): Route[] => [
  serve(contract.explainPermission, ({ actor, params, query }) =>
    explanations.explain(actor, params.projectId, query),
  ),
];
