import { serve, type Route, byInstanceAdmin, inOrganization } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { Licences } from "./service.ts";

export const licenceRoutes = (licences: Licences): Route[] => [
  serve(contract.getLicence, async ({ actor }) => ({ licence: await licences.show(actor) })),
  serve(
    contract.installLicence,
    async ({ actor, body }) => ({
      licence: await licences.install(actor, body.document),
    }),
    inOrganization("edit", "licence"),
  ),
  serve(
    contract.removeLicence,
    async ({ actor }) => ({ licence: await licences.remove(actor) }),
    inOrganization("edit", "licence"),
  ),
  serve(
    contract.issueLicence,
    async ({ actor, body }) => ({ licence: await licences.issue(actor, body) }),
    byInstanceAdmin,
  ),
  serve(contract.listLicences, ({ actor, query }) => licences.list(actor, query)),
  serve(
    contract.revokeLicence,
    async ({ actor, params }) => ({
      licence: await licences.revoke(actor, params.licenceId),
    }),
    byInstanceAdmin,
  ),
];
