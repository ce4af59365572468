import {
  idempotencyKey,
  Raw,
  serve,
  servePublic,
  type Route,
  inProject,
  toThing,
} from "../platform/http/index.ts";
import type { AuthorityCertificates } from "./ca-certificates.ts";
import * as contract from "./contract.ts";
import type { Authorities } from "./service.ts";
import type { MayIn } from "../certificates/index.ts";

interface DerReplyHeaders {
  header(name: string, value: string): void;
}

/** A certificate never changes under its id. */
function sendDer(reply: DerReplyHeaders, der: Buffer): Raw {
  reply.header("content-type", "application/pkix-cert");
  reply.header("cache-control", "public, max-age=86400, immutable");
  return new Raw(der);
}

export const authorityRoutes = (
  authorities: Authorities,
  own: AuthorityCertificates,
  mayIn: MayIn,
): Route[] => [
  serve(
    contract.createAuthority,
    ({ actor, body }) => own.create(actor, body),
    inProject("create", "certificate-authorities", mayIn("create", "certificate-authorities")),
  ),
  serve(contract.listAuthorities, ({ actor, query }) => authorities.list(actor, query.projectId)),
  serve(contract.listAllAuthorities, async ({ actor, query }) => ({
    certificateAuthorities: await authorities.list(actor, query.projectId),
  })),
  serve(contract.getAuthority, ({ actor, params }) => authorities.get(actor, params.id)),
  serve(
    contract.updateAuthority,
    ({ actor, params, body }) => authorities.update(actor, params.id, body),
    toThing((actor, { params }) => authorities.find(actor, params["id"] ?? "", "edit")),
  ),
  serve(
    contract.deleteAuthority,
    ({ actor, params }) => authorities.delete(actor, params.id),
    toThing((actor, { params }) => authorities.find(actor, params["id"] ?? "", "delete")),
  ),
  serve(contract.getCaCsr, async ({ actor, params }) => ({ csr: await own.csr(actor, params.caId) })),
  serve(
    contract.issueCaCertificate,
    ({ actor, params, body, headers }) => own.issue(actor, params.caId, body, idempotencyKey(headers)),
    toThing((actor, { params }) => authorities.find(actor, params["caId"] ?? "", "issue-ca-certificate")),
  ),
  serve(contract.getCaCertificate, ({ actor, params }) => own.active(actor, params.caId)),
  serve(contract.listCaCertificates, ({ actor, params }) => own.list(actor, params.caId)),
  servePublic(contract.downloadCaCertificate, async ({ params, reply }) =>
    sendDer(reply, await authorities.issuerDer(params.caCertId, params.caId)),
  ),
  serve(
    contract.signIntermediate,
    ({ actor, params, body, headers }) =>
      own.signIntermediate(actor, params.caId, body, idempotencyKey(headers)),
    toThing((actor, { params }) => authorities.find(actor, params["caId"] ?? "", "sign-intermediate")),
  ),
  serve(
    contract.importCaCertificate,
    async ({ actor, params, body }) => {
      await own.import(actor, params.caId, body);
      return { message: "The certificate was taken in.", caId: params.caId };
    },
    toThing((actor, { params }) => authorities.find(actor, params["caId"] ?? "", "issue-ca-certificate")),
  ),
  serve(
    contract.renewAuthority,
    ({ actor, params, body, headers }) => own.renew(actor, params.caId, body, idempotencyKey(headers)),
    toThing((actor, { params }) => authorities.find(actor, params["caId"] ?? "", "issue-ca-certificate")),
  ),
  servePublic(contract.downloadIssuer, async ({ params, reply }) =>
    sendDer(reply, await authorities.issuerDer(params.certId)),
  ),
];
