import { fact } from "../../platform/outbox/index.ts";

/** Taken off hold: whoever remembers it as revoked forgets. */
export const certificateReleased = fact<{ readonly projectId: string; readonly certificateId: string }>(
  "certificate.released",
);
