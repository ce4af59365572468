import { serve, type Route } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { Audit } from "./service.ts";

export const auditRoutes = (audit: Audit): Route[] => [
  serve(contract.listAuditLogs, ({ actor, query }) => audit.list(actor, query)),
  serve(contract.listInstanceAuditLogs, ({ actor, query }) => audit.listOfInstance(actor, query)),
];
