import { z } from "zod";
import { endpoint, moment, queryInteger, uuid } from "../platform/http/endpoint.ts";
import { LICENCE_MAX_LENGTH, licenceWord } from "./document/contract.ts";

export {
  joinLicence,
  LICENCE_PREFIX,
  licencePayload,
  licenceTextToSign,
  parseLicence,
  type LicencePayload,
  type ParsedLicence,
} from "./document/contract.ts";

/** What a licence can unlock. A document may name more: features of a newer Keyward, which this one ignores. */
export const LICENCE_FEATURES = ["eventSubscriptions"] as const;
export type LicenceFeature = (typeof LICENCE_FEATURES)[number];
/** What an organisation without a licence has. */
export const FREE_PLAN = "free";

const room = "licences";
const LICENCE_STATUSES = ["active", "expired", "not-yet", "revoked", "none"] as const;
export type LicenceStatus = (typeof LICENCE_STATUSES)[number];

/** The licence that says most about the organisation at this moment, and what all of its licences unlock together. */
export const organizationLicence = z.object({
  id: uuid.nullable(),
  scope: z.enum(["organization", "instance"]).nullable(),
  plan: z.string(),
  features: z.array(z.string()),
  activeFeatures: z.array(z.string()),
  notBefore: moment.nullable(),
  notAfter: moment.nullable(),
  status: z.enum(LICENCE_STATUSES),
});
export type OrganizationLicenceView = z.input<typeof organizationLicence>;

const ofOrganization = "/api/v1/organization/licence";

export const getLicence = endpoint({
  id: "getLicence",
  method: "GET",
  path: ofOrganization,
  room,
  summary: "The licence of your organisation, for every member to see",
  reply: z.object({ licence: organizationLicence }),
});

export const installLicence = endpoint({
  id: "installLicence",
  method: "PUT",
  path: ofOrganization,
  room,
  summary: "Install a signed licence document that names your organisation or the whole instance",
  body: z.object({ document: z.string().trim().min(1).max(LICENCE_MAX_LENGTH) }),
  reply: z.object({ licence: organizationLicence }),
  example: { body: { document: "KEYWARD-LICENCE-1.eyJpZCI6…" } },
});

export const removeLicence = endpoint({
  id: "removeLicence",
  method: "DELETE",
  path: ofOrganization,
  room,
  summary: "Revoke your organisation's own licences; one for the whole instance stays",
  reply: z.object({ licence: organizationLicence }),
});

// ---- for the owner of the instance, who is its licensor

/** `invalid`: the stored text is not what an issuer of this instance signed; it counts as no licence. */
export const issuedLicence = z.object({
  id: uuid,
  organizationId: uuid.nullable(),
  plan: z.string().nullable(),
  features: z.array(z.string()),
  notBefore: moment.nullable(),
  notAfter: moment.nullable(),
  issuedAt: moment.nullable(),
  installedAt: moment,
  revokedAt: moment.nullable(),
  status: z.enum([...LICENCE_STATUSES, "invalid"]),
  document: z.string(),
});
export type IssuedLicenceView = z.input<typeof issuedLicence>;

const LAST_MOMENT = Date.parse("9999-12-31T00:00:00.000Z");
const givenMoment = z.iso
  .datetime({ offset: true })
  .transform((text) => new Date(text))
  .refine((at) => at.getTime() >= 0 && at.getTime() <= LAST_MOMENT, "must lie between 1970 and 9999");

export const issueLicence = endpoint({
  id: "issueLicence",
  method: "POST",
  path: "/api/v1/admin/licences",
  room,
  summary: "Sign and install a licence for any organisation of the instance, or for all (instance admin)",
  body: z
    .object({
      organizationId: uuid.nullable(),
      plan: licenceWord,
      features: z
        .array(z.enum(LICENCE_FEATURES))
        .max(64)
        .default([...LICENCE_FEATURES]),
      notBefore: givenMoment.optional(),
      notAfter: givenMoment.optional(),
      days: z.number().int().min(1).max(36_500).optional(),
    })
    .refine((body) => body.notAfter === undefined || body.days === undefined, {
      path: ["days"],
      message: "give either notAfter or days",
    }),
  reply: z.object({ licence: issuedLicence }),
  example: { body: { organizationId: null, plan: "enterprise", days: 365 } },
});
export type NewLicence = z.output<typeof issueLicence.body>;

export const listLicences = endpoint({
  id: "listLicences",
  method: "GET",
  path: "/api/v1/admin/licences",
  room,
  summary: "Every licence of the instance, newest first (instance admin)",
  query: z.object({ offset: queryInteger(0, 1e6, 0), limit: queryInteger(1, 1000, 100) }),
  reply: z.object({ licences: z.array(issuedLicence), totalCount: z.number() }),
});

export const revokeLicence = endpoint({
  id: "revokeLicence",
  method: "POST",
  path: "/api/v1/admin/licences/{licenceId}/revoke",
  room,
  summary: "End a licence now, on every node; its document cannot be installed again (instance admin)",
  params: z.object({ licenceId: uuid }),
  reply: z.object({ licence: issuedLicence }),
});
