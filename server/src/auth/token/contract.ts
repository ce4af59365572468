import { z } from "zod";
import { endpoint, moment, queryInteger, uuid } from "../../platform/http/endpoint.ts";
import { grantedToken } from "../access-tokens/contract.ts";
import { seconds, sharedSettings, trustedIps, uses } from "../contract.ts";

const room = "auth";
export const tokenAuth = z.object(sharedSettings);
export type TokenAuthView = z.input<typeof tokenAuth>;

export const tokenData = z.object({
  id: uuid,
  identityId: uuid,
  name: z.string().nullable(),
  authMethod: z.string(),
  accessTokenTTL: z.number(),
  accessTokenMaxTTL: z.number(),
  accessTokenPeriod: z.number(),
  accessTokenNumUses: z.number(),
  accessTokenNumUsesLimit: z.number(),
  accessTokenLastUsedAt: moment.nullable(),
  accessTokenLastRenewedAt: moment.nullable(),
  isAccessTokenRevoked: z.boolean(),
  identityUAClientSecretId: uuid.nullable(),
  createdAt: moment,
  updatedAt: moment,
});
export type TokenDataView = z.input<typeof tokenData>;

const one = z.object({ identityId: uuid });
const oneToken = z.object({ tokenId: uuid });
const PATH = "/api/v1/auth/token-auth/identities/{identityId}";
const TOKEN_PATH = "/api/v1/auth/token-auth/tokens/{tokenId}";
const reply = z.object({ identityTokenAuth: tokenAuth });

export const attachTokenAuth = endpoint({
  id: "attachTokenAuth",
  method: "POST",
  path: PATH,
  room,
  summary: "Let tokens be made for an identity directly",
  params: one,
  body: z.object({
    accessTokenTrustedIps: trustedIps.default(["0.0.0.0/0", "::/0"]),
    accessTokenTTL: seconds.default(2_592_000),
    accessTokenMaxTTL: seconds.default(2_592_000),
    accessTokenNumUsesLimit: uses.default(0),
    accessTokenPeriod: seconds.default(0),
  }),
  reply,
  example: { body: { accessTokenTTL: 3600, accessTokenMaxTTL: 86_400 } },
});
export type TokenAuthSettings = z.output<typeof attachTokenAuth.body>;

export const getTokenAuth = endpoint({
  id: "getTokenAuth",
  method: "GET",
  path: PATH,
  room,
  summary: "Settings of token auth",
  params: one,
  reply,
});

export const updateTokenAuth = endpoint({
  id: "updateTokenAuth",
  method: "PATCH",
  path: PATH,
  room,
  summary: "Change the settings of token auth",
  params: one,
  body: z.object({
    accessTokenTrustedIps: trustedIps.optional(),
    accessTokenTTL: seconds.optional(),
    accessTokenMaxTTL: seconds.optional(),
    accessTokenNumUsesLimit: uses.optional(),
    accessTokenPeriod: seconds.optional(),
  }),
  reply,
  example: { body: { accessTokenTTL: 1800 } },
});
export type TokenAuthChange = z.output<typeof updateTokenAuth.body>;

export const detachTokenAuth = endpoint({
  id: "detachTokenAuth",
  method: "DELETE",
  path: PATH,
  room,
  summary: "End token auth and all its tokens",
  params: one,
  reply,
});

export const createToken = endpoint({
  id: "createToken",
  method: "POST",
  path: `${PATH}/tokens`,
  room,
  summary: "Make an access token; it is shown this once",
  params: one,
  body: z.object({ name: z.string().max(255).optional(), organizationSlug: z.string().max(64).optional() }),
  reply: grantedToken.extend({ tokenData }),
  example: { body: { name: "ci" } },
});

export const listTokens = endpoint({
  id: "listTokens",
  method: "GET",
  path: `${PATH}/tokens`,
  room,
  summary: "The tokens that were made for an identity, newest first",
  params: one,
  query: z.object({ offset: queryInteger(0, 1e9, 0), limit: queryInteger(1, 100, 20) }),
  reply: z.object({ tokens: z.array(tokenData) }),
});

export const getToken = endpoint({
  id: "getToken",
  method: "GET",
  path: TOKEN_PATH,
  room,
  summary: "What is known of a token, without the token",
  params: oneToken,
  reply: z.object({ token: tokenData }),
});

export const renameToken = endpoint({
  id: "renameToken",
  method: "PATCH",
  path: TOKEN_PATH,
  room,
  summary: "Give a token another name",
  params: oneToken,
  body: z.object({ name: z.string().max(255).optional() }),
  reply: z.object({ token: tokenData }),
  example: { body: { name: "ci-2" } },
});

export const revokeTokenById = endpoint({
  id: "revokeToken",
  method: "POST",
  path: `${TOKEN_PATH}/revoke`,
  room,
  summary: "End a token now, on every node",
  params: oneToken,
  reply: z.object({ message: z.string() }),
});
