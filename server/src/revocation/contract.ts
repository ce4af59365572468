import { z } from "zod";
import { endpoint, moment, uuid } from "../platform/http/endpoint.ts";
import { byId, reasonWord } from "../certificates/contract.ts";

const room = "certificates";
const path = "/api/v1/cert-manager/certificates";
const nothing = z.object({});

export const revokeCertificate = endpoint({
  id: "revokeCertificate",
  method: "POST",
  path: `${path}/{id}/revoke`,
  room,
  summary:
    "Revoke a certificate, or put it on hold (CERTIFICATE_HOLD). OCSP says so at once, the list within seconds",
  params: byId,
  body: z.object({ revocationReason: reasonWord.default("UNSPECIFIED") }),
  reply: z.object({ message: z.string(), serialNumber: z.string(), revokedAt: moment }),
  example: { body: { revocationReason: "SUPERSEDED" } },
});
export const unholdCertificate = endpoint({
  id: "unholdCertificate",
  method: "POST",
  path: `${path}/{id}/unhold`,
  room,
  summary: "Take a certificate off hold: it is valid again",
  params: byId,
  reply: z.object({ message: z.string(), serialNumber: z.string() }),
});
export const listCrls = endpoint({
  id: "listCrls",
  method: "GET",
  path: "/api/v1/cert-manager/ca/internal/{caId}/crls",
  room,
  summary: "The authority's revocation lists as PEM",
  params: z.object({ caId: uuid }),
  reply: z.array(z.object({ id: z.string(), crl: z.string() })),
});

export const downloadCrl = endpoint({
  id: "downloadCrl",
  method: "GET",
  path: "/pki/crl/{keyId}/{shard}",
  room,
  summary: "A revocation list in DER, as certificates point to it",
  access: "public",
  params: z.object({
    keyId: uuid,
    shard: z
      .string()
      .regex(/^\d{1,3}$/)
      .transform(Number),
  }),
  reply: z.unknown(),
  replyType: "application/pkix-crl",
});
const ocspParams = z.object({ keyId: uuid });
export const postOcsp = endpoint({
  id: "postOcsp",
  method: "POST",
  path: "/pki/ocsp/{keyId}",
  room,
  summary: "OCSP (RFC 6960): content type application/ocsp-request",
  access: "public",
  rate: "read",
  params: ocspParams,
  body: z.union([z.instanceof(Uint8Array), nothing]),
  reply: z.unknown(),
  replyType: "application/ocsp-response",
  maxBodyBytes: 16_384,
});
export const getOcsp = endpoint({
  id: "getOcsp",
  method: "GET",
  path: "/pki/ocsp/{keyId}/*",
  room,
  summary: "OCSP by GET (RFC 5019): the request in base64 in the path",
  access: "public",
  params: z.object({ keyId: uuid, "*": z.string() }),
  reply: z.unknown(),
  replyType: "application/ocsp-response",
});
