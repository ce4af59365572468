/** The rooms about certificates, opened from the bottom up; house.ts opens them with all others. */
import { applicationRoutes, createApplications } from "./applications/index.ts";
import { authorityRoutes, createAuthorities, createAuthorityCertificates } from "./authorities/index.ts";
import { createCertificateScope, createMayIn } from "./certificates/index.ts";
import {
  createCertificateSearch,
  createImports,
  createInventory,
  createMaintenance,
  inventoryJobs,
  inventoryRoutes,
} from "./inventory/index.ts";
import {
  createCertificateRequests,
  createIssuance,
  createRenewal,
  issuanceJobs,
  issuanceRoutes,
} from "./issuance/index.ts";
import type { Permissions } from "./permissions/index.ts";
import type { Clock } from "./platform/clock.ts";
import type { Keyring } from "./platform/crypto/index.ts";
import type { Db } from "./platform/db/index.ts";
import type { Route } from "./platform/http/index.ts";
import type { Job } from "./platform/jobs/index.ts";
import type { Log } from "./platform/log.ts";
import type { Tail } from "./platform/outbox/index.ts";
import { createPolicies, policyRoutes } from "./policies/index.ts";
import { createProfiles, profileRoutes } from "./profiles/index.ts";
import type { Projects } from "./projects/index.ts";
import {
  createCrls,
  createOcsp,
  createRevocation,
  revocationJobs,
  revocationRoutes,
} from "./revocation/index.ts";
import { createIssuers, createSigning } from "./signing/index.ts";

interface CertificateNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly tail: Tail;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly projects: Projects;
  readonly log: Log;
  /** Plain http, under which CRLs, OCSP and issuers are fetched: it stands in every certificate. */
  readonly revocationUrl: string;
}

/** What issuance follows: who signs, and under which rules. */
function openRules(needs: CertificateNeeds) {
  const scope = createCertificateScope(needs);
  const issuers = createIssuers(needs);
  const signing = createSigning({ ...needs, issuers });
  const authorities = createAuthorities({ ...needs, scope });
  const own = createAuthorityCertificates({ ...needs, authorities, issuers, signing });
  const policies = createPolicies({ ...needs, scope });
  const profiles = createProfiles({ ...needs, scope });
  const applications = createApplications({ ...needs, scope });
  const mayIn = createMayIn(scope, needs.permissions);
  return {
    scope,
    issuers,
    signing,
    authorities,
    profiles,
    applications,
    routes: [
      ...authorityRoutes(authorities, own, mayIn),
      ...policyRoutes(policies, mayIn),
      ...profileRoutes(profiles, mayIn),
      ...applicationRoutes(applications, mayIn),
    ],
  };
}

export function openCertificateRooms(needs: CertificateNeeds): { routes: Route[]; jobs: Job[] } {
  const rules = openRules(needs);
  const core = { ...needs, ...rules };
  const issuance = createIssuance(core);
  const requests = createCertificateRequests(needs);
  const inventory = createInventory(core);
  const imports = createImports(core);
  const revocation = createRevocation({ ...needs, inventory });
  const crls = createCrls(core);
  const ocsp = createOcsp(core);
  const search = createCertificateSearch({
    ...core,
    renew: (actor, id) => issuance.renew(actor, id, { removeRootsFromChain: false }, undefined),
    revoke: revocation.revoke,
  });
  const renewal = createRenewal({ ...core, issuance });
  return {
    routes: [
      ...rules.routes,
      ...issuanceRoutes(issuance, requests),
      ...inventoryRoutes({ inventory, imports, search }),
      ...revocationRoutes({ inventory, revocation, crls, ocsp }),
    ],
    jobs: [...inventoryJobs(createMaintenance(needs)), ...issuanceJobs(renewal), ...revocationJobs(crls)],
  };
}
