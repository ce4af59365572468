import type { Job } from "../platform/jobs/index.ts";
import type { AuthServices } from "./routes.ts";

export const authJobs = ({ accessTokens, sessions, passwordResets }: AuthServices): Job[] => [
  {
    name: "auth-sweep",
    everySeconds: 600,
    async run() {
      await accessTokens.sweep();
      await sessions.sweep();
      await passwordResets.sweep();
    },
  },
];

/** What every node does for itself: storing when its tokens and client secrets were last used. */
export async function flushUses({ accessTokens, universalLogin }: AuthServices): Promise<void> {
  // One after the other, on one connection; what the first one failed with does not keep the second from trying.
  try {
    await accessTokens.flushUses();
  } finally {
    await universalLogin.flushUses();
  }
}
