import { serve, type Route, inProject, toThing } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { Applications } from "./service.ts";
import type { MayIn } from "../certificates/index.ts";

export const applicationRoutes = (applications: Applications, mayIn: MayIn): Route[] => [
  serve(
    contract.createApplication,
    async ({ actor, body }) => ({
      application: await applications.create(actor, body),
    }),
    inProject("create", "pki-applications", mayIn("create", "pki-applications")),
  ),
  serve(contract.listApplications, ({ actor, query }) => applications.list(actor, query)),
  serve(contract.getApplicationByName, async ({ actor, params, query }) => ({
    application: await applications.getByName(actor, query.projectId, params.name),
  })),
  serve(contract.getApplication, async ({ actor, params }) => ({
    application: await applications.get(actor, params.applicationId),
  })),
  serve(
    contract.updateApplication,
    async ({ actor, params, body }) => ({
      application: await applications.update(actor, params.applicationId, body),
    }),
    toThing((actor, { params }) => applications.find(actor, params["applicationId"] ?? "", "edit")),
  ),
  serve(
    contract.deleteApplication,
    async ({ actor, params }) => ({
      application: await applications.delete(actor, params.applicationId),
    }),
    toThing((actor, { params }) => applications.find(actor, params["applicationId"] ?? "", "delete")),
  ),
  serve(contract.listApplicationProfiles, async ({ actor, params }) => ({
    profiles: await applications.profiles(actor, params.applicationId),
  })),
  serve(
    contract.attachProfiles,
    async ({ actor, params, body }) => ({
      profiles: await applications.attach(actor, params.applicationId, body.profileIds),
    }),
    toThing((actor, { params }) => applications.find(actor, params["applicationId"] ?? "", "edit")),
  ),
  serve(
    contract.detachProfile,
    async ({ actor, params }) => ({
      profiles: await applications.detach(actor, params.applicationId, params.profileId),
    }),
    toThing((actor, { params }) => applications.find(actor, params["applicationId"] ?? "", "edit")),
  ),
];
