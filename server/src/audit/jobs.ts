import type { Job } from "../platform/jobs/index.ts";
import type { AuditPartitions } from "./partitions/service.ts";

const SIX_HOURS = 6 * 3600;

export const auditJobs = (partitions: AuditPartitions): Job[] => [
  { name: "audit-partitions", everySeconds: SIX_HOURS, run: () => partitions.ensurePartitions() },
  {
    name: "audit-retention",
    everySeconds: SIX_HOURS,
    leaseSeconds: 3600,
    run: () => partitions.applyRetention(),
  },
];
