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
  post(name: string, path: () => Promise<string>, body: () => Promise<unknown> | unknown): Promise<Answer["body"]> {
    return this.once(name, async () => {
      const answer = await this.tenant.post(await path(), await body());
      if (answer.status !== 200) throw new Error(`making ${name} failed with ${answer.status}: ${JSON.stringify(answer.body)}`);
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
  w.post("identity", async () => `/api/v1/projects/${(await project(w)).id}/identities`, () => ({ name: unique("identity") }));
const orgIdentity = (w: World) => w.post("org-identity", async () => "/api/v1/identities", () => ({ name: unique("identity") }));
/** An organisation's identity that is a member of the project. */
const guest = (w: World) =>
  w.post("guest", async () => `/api/v1/projects/${(await project(w)).id}/memberships/identities/${(await orgIdentity(w)).identity.id}`, () => ({ role: "viewer" }));
const universalAuth = (w: World) =>
  w.post("universal-auth", async () => `/api/v1/auth/universal-auth/identities/${(await identity(w)).identity.id}`, () => ({}));
const clientSecret = (w: World) =>
  w.post("client-secret", async () => `/api/v1/auth/universal-auth/identities/${(await universalAuth(w)).identityUniversalAuth.identityId}/client-secrets`, () => ({}));
const tokenAuth = (w: World) =>
  w.post("token-auth", async () => `/api/v1/auth/token-auth/identities/${(await identity(w)).identity.id}`, () => ({}));
const token = (w: World) =>
  w.post("token", async () => `/api/v1/auth/token-auth/identities/${(await tokenAuth(w)).identityTokenAuth.identityId}/tokens`, () => ({}));
const environment = (w: World) =>
  w.post("environment", async () => `/api/v1/projects/${(await project(w)).id}/environments`, () => ({ name: "Some", slug: unique("env") }));
const role = (w: World) =>
  w.post("role", async () => `/api/v1/projects/${(await project(w)).id}/roles`, () => ({ ...w.example("createProjectRole"), slug: unique("role") }));
const orgRole = (w: World) =>
  w.post("org-role", async () => "/api/v1/organization/roles", () => ({ ...w.example("createOrganizationRole"), slug: unique("role") }));
const orgMember = (w: World) => w.once("org-member", async () => (await w.tenant.get("/api/v1/organization/members")).body.members[0]);
const projectMember = (w: World) =>
  w.post("project-member", async () => `/api/v1/projects/${(await project(w)).id}/memberships`, () => ({ emails: [OWNER.email] }));
const invitation = (w: World) =>
  w.post("invitation", async () => "/api/v1/organization/invitations", () => ({ email: `${unique("guest")}@example.com` }));
const alert = (w: World) =>
  w.post("alert", async () => "/api/v1/cert-manager/alerts", async () => ({ ...w.example("createAlert"), projectId: (await certProject(w)).id }));
const calendar = (w: World) =>
  w.post("calendar", async () => "/api/v1/cert-manager/alerts/calendars", async () => ({ ...w.example("createAlertCalendar"), projectId: (await certProject(w)).id }));

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

  alertId: async (w) => (await alert(w)).alert.id,
  calendarId: async (w) => (await calendar(w)).calendar.id,
};

/** A body to send instead of the endpoint's example, where the example alone would not reach the thing. */
export const BODIES: Readonly<Record<string, (world: World) => unknown>> = {
  createInvitation: (w) => ({ ...w.example("createInvitation"), email: `${unique("guest")}@example.com`, projects: [{ projectId: "", roles: [{ role: "viewer" }] }] }),
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
  getAlertCalendar: "the token in the address is the proof: calendars cannot send headers",
  getStatus: "says only that the server works",
  getOpenApi: "the interface is no secret",
  getDocs: "the interface is no secret",
};

/** Parameters that name nothing of a tenant's, or are for instance admins, who stand above tenants; each with why. */
export const EXEMPT: Readonly<Record<string, string>> = {
  selectOrganization: "for people's sessions; tested in auth/sessions",
  issueLicence: "for instance admins: refused before anything is looked up",
  revokeLicence: "for instance admins: refused before anything is looked up",
  "createToken.organizationSlug": "sent by clients, means nothing here",
  "createAlert.channels.0.id": "ignored on creation",
  "updateAlert.channels.0.id": "names a channel inside the alert, which is looked up first",
  "subscribeToProjectEvents.register.0.conditions.environmentSlug": "a filter inside the project, which is looked up first",
};

/** Parameters that narrow a list: someone else's id and an unknown one both answer 200 with the same, empty, list. */
export const FILTERS: ReadonlySet<string> = new Set(["listAuditLogs.actorId"]);
