import { fact } from "../platform/outbox/index.ts";

/** Access tokens ended: one, or (tokenId null) all of an identity or, after a changed setting, to be looked at anew. */
export const tokensChanged = fact<{ readonly identityId: string; readonly tokenId: string | null }>(
  "tokens.changed",
);
/** User sessions ended: one, or (sessionId null) all of a user. */
export const sessionsChanged = fact<{ readonly userId: string; readonly sessionId: string | null }>(
  "sessions.changed",
);
