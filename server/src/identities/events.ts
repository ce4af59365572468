import { fact } from "../platform/outbox/index.ts";

/** The identity is gone, with its credentials, tokens and streams. */
export const identityDeleted = fact<{ readonly orgId: string; readonly identityId: string }>(
  "identity.deleted",
);
/** Its name or what its tokens are checked against changed. */
export const identityChanged = fact<{ readonly orgId: string; readonly identityId: string }>(
  "identity.changed",
);
