import { serve, type Route, toThing } from "../../platform/http/index.ts";
import { invalidField } from "../../platform/problem.ts";
import * as contract from "./contract.ts";
import type { CertificateRequests } from "./requests/service.ts";
import type { Issuance } from "./service.ts";

type KeyReplyHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** One key per request; what it looks like is the caller's business. */
export function idempotencyKey(headers: KeyReplyHeaders): string | undefined {
  const key = headers["idempotency-key"];
  if (key === undefined || key === "") return undefined;
  if (typeof key !== "string" || key.length > 255)
    throw invalidField(["Idempotency-Key"], "Idempotency-Key must be one text of at most 255 characters");
  return key;
}

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
