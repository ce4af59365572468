import { Raw, serve, servePublic, type Route } from "../../platform/http/index.ts";
import type { AuthorityCertificates } from "./certificates/service.ts";
import * as contract from "./contract.ts";
import type { Authorities } from "./service.ts";

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
  serve(contract.issueCaCertificate, ({ actor, params, body }) => own.issue(actor, params.caId, body)),
  serve(contract.getCaCertificate, ({ actor, params }) => own.active(actor, params.caId)),
  serve(contract.listCaCertificates, ({ actor, params }) => own.list(actor, params.caId)),
  serve(contract.signIntermediate, ({ actor, params, body }) =>
    own.signIntermediate(actor, params.caId, body),
  ),
  serve(contract.importCaCertificate, async ({ actor, params, body }) => {
    await own.import(actor, params.caId, body);
    return { message: "The certificate was taken in.", caId: params.caId };
  }),
  serve(contract.renewAuthority, ({ actor, params, body }) => own.renew(actor, params.caId, body)),
  servePublic(contract.downloadIssuer, async ({ params, reply }) => {
    const der = await authorities.issuerDer(params.certId);
    reply.header("content-type", "application/pkix-cert");
    reply.header("cache-control", "public, max-age=86400, immutable");
    return new Raw(der);
  }),
];
