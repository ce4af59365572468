import { fact } from "../../platform/outbox/index.ts";

/** An authority, policy, profile or application changed: whoever remembers how certificates are issued here looks again. */
export const issuanceChanged = fact<{ readonly projectId: string }>("certificates.issuance-changed");
