import type { Job } from "../platform/jobs/index.ts";
import type { Renewal } from "./renewal.ts";

export const issuanceJobs = (renewal: Renewal): Job[] => [
  {
    name: "certificates-renew",
    everySeconds: 30,
    leaseSeconds: 600,
    run: (isStopping) => renewal.renewDue(isStopping),
  },
  { name: "certificates-requests", everySeconds: 60, run: () => renewal.tidyRequests() },
];
