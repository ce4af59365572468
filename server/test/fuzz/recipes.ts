/**
 * Requests that the documented example alone does not bring to a 200: they need something made just for them (an
 * identity without a way to log in, a certificate on hold), a name that is still free, or a person instead of an
 * identity. What a recipe leaves out comes from the example.
 */
import { generateKeyPairSync } from "node:crypto";
import { unique } from "../builders.ts";
import { anIntermediate, aPolicy, aProfile, aRoot, certProject, issue, ok } from "../certificates.ts";
import { OWNER, type Client } from "../harness.ts";
import { THINGS, type World } from "../things.ts";
import { buildCsr, csrToPem, encodeName, nameFrom } from "@keyward/x509";

export interface Recipe {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly token?: string;
}

export interface Kitchen {
  readonly world: World;
  /** Stands above all organisations. */
  readonly instanceAdmin: Client;
  readonly ownerOrgId: string;
  /** A person who is logged in, anew each time. */
  person(): Promise<string>;
}

const CM = "/api/v1/cert-manager";
const key = (): string => unique("KEY").replace(/\W/g, "_");

const projectOf = async ({ world }: Kitchen): Promise<string> => (await THINGS["projectId"]?.(world)) ?? "";

async function freshIdentity(kitchen: Kitchen): Promise<string> {
  const path = `/api/v1/projects/${await projectOf(kitchen)}/identities`;
  return ok(await kitchen.world.tenant.post(path, { name: unique("identity") })).identity.id;
}

async function credentials(kitchen: Kitchen): Promise<{ clientId: string; clientSecret: string }> {
  const { tenant } = kitchen.world;
  const path = `/api/v1/auth/universal-auth/identities/${await freshIdentity(kitchen)}`;
  const { clientId } = ok(await tenant.post(path, {})).identityUniversalAuth;
  const { clientSecret } = ok(await tenant.post(`${path}/client-secrets`, {}));
  return { clientId, clientSecret };
}

async function accessToken(kitchen: Kitchen): Promise<string> {
  const login = "/api/v1/auth/universal-auth/login";
  return ok(await kitchen.world.tenant.post(login, await credentials(kitchen))).accessToken;
}

async function csr(): Promise<string> {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const subject = encodeName(nameFrom({ commonName: "fuzz.example.com" }));
  return csrToPem(
    await buildCsr({ subject, extensions: [] }, { key: privateKey, algorithm: "ECDSA-SHA256" }),
  );
}

async function freshRoot({ world }: Kitchen): Promise<{ projectId: string; caId: string }> {
  const { id: projectId } = await certProject(world.tenant);
  return { projectId, caId: (await aRoot(world.tenant, projectId)).id };
}

async function freshCertificate(kitchen: Kitchen): Promise<{ id: string; pem: string }> {
  const { projectId, caId } = await freshRoot(kitchen);
  const profile = await aProfile(kitchen.world.tenant, projectId, caId);
  const { certificateId, certificate } = await issue(kitchen.world.tenant, profile.id);
  return { id: certificateId, pem: certificate };
}

/** In a year: within the life of every authority made here. */
const inAYear = (): string => new Date(Date.now() + 365 * 86_400_000).toISOString();

async function folders(kitchen: Kitchen): Promise<{ projectId: string; folderId: string; target: string }> {
  const projectId = await projectOf(kitchen);
  const [target, moved] = [unique("target"), unique("moved")];
  const at = { projectId, environment: "dev", path: "/" };
  const make = async (name: string) =>
    ok(await kitchen.world.tenant.post("/api/v2/folders", { ...at, name }));
  await make(target);
  return { projectId, folderId: (await make(moved)).folder.id, target };
}

async function invitation({ world }: Kitchen): Promise<string> {
  const body = { email: `${unique("guest")}@example.com`, role: "member" };
  const made = ok(await world.tenant.post("/api/v1/organization/invitations", body));
  return /kwi_[\w.-]+/.exec(JSON.stringify(made))?.[0] ?? "";
}

async function freshMember(kitchen: Kitchen): Promise<string> {
  const { tenant } = kitchen.world;
  const body = { token: await invitation(kitchen), password: "a longer pass phrase" };
  ok(await tenant.post("/api/v1/auth/accept-invitation", body));
  return ok(await tenant.get("/api/v1/organization/members")).members.at(-1).id;
}

const withFreshSecretName = async (): Promise<Recipe> => ({ params: { secretName: key() } });
const withFreshIdentity = async (kitchen: Kitchen): Promise<Recipe> => ({
  params: { identityId: await freshIdentity(kitchen) },
});
const withToken = async (kitchen: Kitchen): Promise<Recipe> => ({
  body: { accessToken: await accessToken(kitchen) },
});
const withCertificateInProject = async ({ world }: Kitchen): Promise<Recipe> => {
  const { id: projectId } = await certProject(world.tenant);
  const profile = await aProfile(world.tenant, projectId, (await aRoot(world.tenant, projectId)).id);
  await issue(world.tenant, profile.id, { ttl: "30d" });
  return { params: { projectId }, body: { query: { profileId: profile.id }, dryRun: false } };
};
const asPerson = async (kitchen: Kitchen): Promise<Recipe> => ({ token: await kitchen.person() });

export const RECIPES: Readonly<Record<string, (kitchen: Kitchen) => Promise<Recipe>>> = {
  universalAuthLogin: async (kitchen) => ({ body: await credentials(kitchen) }),
  renewAccessToken: withToken,
  revokeAccessToken: withToken,
  passwordLogin: async () => ({ body: OWNER }),
  whoAmI: asPerson,
  logout: asPerson,
  selectOrganization: async (kitchen) => ({
    ...(await asPerson(kitchen)),
    body: { organizationId: kitchen.ownerOrgId },
  }),
  attachUniversalAuth: withFreshIdentity,
  attachTokenAuth: withFreshIdentity,
  acceptInvitation: async (kitchen) => ({
    body: { token: await invitation(kitchen), password: "a longer pass phrase" },
  }),
  updateOrganizationMember: async (kitchen) => ({ params: { membershipId: await freshMember(kitchen) } }),
  removeOrganizationMember: async (kitchen) => ({ params: { membershipId: await freshMember(kitchen) } }),
  installLicence: async ({ instanceAdmin, world }) => {
    const asked = { organizationId: world.tenant.orgId, plan: "enterprise", days: 30 };
    const { licence } = ok(await instanceAdmin.post("/api/v1/admin/licences", asked));
    return { body: { document: licence.document } };
  },
  createSecret: withFreshSecretName,
  createRawSecret: withFreshSecretName,
  createRawSecrets: async (kitchen) => ({
    body: {
      workspaceId: await projectOf(kitchen),
      environment: "dev",
      secrets: [{ secretKey: key(), secretValue: "value" }],
    },
  }),
  moveFolder: async (kitchen) => {
    const { projectId, folderId, target } = await folders(kitchen);
    const body = { projectId, destinationEnvironment: "dev", destinationPath: `/${target}` };
    return { params: { folderId }, body };
  },
  createFolderV1: async (kitchen) => ({
    body: { workspaceId: await projectOf(kitchen), environment: "dev", name: unique("folder") },
  }),
  createWorkspaceTag: async () => ({ body: { slug: unique("tag"), name: "Tag", color: "#224466" } }),
  rollbackSecrets: async (kitchen) => {
    await projectOf(kitchen);
    return { body: { environment: "dev", at: new Date().toISOString() } };
  },
  revokeLicence: async ({ instanceAdmin, world }) => {
    const asked = { organizationId: world.tenant.orgId, plan: "enterprise", days: 30 };
    return {
      params: { licenceId: ok(await instanceAdmin.post("/api/v1/admin/licences", asked)).licence.id },
    };
  },
  bulkRevokeCertificates: withCertificateInProject,
  bulkRenewCertificates: withCertificateInProject,
  getInternalCaCsr: async ({ world }) => {
    const { id } = await certProject(world.tenant);
    return { params: { caId: (await anIntermediate(world.tenant, id, null)).id } };
  },
  downloadInternalCaCertificate: async ({ world }) => {
    const { id } = await certProject(world.tenant);
    const root = await aRoot(world.tenant, id);
    return { params: { caId: root.id, caCertId: root.configuration.activeCaCertId } };
  },
  signIntermediate: async (kitchen) => ({
    params: { caId: (await freshRoot(kitchen)).caId },
    body: { csr: await csr(), notAfter: inAYear() },
  }),
  importInternalCaCertificate: async (kitchen) => {
    const { tenant } = kitchen.world;
    const { projectId, caId: rootId } = await freshRoot(kitchen);
    const { id: caId } = await anIntermediate(tenant, projectId, null);
    const { csr: request } = ok(await tenant.get(`${CM}/ca/internal/${caId}/csr`));
    const body = { csr: request, notAfter: inAYear() };
    const signed = ok(await tenant.post(`${CM}/ca/internal/${rootId}/sign-intermediate`, body));
    const { certificate, certificateChain } = signed;
    return { params: { caId }, body: { certificate, certificateChain } };
  },
  deleteCertificatePolicy: async (kitchen) => {
    const { id } = await certProject(kitchen.world.tenant);
    return { params: { id: (await aPolicy(kitchen.world.tenant, id)).id } };
  },
  signCertificate: async (kitchen) => ({
    body: { csr: await csr(), caId: (await freshRoot(kitchen)).caId, ttl: "30d" },
  }),
  importCertificate: async (kitchen) => ({
    body: {
      certificatePem: (await freshCertificate(kitchen)).pem,
      projectId: (await certProject(kitchen.world.tenant)).id,
    },
  }),
  deleteCertificate: async (kitchen) => {
    const { id: projectId } = await certProject(kitchen.world.tenant);
    const body = { certificatePem: (await freshCertificate(kitchen)).pem, projectId };
    const made = ok(await kitchen.world.tenant.post(`${CM}/certificates/import-certificate`, body));
    return { params: { id: made.certificateId ?? made.certificate?.id ?? made.certificate?.certificateId } };
  },
  unholdCertificate: async (kitchen) => {
    const { id } = await freshCertificate(kitchen);
    const reason = { revocationReason: "CERTIFICATE_HOLD" };
    ok(await kitchen.world.tenant.post(`${CM}/certificates/${id}/revoke`, reason));
    return { params: { id } };
  },
  downloadCrl: async (kitchen) => {
    const { caId } = await freshRoot(kitchen);
    const [list] = ok(await kitchen.world.tenant.get(`${CM}/ca/internal/${caId}/crls`));
    const [keyId = "", shard = "0"] = String(list.id).split(/[/:.]/);
    return { params: { keyId, shard } };
  },
  getAlertCalendar: async (kitchen) => {
    const { id: projectId } = await certProject(kitchen.world.tenant);
    const made = ok(
      await kitchen.world.tenant.post(`${CM}/alerts/calendars`, { projectId, name: unique("calendar") }),
    );
    return { query: { key: /key=([\w.%-]+)/.exec(JSON.stringify(made))?.[1] ?? "" } };
  },
};

/** Never brought to a 200, each with why. */
export const OUT_OF_REACH: Readonly<Record<string, string>> = {
  bootstrapInstance: "works once, before anything else",
  importProject: "needs a file that an export made; secrets/transfer reads and writes those",
  changePassword: "would lock the run's own person out",
  requestPasswordReset: "needs a mail server, and works on after its answer; see auth/resets",
  resetPassword: "needs the token of a mail; see auth/resets",
  grantAdminAccess: "needs a project whose last admin has left; see projects",
};
