import type { Job } from "../platform/jobs/index.ts";
import type { Audit } from "./service.ts";

const SIX_HOURS = 6 * 3600;

export const auditJobs = (audit: Audit): Job[] => [
  { name: "audit-partitions", everySeconds: SIX_HOURS, run: () => audit.ensurePartitions() },
  {
    name: "audit-retention",
    everySeconds: SIX_HOURS,
    leaseSeconds: 3600,
    run: () => audit.applyRetention(),
  },
];
