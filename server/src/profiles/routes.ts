import { serve, type Route, inProject, toThing } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { Profiles } from "./service.ts";
import type { MayIn } from "../certificates/index.ts";

export const profileRoutes = (profiles: Profiles, mayIn: MayIn): Route[] => [
  serve(
    contract.createProfile,
    async ({ actor, body }) => ({
      certificateProfile: await profiles.create(actor, body),
    }),
    inProject("create", "certificate-profiles", mayIn("create", "certificate-profiles")),
  ),
  serve(contract.listProfiles, ({ actor, query }) => profiles.list(actor, query)),
  serve(contract.getProfileBySlug, async ({ actor, params, query }) => ({
    certificateProfile: await profiles.getBySlug(actor, query.projectId, params.slug),
  })),
  serve(contract.getProfile, async ({ actor, params }) => ({
    certificateProfile: await profiles.get(actor, params.id),
  })),
  serve(
    contract.updateProfile,
    async ({ actor, params, body }) => ({
      certificateProfile: await profiles.update(actor, params.id, body),
    }),
    toThing((actor, { params }) => profiles.find(actor, params["id"] ?? "", "edit")),
  ),
  serve(
    contract.deleteProfile,
    async ({ actor, params }) => ({
      certificateProfile: await profiles.delete(actor, params.id),
    }),
    toThing((actor, { params }) => profiles.find(actor, params["id"] ?? "", "delete")),
  ),
];
