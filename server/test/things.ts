/**
 * One of everything, for the tenancy test: how to make, in a tenant's world, the thing that a parameter of a route
 * names. A new parameter needs one line in THINGS; the test fails and says so when it is missing. Things are made on
 * demand, through the public face, and once per world.
 */
import type { Answer, Tenant } from "./harness.ts";
import { OWNER } from "./harness.ts";
import { aProject, unique } from "./builders.ts";

export class World {
  readonly tenant: Tenant;
  readonly #examples: ReadonlyMap<string, unknown>;
  readonly #made = new Map<string, Promise<Answer["body"]>>();

  /** `examples`: the example body of each endpoint, by its id. */
  constructor(tenant: Tenant, examples: ReadonlyMap<string, unknown>) {
    this.tenant = tenant;
    this.#examples = examples;
  }

  once(name: string, make: () => Promise<Answer["body"]>): Promise<Answer["body"]> {
    const made = this.#made.get(name) ?? make();
    this.#made.set(name, made);
    return made;
  }

  /** Posts once and answers the body; `name` is what the thing is called among the others. */
  post(
    name: string,
    path: () => Promise<string>,
    body: () => Promise<unknown> | unknown,
  ): Promise<Answer["body"]> {
    return this.once(name, async () => {
      const answer = await this.tenant.post(await path(), await body());
      if (answer.status !== 200)
        throw new Error(`making ${name} failed with ${answer.status}: ${JSON.stringify(answer.body)}`);
      return answer.body;
    });
  }

  example(endpointId: string): Record<string, unknown> {
    return structuredClone(this.#examples.get(endpointId) ?? {}) as Record<string, unknown>;
  }
}

type Thing = (world: World) => Promise<string>;

// ---- what other things stand on

const project = (w: World) => w.once("project", () => aProject(w.tenant));
const certProject = (w: World) => w.once("cert-project", () => aProject(w.tenant, { type: "cert-manager" }));
const identity = (w: World) =>
  w.post(
    "identity",
    async () => `/api/v1/projects/${(await project(w)).id}/identities`,
    () => ({ name: unique("identity") }),
  );
const orgIdentity = (w: World) =>
  w.post(
    "org-identity",
    async () => "/api/v1/identities",
    () => ({ name: unique("identity") }),
  );
/** An organisation's identity that is a member of the project. */
const guest = (w: World) =>
  w.post(
    "guest",
    async () =>
      `/api/v1/projects/${(await project(w)).id}/memberships/identities/${(await orgIdentity(w)).identity.id}`,
    () => ({ role: "viewer" }),
  );
const universalAuth = (w: World) =>
  w.post(
    "universal-auth",
    async () => `/api/v1/auth/universal-auth/identities/${(await identity(w)).identity.id}`,
    () => ({}),
  );
const clientSecret = (w: World) =>
  w.post(
    "client-secret",
    async () =>
      `/api/v1/auth/universal-auth/identities/${(await universalAuth(w)).identityUniversalAuth.identityId}/client-secrets`,
    () => ({}),
  );
const tokenAuth = (w: World) =>
  w.post(
    "token-auth",
    async () => `/api/v1/auth/token-auth/identities/${(await identity(w)).identity.id}`,
    () => ({}),
  );
const token = (w: World) =>
  w.post(
    "token",
    async () =>
      `/api/v1/auth/token-auth/identities/${(await tokenAuth(w)).identityTokenAuth.identityId}/tokens`,
    () => ({}),
  );
const environment = (w: World) =>
  w.post(
    "environment",
    async () => `/api/v1/projects/${(await project(w)).id}/environments`,
    () => ({ name: "Some", slug: unique("env") }),
  );
const role = (w: World) =>
  w.post(
    "role",
    async () => `/api/v1/projects/${(await project(w)).id}/roles`,
    () => ({ ...w.example("createProjectRole"), slug: unique("role") }),
  );
const orgRole = (w: World) =>
  w.post(
    "org-role",
    async () => "/api/v1/organization/roles",
    () => ({ ...w.example("createOrganizationRole"), slug: unique("role") }),
  );
const orgMember = (w: World) =>
  w.once("org-member", async () => (await w.tenant.get("/api/v1/organization/members")).body.members[0]);
const projectMember = (w: World) =>
  w.post(
    "project-member",
    async () => `/api/v1/projects/${(await project(w)).id}/memberships`,
    () => ({ emails: [OWNER.email] }),
  );
const invitation = (w: World) =>
  w.post(
    "invitation",
    async () => "/api/v1/organization/invitations",
    () => ({ email: `${unique("guest")}@example.com` }),
  );
const alert = (w: World) =>
  w.post(
    "alert",
    async () => "/api/v1/cert-manager/alerts",
    async () => ({ ...w.example("createAlert"), projectId: (await certProject(w)).id }),
  );
const calendar = (w: World) =>
  w.post(
    "calendar",
    async () => "/api/v1/cert-manager/alerts/calendars",
    async () => ({ ...w.example("createAlertCalendar"), projectId: (await certProject(w)).id }),
  );

const secret = (w: World) =>
  w.once("secret", async () => {
    const name = unique("SECRET").replaceAll("-", "_");
    const body = {
      projectId: (await project(w)).id,
      environment: "dev",
      secretPath: "/",
      secretValue: "value",
    };
    return w.post(
      "the-secret",
      async () => `/api/v4/secrets/${name}`,
      () => body,
    );
  });
const inDev = async (w: World) => ({ projectId: (await project(w)).id, environment: "dev" });
const folder = (w: World) =>
  w.post(
    "folder",
    async () => "/api/v2/folders",
    async () => ({ ...(await inDev(w)), name: unique("folder") }),
  );
const secretImport = (w: World) =>
  w.post(
    "import",
    async () => "/api/v2/secret-imports",
    async () => ({ ...(await inDev(w)), import: { environment: "staging", path: "/" } }),
  );
const tag = (w: World) =>
  w.post(
    "tag",
    async () => `/api/v1/projects/${(await project(w)).id}/tags`,
    () => ({ ...w.example("createTag"), slug: unique("tag") }),
  );
const application = (w: World) =>
  w.post(
    "application",
    async () => "/api/v1/cert-manager/applications",
    async () => ({ name: unique("app"), projectId: (await certProject(w)).id }),
  );

const delivery = (w: World) =>
  w.once("delivery", async () => {
    const path = `/api/v1/cert-manager/alerts/${(await alert(w)).alert.id}`;
    await w.tenant.post(`${path}/test`, {});
    return (await w.tenant.get(`${path}/deliveries`)).body.deliveries[0];
  });
const CERT_MANAGER = "/api/v1/cert-manager";
const authority = (w: World) =>
  w.post(
    "authority",
    async () => `${CERT_MANAGER}/ca/internal`,
    async () => ({
      ...w.example("createInternalCa"),
      name: unique("ca"),
      projectId: (await certProject(w)).id,
    }),
  );
const intermediate = (w: World) =>
  w.post(
    "intermediate",
    async () => `${CERT_MANAGER}/ca/internal`,
    async () => ({
      name: unique("ca"),
      projectId: (await certProject(w)).id,
      configuration: {
        type: "intermediate",
        commonName: "Below",
        keyAlgorithm: "EC_prime256v1",
        parentCaId: (await authority(w)).id,
      },
    }),
  );
const policy = (w: World) =>
  w.post(
    "policy",
    async () => `${CERT_MANAGER}/certificate-policies`,
    async () => ({
      ...w.example("createCertificatePolicy"),
      name: unique("policy"),
      projectId: (await certProject(w)).id,
    }),
  );
const profile = (w: World) =>
  w.post(
    "profile",
    async () => `${CERT_MANAGER}/certificate-profiles`,
    async () => ({
      ...w.example("createCertificateProfile"),
      slug: unique("profile"),
      caId: (await authority(w)).id,
      certificatePolicyId: (await policy(w)).certificatePolicy.id,
      projectId: (await certProject(w)).id,
    }),
  );
const certificate = (w: World) =>
  w.post(
    "certificate",
    async () => `${CERT_MANAGER}/certificates`,
    async () => ({ ...w.example("issueCertificate"), profileId: (await profile(w)).certificateProfile.id }),
  );

/**
 * What a parameter names. Looked up as `endpoint.parameter`, then `room.parameter`, then `parameter`; a parameter in
 * a body or query goes by its last part (`projects.0.projectId` is `projectId`).
 */
export const THINGS: Readonly<Record<string, Thing>> = {
  projectId: async (w) => (await project(w)).id,
  workspaceId: async (w) => (await project(w)).id,
  projectSlug: async (w) => (await project(w)).slug,
  workspaceSlug: async (w) => (await project(w)).slug,
  "alerts.projectId": async (w) => (await certProject(w)).id,
  "certificates.projectId": async (w) => (await certProject(w)).id,

  organizationId: async (w) => w.tenant.orgId,
  orgId: async (w) => w.tenant.orgId,
  identityId: async (w) => (await identity(w)).identity.id,
  "getIdentity.identityId": async (w) => (await orgIdentity(w)).identity.id,
  "updateIdentity.identityId": async (w) => (await orgIdentity(w)).identity.id,
  "deleteIdentity.identityId": async (w) => (await orgIdentity(w)).identity.id,
  "addIdentityMembership.identityId": async (w) => (await orgIdentity(w)).identity.id,
  "removeIdentityMembership.identityId": async (w) => (await guest(w)).identityMembership.identityId,
  "getUniversalAuth.identityId": async (w) => (await universalAuth(w)).identityUniversalAuth.identityId,
  "updateUniversalAuth.identityId": async (w) => (await universalAuth(w)).identityUniversalAuth.identityId,
  "detachUniversalAuth.identityId": async (w) => (await universalAuth(w)).identityUniversalAuth.identityId,
  "createClientSecret.identityId": async (w) => (await universalAuth(w)).identityUniversalAuth.identityId,
  "listClientSecrets.identityId": async (w) => (await universalAuth(w)).identityUniversalAuth.identityId,
  "getTokenAuth.identityId": async (w) => (await tokenAuth(w)).identityTokenAuth.identityId,
  "updateTokenAuth.identityId": async (w) => (await tokenAuth(w)).identityTokenAuth.identityId,
  "detachTokenAuth.identityId": async (w) => (await tokenAuth(w)).identityTokenAuth.identityId,
  "createToken.identityId": async (w) => (await tokenAuth(w)).identityTokenAuth.identityId,
  actorId: async (w) => (await identity(w)).identity.id,
  clientSecretId: async (w) => (await clientSecret(w)).clientSecretData.id,
  tokenId: async (w) => (await token(w)).tokenData.id,
  "identities.membershipId": async (w) => (await guest(w)).identityMembership.id,
  membershipId: async (w) => (await projectMember(w)).memberships[0].id,
  "updateOrganizationMember.membershipId": async (w) => (await orgMember(w)).id,
  "removeOrganizationMember.membershipId": async (w) => (await orgMember(w)).id,
  invitationId: async (w) => (await invitation(w)).invitation.id,

  "projects.id": async (w) => (await environment(w)).environment.id,
  "projects.slug": async (w) => (await environment(w)).environment.slug,
  envId: async (w) => (await environment(w)).environment.id,
  environmentSlug: async (w) => (await environment(w)).environment.slug,
  roleId: async (w) => (await role(w)).role.id,
  roleSlug: async (w) => (await role(w)).role.slug,
  "updateOrganizationRole.roleId": async (w) => (await orgRole(w)).role.id,
  "deleteOrganizationRole.roleId": async (w) => (await orgRole(w)).role.id,
  "getOrganizationRole.roleSlug": async (w) => (await orgRole(w)).role.slug,

  secretId: async (w) => (await secret(w)).secret.id,
  secretIds: async (w) => (await secret(w)).secret.id,
  secretName: async (w) => (await secret(w)).secret.secretKey,
  folderId: async (w) => (await folder(w)).folder.id,
  "getFolderByPath.environment": async () => "dev",
  "getFolderByPath.path": async (w) => (await folder(w)).folder.name,
  secretImportId: async (w) => (await secretImport(w)).secretImport.id,
  sourceProjectId: async (w) => (await project(w)).id,
  tagId: async (w) => (await tag(w)).tag.id,
  tagIds: async (w) => (await tag(w)).tag.id,
  tagSlug: async (w) => (await tag(w)).tag.slug,

  "certificates.id": async (w) => (await certificate(w)).certificate.certificateId,
  certificateId: async (w) => (await certificate(w)).certificate.certificateId,
  requestId: async (w) => (await certificate(w)).certificateRequestId,
  caId: async (w) => (await authority(w)).id,
  parentCaId: async (w) => (await authority(w)).id,
  // Only an intermediate has a parent to name.
  "issueInternalCaCertificate.caId": async (w) => (await intermediate(w)).id,
  "getInternalCa.id": async (w) => (await authority(w)).id,
  "updateInternalCa.id": async (w) => (await authority(w)).id,
  "deleteInternalCa.id": async (w) => (await authority(w)).id,
  certificateTemplateId: async (w) => (await profile(w)).certificateProfile.id,
  activeCaCertId: async (w) => (await authority(w)).configuration.activeCaCertId,
  certificatePolicyId: async (w) => (await policy(w)).certificatePolicy.id,
  "getCertificatePolicy.id": async (w) => (await policy(w)).certificatePolicy.id,
  "updateCertificatePolicy.id": async (w) => (await policy(w)).certificatePolicy.id,
  "deleteCertificatePolicy.id": async (w) => (await policy(w)).certificatePolicy.id,
  profileId: async (w) => (await profile(w)).certificateProfile.id,
  profileIds: async (w) => (await profile(w)).certificateProfile.id,
  "getCertificateProfile.id": async (w) => (await profile(w)).certificateProfile.id,
  "updateCertificateProfile.id": async (w) => (await profile(w)).certificateProfile.id,
  "deleteCertificateProfile.id": async (w) => (await profile(w)).certificateProfile.id,
  "listCertificateProfileCertificates.id": async (w) => (await profile(w)).certificateProfile.id,
  "getLatestActiveBundle.id": async (w) => (await profile(w)).certificateProfile.id,
  "getCertificateProfileBySlug.slug": async (w) => (await profile(w)).certificateProfile.slug,
  "getPkiApplicationByName.name": async (w) => (await application(w)).application.name,
  applicationId: async (w) => (await application(w)).application.id,
  alertId: async (w) => (await alert(w)).alert.id,
  deliveryId: async (w) => (await delivery(w)).id,
  calendarId: async (w) => (await calendar(w)).calendar.id,
};

const ownSecretIn = (endpointId: string) => async (w: World) => ({
  ...w.example(endpointId),
  secrets: [{ secretKey: (await secret(w)).secret.secretKey, secretValue: "new" }],
});

/** A body to send instead of the endpoint's example, where the example alone would not reach the thing. */
export const BODIES: Readonly<Record<string, (world: World) => unknown>> = {
  updateSecrets: ownSecretIn("updateSecrets"),
  deleteSecrets: ownSecretIn("deleteSecrets"),
  updateRawSecrets: ownSecretIn("updateRawSecrets"),
  deleteRawSecrets: ownSecretIn("deleteRawSecrets"),
  createInvitation: (w) => ({
    ...w.example("createInvitation"),
    email: `${unique("guest")}@example.com`,
    projects: [{ projectId: "", roles: [{ role: "viewer" }] }],
  }),
  createInternalCa: (w) => ({
    ...w.example("createInternalCa"),
    name: unique("ca"),
    configuration: {
      type: "intermediate",
      commonName: "Below",
      keyAlgorithm: "EC_prime256v1",
      parentCaId: "",
    },
  }),
  addProjectMembers: () => ({ emails: [OWNER.email] }),
  createEnvironment: () => ({ name: "Some", slug: unique("env") }),
  createProjectRole: (w) => ({ ...w.example("createProjectRole"), slug: unique("role") }),
  createOrganizationRole: (w) => ({ ...w.example("createOrganizationRole"), slug: unique("role") }),
};

/** Routes that need no token, each with why that is right. A new one has to be put here knowingly. */
export const PUBLIC: Readonly<Record<string, string>> = {
  bootstrapInstance: "works once, on an instance that has no tenant yet",
  universalAuthLogin: "is how a caller comes to be known; refuses all wrong credentials in the same words",
  renewAccessToken: "the token in the body is the proof",
  revokeAccessToken: "the token in the body is the proof",
  passwordLogin: "is how a caller comes to be known; refuses all wrong credentials in the same words",
  acceptInvitation: "the invitation's token in the body is the proof",
  requestPasswordReset: "for who has forgotten how to be known; answers the same whether there is an account",
  resetPassword: "the mailed token in the body is the proof",
  openPasswordResetLink: "a page with a form, the same for everyone",
  openInvitationLink: "a page with a form, the same for everyone",
  openAlertLink: "shows nothing but the id in its address: whoever follows a message's link has no token",
  openCertificateLink: "likewise",
  getAlertCalendar: "the token in the address is the proof: calendars cannot send headers",
  downloadIssuer: "certificates are public, and relying parties fetch their issuers without credentials",
  downloadInternalCaCertificate:
    "certificates are public, and relying parties fetch their issuers without credentials",
  downloadCrl: "relying parties fetch revocation lists without credentials",
  postOcsp: "relying parties ask for revocation without credentials",
  getOcsp: "relying parties ask for revocation without credentials",
  getStatus: "says only that the server works",
  getLive: "says only that the process answers",
  getReady: "says only whether this node should be sent requests, for load balancers",
  getOpenApi: "the interface is no secret",
  getDocs: "the interface is no secret",
};

/** Parameters that name nothing of a tenant's, or are for instance admins, who stand above tenants; each with why. */
export const EXEMPT: Readonly<Record<string, string>> = {
  selectOrganization: "for people's sessions; tested in auth/sessions",
  issueLicence: "for instance admins: refused before anything is looked up",
  listInstanceAuditLogs: "for instance admins: refused before anything is looked up",
  revokeLicence: "for instance admins: refused before anything is looked up",
  "createSecret.secretName": "what the new secret shall be called",
  "createRawSecret.secretName": "what the new secret shall be called",
  "getFolderByPath.environment": "a name inside the project, which is looked up first",
  "getFolderByPath.path": "a name inside the project, which is looked up first",
  "createToken.organizationSlug": "sent by clients, means nothing here",
  "createAlert.channels.0.id": "ignored on creation",
  "updateAlert.channels.0.id": "names a channel inside the alert, which is looked up first",
  "subscribeToProjectEvents.register.0.conditions.environmentSlug":
    "a filter inside the project, which is looked up first",
};

/**
 * Parameters that narrow a list, or whose thing may well be absent: someone else's id and an unknown one are both
 * answered with 200 and the same, empty, result.
 */
export const FILTERS: ReadonlySet<string> = new Set([
  "listAuditLogs.actorId",
  "listCertificateProfiles.caId",
  "listCertificateProfiles.applicationId",
  "detachPkiApplicationProfile.profileId",
  ...["searchCertificates", "exportCertificates"].flatMap((id) => [
    `${id}.profileId`,
    `${id}.applicationId`,
    `${id}.caId`,
  ]),
  ...["bulkRevokeCertificates", "bulkRenewCertificates"].flatMap((id) => [
    `${id}.query.profileId`,
    `${id}.query.applicationId`,
    `${id}.query.caId`,
  ]),
]);

/** Several names for one thing, the usual one first: whoever gives one leaves the others out. */
export const ALTERNATIVES: readonly (readonly string[])[] = [
  ["projectId", "workspaceId", "projectSlug", "workspaceSlug"],
  ["caId", "certificateTemplateId"],
];
