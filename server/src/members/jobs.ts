import type { Job } from "../platform/jobs/index.ts";
import type { Invitations } from "./invitations/service.ts";

export const memberJobs = (invitations: Invitations): Job[] => [
  {
    name: "invitations-sweep",
    everySeconds: 3600,
    async run() {
      await invitations.sweep();
    },
  },
];
