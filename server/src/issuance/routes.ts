import { idempotencyKey, serve, type Route, toThing } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { CertificateRequests } from "./requests.ts";
import type { Issuance } from "./service.ts";

export const issuanceRoutes = (issuance: Issuance, requests: CertificateRequests): Route[] => [
  serve(
    contract.issueCertificate,
    ({ actor, body, headers }) => issuance.issue(actor, body, idempotencyKey(headers)),
    toThing(issuance.judgeIssue),
  ),
  serve(contract.getCertificateRequest, ({ actor, params }) => requests.get(actor, params.requestId)),
  serve(
    contract.renewCertificate,
    ({ actor, params, body, headers }) => issuance.renew(actor, params.id, body, idempotencyKey(headers)),
    toThing((actor, { params }) => issuance.judgeRenewal(actor, params["id"] ?? "")),
  ),
  serve(
    contract.signCertificate,
    ({ actor, body, headers }) => issuance.sign(actor, body, idempotencyKey(headers)),
    toThing(issuance.judgeSigning),
  ),
];
