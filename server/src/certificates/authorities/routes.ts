import { Raw, serve, servePublic, type Route } from "../../platform/http/index.ts";
import { idempotencyKey } from "../issuance/routes.ts";
import type { AuthorityCertificates } from "./certificates/service.ts";
import * as contract from "./contract.ts";
import type { Authorities } from "./service.ts";

interface Headers {
  header(name: string, value: string): void;
}

/** A certificate never changes under its id. */
function sendDer(reply: Headers, der: Buffer): Raw {
  reply.header("content-type", "application/pkix-cert");
  reply.header("cache-control", "public, max-age=86400, immutable");
  return new Raw(der);
}

export const authorityRoutes = (authorities: Authorities, own: AuthorityCertificates): Route[] => [
  serve(contract.createAuthority, ({ actor, body }) => own.create(actor, body)),
  serve(contract.listAuthorities, ({ actor, query }) => authorities.list(actor, query.projectId)),
  serve(contract.listAllAuthorities, async ({ actor, query }) => ({
    certificateAuthorities: await authorities.list(actor, query.projectId),
  })),
  serve(contract.getAuthority, ({ actor, params }) => authorities.get(actor, params.id)),
  serve(contract.updateAuthority, ({ actor, params, body }) => authorities.update(actor, params.id, body)),
  serve(contract.deleteAuthority, ({ actor, params }) => authorities.delete(actor, params.id)),
  serve(contract.getCaCsr, async ({ actor, params }) => ({ csr: await own.csr(actor, params.caId) })),
  serve(contract.issueCaCertificate, ({ actor, params, body, headers }) =>
    own.issue(actor, params.caId, body, idempotencyKey(headers)),
  ),
  serve(contract.getCaCertificate, ({ actor, params }) => own.active(actor, params.caId)),
  serve(contract.listCaCertificates, ({ actor, params }) => own.list(actor, params.caId)),
  servePublic(contract.downloadCaCertificate, async ({ params, reply }) =>
    sendDer(reply, await authorities.issuerDer(params.caCertId, params.caId)),
  ),
  serve(contract.signIntermediate, ({ actor, params, body, headers }) =>
    own.signIntermediate(actor, params.caId, body, idempotencyKey(headers)),
  ),
  serve(contract.importCaCertificate, async ({ actor, params, body }) => {
    await own.import(actor, params.caId, body);
    return { message: "The certificate was taken in.", caId: params.caId };
  }),
  serve(contract.renewAuthority, ({ actor, params, body, headers }) =>
    own.renew(actor, params.caId, body, idempotencyKey(headers)),
  ),
  servePublic(contract.downloadIssuer, async ({ params, reply }) =>
    sendDer(reply, await authorities.issuerDer(params.certId)),
  ),
];
