import {
  formPage,
  formPageCsp,
  Raw,
  serve,
  servePublic,
  type Route,
  toOneself,
  toThing,
} from "../platform/http/index.ts";
import { redact } from "../platform/redacted.ts";
import * as tokens from "./access-tokens/contract.ts";
import type { AccessTokens } from "./access-tokens/service.ts";
import * as resets from "./resets/contract.ts";
import type { PasswordResets } from "./resets/service.ts";
import * as sessions from "./sessions/contract.ts";
import type { Sessions } from "./sessions/service.ts";
import * as token from "./token/contract.ts";
import type { TokenAuths } from "./token/service.ts";
import * as universal from "./universal/contract.ts";
import type { UniversalLogin } from "./universal/login.ts";
import type { UniversalAuths } from "./universal/service.ts";

export interface AuthServices {
  readonly accessTokens: AccessTokens;
  readonly sessions: Sessions;
  readonly passwordResets: PasswordResets;
  readonly tokenAuths: TokenAuths;
  readonly universalAuths: UniversalAuths;
  readonly universalLogin: UniversalLogin;
}

export const authRoutes = (services: AuthServices): Route[] => [
  ...loginRoutes(services),
  ...resetRoutes(services.passwordResets),
  ...universalRoutes(services.universalAuths),
  ...tokenRoutes(services.tokenAuths),
];

const loginRoutes = ({ accessTokens, sessions: people, universalLogin }: AuthServices): Route[] => [
  servePublic(universal.universalLogin, ({ body, caller }) =>
    universalLogin.login(
      {
        clientId: body.clientId,
        clientSecret: redact(body.clientSecret),
        organizationSlug: body.organizationSlug,
      },
      caller,
    ),
  ),
  servePublic(tokens.renewToken, ({ body, caller }) => accessTokens.renew(body.accessToken, caller)),
  servePublic(tokens.revokeToken, async ({ body, caller }) => {
    await accessTokens.revoke(body.accessToken, caller);
    return { message: "The access token was revoked." };
  }),
  servePublic(sessions.passwordLogin, async ({ body, caller }) => {
    const { token: accessToken, expiresIn } = await people.login(body.email, redact(body.password), caller);
    return { accessToken, expiresIn, tokenType: "Bearer" as const };
  }),
  serve(
    sessions.selectOrganization,
    async ({ actor, body }) => ({
      token: (await people.selectOrganization(actor, body.organizationId)).token,
      isMfaEnabled: false,
    }),
    toOneself,
  ),
  serve(sessions.checkAuth, async () => ({ message: "Authenticated" }), toOneself),
  serve(
    sessions.logout,
    async ({ actor }) => {
      await people.logout(actor);
      return { message: "The session was ended." };
    },
    toOneself,
  ),
  serve(
    sessions.changePassword,
    async ({ actor, body }) => {
      await people.changePassword(actor, redact(body.currentPassword), redact(body.newPassword));
      return { message: "The password was changed. Log in again." };
    },
    toOneself,
  ),
  serve(sessions.whoAmI, async ({ actor }) => ({ user: await people.whoAmI(actor) })),
];

const RESET_PAGE = formPage({
  title: "Choose a new password",
  words:
    "Every session of yours ends when it is replaced. At least eight characters; a longer one is stronger.",
  fields: [
    {
      name: "newPassword",
      label: "New password",
      type: "password",
      autocomplete: "new-password",
      isRequired: true,
    },
  ],
  button: "Replace the password",
  post: resets.resetPassword.path.slice(1),
  done: "The password was replaced. You can log in with it now.",
});

const resetRoutes = (passwords: PasswordResets): Route[] => [
  servePublic(resets.requestPasswordReset, async ({ body, caller }) => {
    passwords.request(body.email, caller);
    return { message: "If this address has an account, a link is on its way there." };
  }),
  servePublic(resets.resetPassword, async ({ body, caller }) => {
    await passwords.confirm(redact(body.token), redact(body.newPassword), caller);
    return { message: "The password was replaced. Log in with the new one." };
  }),
  servePublic(resets.openPasswordResetLink, async ({ reply }) => {
    reply.header("content-type", "text/html; charset=utf-8");
    reply.header("content-security-policy", formPageCsp);
    return new Raw(RESET_PAGE);
  }),
];

const universalRoutes = (auths: UniversalAuths): Route[] => [
  serve(
    universal.attachUniversalAuth,
    async ({ actor, params, body }) => ({
      identityUniversalAuth: await auths.attach(actor, params.identityId, body),
    }),
    toThing((actor, { params }) => auths.judge(actor, params["identityId"] ?? "", "edit-auth")),
  ),
  serve(universal.getUniversalAuth, async ({ actor, params }) => ({
    identityUniversalAuth: await auths.get(actor, params.identityId),
  })),
  serve(
    universal.updateUniversalAuth,
    async ({ actor, params, body }) => ({
      identityUniversalAuth: await auths.update(actor, params.identityId, body),
    }),
    toThing((actor, { params }) => auths.judge(actor, params["identityId"] ?? "", "edit-auth")),
  ),
  serve(
    universal.detachUniversalAuth,
    async ({ actor, params }) => ({
      identityUniversalAuth: await auths.detach(actor, params.identityId),
    }),
    toThing((actor, { params }) => auths.judge(actor, params["identityId"] ?? "", "revoke-auth")),
  ),
  serve(
    universal.clearLockouts,
    async ({ actor, params }) => ({
      deleted: await auths.clearLockouts(actor, params.identityId),
    }),
    toThing((actor, { params }) => auths.judge(actor, params["identityId"] ?? "", "edit-auth")),
  ),
  serve(
    universal.createClientSecret,
    ({ actor, params, body }) => auths.createSecret(actor, params.identityId, body),
    toThing((actor, { params }) => auths.judge(actor, params["identityId"] ?? "", "create-token")),
  ),
  serve(universal.listClientSecrets, async ({ actor, params }) => ({
    clientSecretData: await auths.listSecrets(actor, params.identityId),
  })),
  serve(universal.getClientSecret, async ({ actor, params }) => ({
    clientSecretData: await auths.getSecret(actor, params.identityId, params.clientSecretId),
  })),
  serve(
    universal.revokeClientSecret,
    async ({ actor, params }) => ({
      clientSecretData: await auths.revokeSecret(actor, params.identityId, params.clientSecretId),
    }),
    toThing((actor, { params }) => auths.judge(actor, params["identityId"] ?? "", "delete-token")),
  ),
];

const tokenRoutes = (auths: TokenAuths): Route[] => [
  serve(
    token.attachTokenAuth,
    async ({ actor, params, body }) => ({
      identityTokenAuth: await auths.attach(actor, params.identityId, body),
    }),
    toThing((actor, { params }) => auths.judge(actor, params["identityId"] ?? "", "edit-auth")),
  ),
  serve(token.getTokenAuth, async ({ actor, params }) => ({
    identityTokenAuth: await auths.get(actor, params.identityId),
  })),
  serve(
    token.updateTokenAuth,
    async ({ actor, params, body }) => ({
      identityTokenAuth: await auths.update(actor, params.identityId, body),
    }),
    toThing((actor, { params }) => auths.judge(actor, params["identityId"] ?? "", "edit-auth")),
  ),
  serve(
    token.detachTokenAuth,
    async ({ actor, params }) => ({
      identityTokenAuth: await auths.detach(actor, params.identityId),
    }),
    toThing((actor, { params }) => auths.judge(actor, params["identityId"] ?? "", "revoke-auth")),
  ),
  serve(
    token.createToken,
    ({ actor, params, body }) => auths.createToken(actor, params.identityId, body.name),
    toThing((actor, { params }) => auths.judge(actor, params["identityId"] ?? "", "create-token")),
  ),
  serve(token.listTokens, async ({ actor, params, query }) => ({
    tokens: await auths.listTokens(actor, params.identityId, query),
  })),
  serve(token.getToken, async ({ actor, params }) => ({
    token: await auths.getToken(actor, params.tokenId),
  })),
  serve(
    token.renameToken,
    async ({ actor, params, body }) => ({
      token: await auths.renameToken(actor, params.tokenId, body.name),
    }),
    toThing((actor, { params }) => auths.judgeToken(actor, params["tokenId"] ?? "", "create-token")),
  ),
  serve(
    token.revokeTokenById,
    async ({ actor, params }) => {
      await auths.revokeToken(actor, params.tokenId);
      return { message: "The token was revoked." };
    },
    toThing((actor, { params }) => auths.judgeToken(actor, params["tokenId"] ?? "", "delete-token")),
  ),
];
