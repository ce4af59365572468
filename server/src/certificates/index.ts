/** The face of the room, and where its sub-rooms are put together. */
import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import type { Db } from "../platform/db/index.ts";
import type { Log } from "../platform/log.ts";
import type { Tail } from "../platform/outbox/index.ts";
import type { Permissions } from "../permissions/index.ts";
import type { Projects } from "../projects/index.ts";
import { createApplications } from "./applications/service.ts";
import { createAuthorityCertificates } from "./authorities/certificates/service.ts";
import { createIssuers } from "./authorities/issuers/service.ts";
import { createAuthorities } from "./authorities/service.ts";
import { createImports } from "./inventory/imports/service.ts";
import { createCertificateSearch } from "./inventory/search/service.ts";
import { createInventory } from "./inventory/service.ts";
import { createMaintenance } from "./inventory/maintenance/service.ts";
import { createSigning } from "./issuance/signing/service.ts";
import { createRenewal } from "./issuance/renewal/service.ts";
import { createCertificateRequests } from "./issuance/requests/service.ts";
import { createIssuance } from "./issuance/service.ts";
import { certificateJobs } from "./jobs.ts";
import { createPolicies } from "./policies/service.ts";
import { createProfiles } from "./profiles/service.ts";
import { createCrls } from "./revocation/crl/service.ts";
import { createOcsp } from "./revocation/ocsp/service.ts";
import { createRevocation } from "./revocation/service.ts";
import { certificateRoutes } from "./routes.ts";
import { createCertificateScope, createMayIn } from "./service.ts";

export {
  certificateIssued,
  certificateRenewalFailed,
  certificateRenewed,
  certificateRevoked,
} from "./events.ts";
export { seenOf, seesAll, sightOf } from "./inventory/sight/service.ts";

interface CertificateNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly tail: Tail;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly projects: Projects;
  readonly log: Log;
  /** Plain http, under which lists, status and issuers are fetched: it stands in every certificate. */
  readonly revocationUrl: string;
}

export function createCertificates(needs: CertificateNeeds) {
  const { db, clock, keyring, permissions } = needs;
  const scope = createCertificateScope(needs);
  const issuers = createIssuers(needs);
  const signing = createSigning({ db, clock, keyring, issuers });
  const authorities = createAuthorities({ ...needs, scope });
  const authorityCertificates = createAuthorityCertificates({
    db,
    clock,
    keyring,
    authorities,
    issuers,
    signing,
  });
  const policies = createPolicies({ db, clock, permissions, scope });
  const profiles = createProfiles({ ...needs, scope });
  const applications = createApplications({ db, clock, permissions, scope });
  const issuance = createIssuance({
    ...needs,
    profiles,
    applications,
    authorities,
    issuers,
    signing,
  });
  const requests = createCertificateRequests({ db, clock, keyring, permissions });
  const inventory = createInventory({ db, clock, keyring, permissions, profiles });
  const imports = createImports({ db, clock, keyring, permissions, scope, profiles, applications });
  const revocation = createRevocation({ db, clock, inventory });
  const lists = createCrls({ ...needs, issuers, authorities });
  const ocsp = createOcsp({ ...needs, issuers, signing });
  const search = createCertificateSearch({
    ...needs,
    scope,
    profiles,
    renew: (actor, id) => issuance.renew(actor, id, { removeRootsFromChain: false }, undefined),
    revoke: revocation.revoke,
  });
  const maintenance = createMaintenance({ db, clock });
  const renewal = createRenewal({ ...needs, profiles, issuance });
  const services = {
    mayIn: createMayIn(scope, permissions),
    authorities,
    authorityCertificates,
    policies,
    profiles,
    applications,
    issuance,
    requests,
    inventory,
    imports,
    search,
    revocation,
    lists,
    ocsp,
  };
  return {
    scope,
    applications,
    routes: certificateRoutes(services),
    jobs: certificateJobs({ maintenance, renewal, lists }),
  };
}
