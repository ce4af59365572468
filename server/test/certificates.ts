/** Authorities, profiles and certificates for tests, made through the public face. */
import type { Answer, Client, TestHouse } from "./harness.ts";
import { aProject, unique } from "./builders.ts";

export function ok(answer: Answer, what = "the request"): Answer["body"] {
  if (answer.status !== 200)
    throw new Error(`${what} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

export const certProject = (client: Client) => aProject(client, { type: "cert-manager" });

const CM = "/api/v1/cert-manager";

export async function aRoot(
  client: Client,
  projectId: string,
  configuration: Record<string, unknown> = {},
): Promise<Answer["body"]> {
  const name = unique("root");
  const body = {
    name,
    projectId,
    status: "active",
    configuration: { type: "root", commonName: name, keyAlgorithm: "EC_prime256v1", ...configuration },
  };
  return ok(await client.post(`${CM}/ca/internal`, body), "creating a root");
}

export async function anIntermediate(
  client: Client,
  projectId: string,
  parentCaId: string | null,
  configuration: Record<string, unknown> = {},
): Promise<Answer["body"]> {
  const name = unique("intermediate");
  const body = {
    name,
    projectId,
    configuration: {
      type: "intermediate",
      commonName: name,
      keyAlgorithm: "EC_prime256v1",
      parentCaId,
      ...configuration,
    },
  };
  return ok(await client.post(`${CM}/ca/internal`, body), "creating an intermediate");
}

export async function aPolicy(
  client: Client,
  projectId: string,
  rules: Record<string, unknown> = {},
): Promise<Answer["body"]> {
  return ok(
    await client.post(`${CM}/certificate-policies`, { name: unique("policy"), projectId, ...rules }),
    "creating a policy",
  ).certificatePolicy;
}

export async function aProfile(
  client: Client,
  projectId: string,
  caId: string | null,
  more: Record<string, unknown> = {},
): Promise<Answer["body"]> {
  const { policy = {}, ...rest } = more as { policy?: Record<string, unknown> };
  const { id: certificatePolicyId } = await aPolicy(client, projectId, policy);
  return ok(
    await client.post(`${CM}/certificate-profiles`, {
      caId,
      certificatePolicyId,
      slug: unique("profile"),
      projectId,
      ...rest,
    }),
    "creating a profile",
  ).certificateProfile;
}

export async function issue(
  client: Client,
  profileId: string,
  attributes: Record<string, unknown> = {},
  more: Record<string, unknown> = {},
): Promise<Answer["body"]> {
  const commonName = unique("host");
  const body = {
    profileId,
    attributes: {
      commonName,
      altNames: [{ type: "dns_name", value: `${commonName}.example.com` }],
      ...attributes,
    },
    ...more,
  };
  return ok(await client.post(`${CM}/certificates`, body), "issuing").certificate;
}

export interface Pki {
  readonly client: Client;
  readonly project: { readonly id: string };
  readonly root: Answer["body"];
  readonly profile: Answer["body"];
  list(query?: string): Promise<Answer>;
}

/** A project with a root and a profile that allows everything. */
export async function aPki(house: TestHouse, more: Record<string, unknown> = {}): Promise<Pki> {
  const client = house.owner;
  const project = await certProject(client);
  const root = await aRoot(client, project.id);
  const profile = await aProfile(client, project.id, root.id, more);
  return {
    client,
    project,
    root,
    profile,
    list: (query = "") => client.get(`${CM}/certificate-profiles/${profile.id}/certificates${query}`),
  };
}
