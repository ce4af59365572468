import type { Job } from "../platform/jobs/index.ts";
import type { Maintenance } from "./inventory/maintenance/service.ts";
import type { Renewal } from "./issuance/renewal/service.ts";
import type { Crls } from "./revocation/crl/service.ts";

interface CertificateWork {
  readonly maintenance: Maintenance;
  readonly renewal: Renewal;
  readonly lists: Crls;
}

export const certificateJobs = ({ maintenance, renewal, lists }: CertificateWork): Job[] => [
  { name: "certificates-expire", everySeconds: 30, leaseSeconds: 300, run: () => maintenance.moveExpired() },
  { name: "certificates-fold", everySeconds: 60, leaseSeconds: 300, run: () => maintenance.foldBlocks() },
  {
    name: "certificates-clear",
    everySeconds: 600,
    leaseSeconds: 600,
    run: () => maintenance.clearDeletedProjects(),
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
