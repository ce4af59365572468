import type { Job } from "../platform/jobs/index.ts";
import type { Crls } from "./crl.ts";

export const revocationJobs = (crls: Crls): Job[] => [
  {
    name: "certificates-lists",
    everySeconds: 3,
    leaseSeconds: 120,
    run: (isStopping) => crls.catchUp(isStopping),
  },
];
