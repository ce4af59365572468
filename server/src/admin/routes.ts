import { serve, servePublic, type Route, byInstanceAdmin } from "../platform/http/index.ts";
import { seal } from "../platform/sealed.ts";
import { bootstrapInstance, createOrganization } from "./contract.ts";
import type { Admin } from "./service.ts";

export const adminRoutes = (admin: Admin): Route[] => [
  servePublic(bootstrapInstance, ({ body, caller }) =>
    admin.bootstrap({ ...body, password: seal(body.password) }, caller),
  ),
  serve(createOrganization, ({ actor, body }) => admin.createOrganization(actor, body), byInstanceAdmin),
];
