import { serve, servePublic, type Route, byInstanceAdmin } from "../platform/http/index.ts";
import { redact } from "../platform/redacted.ts";
import { bootstrapInstance, createOrganization } from "./contract.ts";
import type { Admin } from "./service.ts";

export const adminRoutes = (admin: Admin): Route[] => [
  servePublic(bootstrapInstance, ({ body, caller }) =>
    admin.bootstrap({ ...body, password: redact(body.password) }, caller),
  ),
  serve(createOrganization, ({ actor, body }) => admin.createOrganization(actor, body), byInstanceAdmin),
];
