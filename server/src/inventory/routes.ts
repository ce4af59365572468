import { Raw, serve, type Route, inProject, toThing } from "../platform/http/index.ts";
import { invalidField } from "../platform/problem.ts";
import { REASON_WORDS } from "../certificates/contract.ts";
import * as contract from "./contract.ts";
import type { CertificateImports } from "./imports.ts";
import type { CertificateSearch } from "./search.ts";
import type { Inventory } from "./service.ts";

function reasonOf(text: string) {
  const reason = REASON_WORDS.find((word) => word === text.toUpperCase());
  if (!reason)
    throw invalidField(["revocationReason"], `revocationReason must be one of ${REASON_WORDS.join(", ")}`);
  return reason;
}

interface InventoryServices {
  readonly inventory: Inventory;
  readonly imports: CertificateImports;
  readonly search: CertificateSearch;
}

export const inventoryRoutes = ({ inventory, imports, search }: InventoryServices): Route[] => [
  serve(contract.listProfileCertificates, ({ actor, params, query }) =>
    inventory.ofProfile(actor, params.id, query),
  ),
  serve(contract.latestActiveBundle, ({ actor, params }) => inventory.latestActive(actor, params.id)),
  serve(
    contract.importCertificate,
    ({ actor, body }) => imports.import(actor, body),
    toThing((actor, { body }) => imports.judge(actor, body)),
  ),
  serve(contract.getCertificate, async ({ actor, params }) => ({
    certificate: await inventory.get(actor, params.id),
  })),
  serve(contract.getCertificateBody, ({ actor, params }) => inventory.body(actor, params.id)),
  serve(contract.getBundle, ({ actor, params }) => inventory.bundle(actor, params.id)),
  serve(contract.getPrivateKey, ({ actor, params }) => inventory.privateKey(actor, params.id)),
  serve(
    contract.exportKeystore,
    async ({ actor, params, body, reply }) => {
      const file = await inventory.keystore(actor, params.id, body);
      reply.header(
        "content-type",
        body.format === "jks" ? "application/octet-stream" : "application/x-pkcs12",
      );
      reply.header(
        "content-disposition",
        `attachment; filename="certificate.${body.format === "jks" ? "jks" : "p12"}"`,
      );
      return new Raw(file);
    },
    toThing((actor, { params }) => inventory.find(actor, params["id"] ?? "", "read-private-key")),
  ),
  serve(
    contract.setRenewal,
    ({ actor, params, body }) => inventory.setRenewal(actor, params.id, body),
    toThing((actor, { params }) => inventory.find(actor, params["id"] ?? "", "edit")),
  ),
  serve(
    contract.deleteCertificate,
    async ({ actor, params }) => ({
      certificate: await inventory.delete(actor, params.id),
    }),
    toThing((actor, { params }) => inventory.find(actor, params["id"] ?? "", "delete")),
  ),
  serve(contract.searchCertificates, ({ actor, params, query }) =>
    search.search(actor, params.projectId, query),
  ),
  serve(contract.exportCertificates, async ({ actor, params, query, reply }) => {
    const stream = await search.export(actor, params.projectId, query);
    reply.header(
      "content-type",
      query.format === "csv" ? "text/csv; charset=utf-8; header=present" : "application/x-ndjson",
    );
    reply.header("content-disposition", `attachment; filename="certificates.${query.format}"`);
    return new Raw(stream);
  }),
  serve(
    contract.bulkRevoke,
    ({ actor, params, body, confirm }) =>
      search.bulkRevoke(actor, params.projectId, { ...body, confirm }, reasonOf(body.revocationReason)),
    inProject("delete", "certificates"),
  ),
  serve(
    contract.bulkRenew,
    ({ actor, params, body, confirm }) => search.bulkRenew(actor, params.projectId, { ...body, confirm }),
    inProject("read", "certificates"),
  ),
];
