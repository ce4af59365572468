import type { Job } from "../platform/jobs/index.ts";
import type { Maintenance } from "./maintenance.ts";

export const inventoryJobs = (maintenance: Maintenance): Job[] => [
  { name: "certificates-expire", everySeconds: 30, leaseSeconds: 300, run: () => maintenance.moveExpired() },
  { name: "certificates-fold", everySeconds: 60, leaseSeconds: 300, run: () => maintenance.foldBlocks() },
  {
    name: "certificates-clear",
    everySeconds: 600,
    leaseSeconds: 600,
    run: () => maintenance.clearDeletedProjects(),
  },
];
