import { z } from "zod";
import { endpoint, moment, uuid } from "../../platform/http/endpoint.ts";
import { grantedToken } from "../access-tokens/contract.ts";
import { seconds, sharedSettings, trustedIp, trustedIps, uses } from "../contract.ts";

const room = "auth";

export const universalAuth = z.object({
  ...sharedSettings,
  clientId: uuid,
  clientSecretTrustedIps: z.array(trustedIp),
  lockoutEnabled: z.boolean(),
  lockoutThreshold: z.number(),
  lockoutDurationSeconds: z.number(),
  lockoutCounterResetSeconds: z.number(),
});
export type UniversalAuthView = z.input<typeof universalAuth>;

export const universalLogin = endpoint({
  id: "universalAuthLogin",
  method: "POST",
  path: "/api/v1/auth/universal-auth/login",
  room,
  summary: "Log a machine identity in with client id and client secret",
  access: "public",
  rate: "login",
  acceptsForm: true,
  body: z.object({
    clientId: z.string().max(256),
    clientSecret: z.string().max(1024),
    organizationSlug: z.string().max(64).optional(),
  }),
  reply: grantedToken,
  example: { body: { clientId: "00000000-0000-7000-8000-000000000000", clientSecret: "…" } },
});

const one = z.object({ identityId: uuid });
const PATH = "/api/v1/auth/universal-auth/identities/{identityId}";
const lockout = {
  lockoutEnabled: z.boolean().default(true),
  lockoutThreshold: z.number().int().min(1).max(30).default(3),
  lockoutDurationSeconds: z.number().int().min(30).max(86_400).default(300),
  lockoutCounterResetSeconds: z.number().int().min(5).max(3600).default(30),
};

export const attachUniversalAuth = endpoint({
  id: "attachUniversalAuth",
  method: "POST",
  path: PATH,
  room,
  summary: "Let an identity log in with client id and client secret",
  params: one,
  body: z.object({
    clientSecretTrustedIps: trustedIps.default(["0.0.0.0/0", "::/0"]),
    accessTokenTrustedIps: trustedIps.default(["0.0.0.0/0", "::/0"]),
    accessTokenTTL: seconds.default(2_592_000),
    accessTokenMaxTTL: seconds.default(2_592_000),
    accessTokenNumUsesLimit: uses.default(0),
    accessTokenPeriod: seconds.default(0),
    ...lockout,
  }),
  reply: z.object({ identityUniversalAuth: universalAuth }),
  example: { body: { accessTokenTTL: 3600, accessTokenMaxTTL: 86_400 } },
});
export type UniversalAuthSettings = z.output<typeof attachUniversalAuth.body>;

export const getUniversalAuth = endpoint({
  id: "getUniversalAuth",
  method: "GET",
  path: PATH,
  room,
  summary: "How an identity logs in",
  params: one,
  reply: z.object({ identityUniversalAuth: universalAuth }),
});

export const updateUniversalAuth = endpoint({
  id: "updateUniversalAuth",
  method: "PATCH",
  path: PATH,
  room,
  summary: "Change how an identity logs in; tokens in use feel it at once",
  params: one,
  body: z.object({
    clientSecretTrustedIps: trustedIps.optional(),
    accessTokenTrustedIps: trustedIps.optional(),
    accessTokenTTL: seconds.optional(),
    accessTokenMaxTTL: seconds.optional(),
    accessTokenNumUsesLimit: uses.optional(),
    accessTokenPeriod: seconds.optional(),
    lockoutEnabled: z.boolean().optional(),
    lockoutThreshold: z.number().int().min(1).max(30).optional(),
    lockoutDurationSeconds: z.number().int().min(30).max(86_400).optional(),
    lockoutCounterResetSeconds: z.number().int().min(5).max(3600).optional(),
  }),
  reply: z.object({ identityUniversalAuth: universalAuth }),
  example: { body: { accessTokenTTL: 1800 } },
});
export type UniversalAuthChange = z.output<typeof updateUniversalAuth.body>;

export const detachUniversalAuth = endpoint({
  id: "detachUniversalAuth",
  method: "DELETE",
  path: PATH,
  room,
  summary: "End this way of logging in: its client secrets and tokens die at once",
  params: one,
  reply: z.object({ identityUniversalAuth: universalAuth }),
});

export const clearLockouts = endpoint({
  id: "clearUniversalAuthLockouts",
  method: "POST",
  path: `${PATH}/clear-lockouts`,
  room,
  summary: "Forget failed logins, so that locked addresses may try again",
  params: one,
  reply: z.object({ deleted: z.number() }),
});

export const clientSecretData = z.object({
  id: uuid,
  createdAt: moment,
  updatedAt: moment,
  description: z.string(),
  clientSecretPrefix: z.string(),
  clientSecretNumUses: z.number(),
  clientSecretNumUsesLimit: z.number(),
  clientSecretTTL: z.number(),
  clientSecretLastUsedAt: moment.nullable(),
  identityUAId: uuid,
  isClientSecretRevoked: z.boolean(),
});

const oneSecret = z.object({ identityId: uuid, clientSecretId: uuid });

export const createClientSecret = endpoint({
  id: "createClientSecret",
  method: "POST",
  path: `${PATH}/client-secrets`,
  room,
  summary: "Make a client secret; it is shown this once",
  params: one,
  body: z.object({
    description: z.string().max(1024).default(""),
    numUsesLimit: uses.default(0),
    ttl: seconds.default(0),
  }),
  reply: z.object({ clientSecret: z.string(), clientSecretData }),
  example: { body: { description: "laptop", ttl: 0 } },
});
export type NewClientSecret = z.output<typeof createClientSecret.body>;

export const listClientSecrets = endpoint({
  id: "listClientSecrets",
  method: "GET",
  path: `${PATH}/client-secrets`,
  room,
  summary: "The client secrets of an identity, without the secrets",
  params: one,
  reply: z.object({ clientSecretData: z.array(clientSecretData) }),
});

export const getClientSecret = endpoint({
  id: "getClientSecret",
  method: "GET",
  path: `${PATH}/client-secrets/{clientSecretId}`,
  room,
  summary: "One client secret, without the secret",
  params: oneSecret,
  reply: z.object({ clientSecretData }),
});

export const revokeClientSecret = endpoint({
  id: "revokeClientSecret",
  method: "POST",
  path: `${PATH}/client-secrets/{clientSecretId}/revoke`,
  room,
  summary: "End a client secret and every token that was got with it",
  params: oneSecret,
  reply: z.object({ clientSecretData }),
});
