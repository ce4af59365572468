import type { Job } from "../platform/jobs/index.ts";
import type { Upkeep } from "./inventory/upkeep/service.ts";
import type { Renewal } from "./issuance/renewal/service.ts";
import type { RevocationLists } from "./revocation/lists/service.ts";

export interface CertificateWork {
  readonly upkeep: Upkeep;
  readonly renewal: Renewal;
  readonly lists: RevocationLists;
}

export const certificateJobs = ({ upkeep, renewal, lists }: CertificateWork): Job[] => [
  { name: "certificates-expire", everySeconds: 30, leaseSeconds: 300, run: () => upkeep.moveExpired() },
  { name: "certificates-fold", everySeconds: 60, leaseSeconds: 300, run: () => upkeep.foldBlocks() },
  {
    name: "certificates-clear",
    everySeconds: 600,
    leaseSeconds: 600,
    run: () => upkeep.clearDeletedProjects(),
  },
  {
    name: "certificates-renew",
    everySeconds: 30,
    leaseSeconds: 600,
    run: (isStopping) => renewal.renewDue(isStopping),
  },
  { name: "certificates-requests", everySeconds: 60, run: () => renewal.tidyRequests() },
  {
    name: "certificates-lists",
    everySeconds: 3,
    leaseSeconds: 120,
    run: (isStopping) => lists.catchUp(isStopping),
  },
];
