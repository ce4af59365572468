import type { Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db/index.ts";
import type { Job } from "../platform/jobs/index.ts";
import { sweepLockouts } from "./lockouts/store.ts";
import type { AuthServices } from "./routes.ts";

export const authJobs = ({ accessTokens, sessions }: AuthServices, db: Db, clock: Clock): Job[] => [
  {
    name: "auth-sweep",
    everySeconds: 600,
    async run() {
      await accessTokens.sweep();
      await sessions.sweep();
      await db.write((tx) => sweepLockouts(tx, new Date(clock.millis() - 86_400_000)), { audited: false });
    },
  },
];

/** What every node does for itself: writing down when its tokens and client secrets were used. */
export async function flushUses({ accessTokens, universalLogin }: AuthServices): Promise<void> {
  await accessTokens.flushUses();
  await universalLogin.flushUses();
}
