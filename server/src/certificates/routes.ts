import type { Route } from "../platform/http/index.ts";
import type { Applications } from "./applications/service.ts";
import { applicationRoutes } from "./applications/routes.ts";
import type { AuthorityCertificates } from "./authorities/certificates/service.ts";
import { authorityRoutes } from "./authorities/routes.ts";
import type { Authorities } from "./authorities/service.ts";
import { inventoryRoutes, type InventoryServices } from "./inventory/routes.ts";
import { issuanceRoutes } from "./issuance/routes.ts";
import type { CertificateRequests } from "./issuance/requests/service.ts";
import type { Issuance } from "./issuance/service.ts";
import { policyRoutes } from "./policies/routes.ts";
import type { Policies } from "./policies/service.ts";
import { profileRoutes } from "./profiles/routes.ts";
import type { Profiles } from "./profiles/service.ts";
import type { MayIn } from "./service.ts";
import { revocationRoutes, type RevocationServices } from "./revocation/routes.ts";

interface CertificateServices extends InventoryServices, RevocationServices {
  readonly mayIn: MayIn;
  readonly authorities: Authorities;
  readonly authorityCertificates: AuthorityCertificates;
  readonly policies: Policies;
  readonly profiles: Profiles;
  readonly applications: Applications;
  readonly issuance: Issuance;
  readonly requests: CertificateRequests;
}

export const certificateRoutes = (services: CertificateServices): Route[] => [
  ...authorityRoutes(services.authorities, services.authorityCertificates, services.mayIn),
  ...policyRoutes(services.policies, services.mayIn),
  ...profileRoutes(services.profiles, services.mayIn),
  ...applicationRoutes(services.applications, services.mayIn),
  ...issuanceRoutes(services.issuance, services.requests),
  ...inventoryRoutes(services),
  ...revocationRoutes(services),
];
