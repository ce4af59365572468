import { serve, type Route, inOrganization } from "../platform/http/index.ts";
import { identityDetails } from "../identities/contract.ts";
import * as contract from "./contract.ts";
import type { Organizations } from "./service.ts";

export const organizationRoutes = (organizations: Organizations): Route[] => [
  serve(contract.listOrganizations, async ({ actor }) => ({
    organizations: await organizations.list(actor),
  })),
  serve(contract.listAccessibleOrganizations, async ({ actor }) => ({
    organizations: (await organizations.list(actor)).map((organization) => ({
      ...organization,
      subOrganizations: [],
    })),
  })),
  serve(
    contract.updateOrganization,
    async ({ actor, body }) => ({
      organization: await organizations.update(actor, body),
    }),
    inOrganization("edit", "settings"),
  ),
  serve(identityDetails, async ({ actor }) => ({
    identityDetails: { organization: await organizations.own(actor) },
  })),
];
