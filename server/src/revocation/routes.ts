import { createHash } from "node:crypto";
import { Raw, serve, servePublic, type Route, toThing } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { Crls } from "./crl.ts";
import type { Ocsp, OcspReply } from "./ocsp.ts";
import type { Revocation } from "./service.ts";
import type { Inventory } from "../inventory/index.ts";
import { decodeOcspPath } from "@keyward/x509";

interface RevocationServices {
  readonly revocation: Revocation;
  readonly crls: Crls;
  readonly ocsp: Ocsp;
  readonly inventory: Inventory;
}

interface CacheReplyHeaders {
  header(name: string, value: string): void;
}

/** Validity as HTTP caches understand it (RFC 5019 6.2). */
function describe(
  reply: CacheReplyHeaders,
  body: Buffer,
  times: { readonly thisUpdate?: Date; readonly nextUpdate?: Date },
  maxAgeSeconds: number,
): void {
  if (!times.thisUpdate || !times.nextUpdate) return reply.header("cache-control", "no-store");
  reply.header("cache-control", `max-age=${maxAgeSeconds}, public, no-transform, must-revalidate`);
  reply.header("last-modified", times.thisUpdate.toUTCString());
  reply.header("expires", times.nextUpdate.toUTCString());
  reply.header("etag", `"${createHash("sha256").update(body).digest("hex").slice(0, 32)}"`);
}

const OCSP_MAX_AGE = 300;
const LIST_MAX_AGE = 60;

function sendOcsp(reply: CacheReplyHeaders, answer: OcspReply): Raw {
  reply.header("content-type", "application/ocsp-response");
  describe(reply, answer.body, answer, OCSP_MAX_AGE);
  return new Raw(answer.body);
}

/** The router takes a last slash for a trailing one; in base64 it is a digit, and padded base64 comes in fours. */
const wholePath = (path: string): string =>
  path.length % 4 === 3 && !path.includes("%") ? `${path}/` : path;

export const revocationRoutes = ({ revocation, crls, ocsp, inventory }: RevocationServices): Route[] => [
  serve(
    contract.revokeCertificate,
    async ({ actor, params, body }) => ({
      message: "The certificate was revoked.",
      ...(await revocation.revoke(actor, params.id, body.revocationReason)),
    }),
    toThing((actor, { params }) => inventory.find(actor, params["id"] ?? "", "delete")),
  ),
  serve(
    contract.unholdCertificate,
    async ({ actor, params }) => ({
      message: "The certificate is valid again.",
      ...(await revocation.unhold(actor, params.id)),
    }),
    toThing((actor, { params }) => inventory.find(actor, params["id"] ?? "", "delete")),
  ),
  serve(contract.listCrls, ({ actor, params }) => crls.ofAuthority(actor, params.caId)),
  servePublic(contract.downloadCrl, async ({ params, reply }) => {
    const list = await crls.current(params);
    reply.header("content-type", "application/pkix-crl");
    describe(reply, list.der, list, LIST_MAX_AGE);
    return new Raw(list.der);
  }),
  servePublic(contract.getOcsp, async ({ params, reply }) =>
    sendOcsp(reply, await ocsp.respond(params.keyId, decodeOcspPath(wholePath(params["*"])))),
  ),
  servePublic(contract.postOcsp, async ({ params, body, reply }) =>
    sendOcsp(
      reply,
      await ocsp.respond(params.keyId, body instanceof Uint8Array ? Buffer.from(body) : undefined),
    ),
  ),
];
