/** CA keys at work: loaded issuers, key pairs made in turns, and the one path on which a certificate is signed and recorded. */
export { canDelegate, crlUrl, keyIdentifierOf, speaksFor, type Issuer } from "./issuers.model.ts";
export { findLineage, type LineageRow } from "./issuers.store.ts";
export { authorityKeyContext, createIssuers, type Issuers } from "./issuers.ts";
export { inKeyTurn, makeKey, standInFor, takesTurns } from "./keys.ts";
export {
  inventoryFacts,
  renewalTime,
  type CertificateTemplate,
  type InventoryFacts,
  type IssuanceContext,
  type IssuanceRequest,
} from "./model.ts";
export {
  certificateKeyContext,
  createSigning,
  openCertificateKey,
  type Issued,
  type Signing,
} from "./service.ts";
export {
  abandonRequests,
  addCertificate,
  findRequestInOrg,
  forgetRequests,
  isBlockedKey,
  linkSuccessor,
} from "./store.ts";
