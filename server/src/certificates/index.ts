/** What every room about certificates shares: their schemas, their facts, and which project a request means. */
export {
  addSeconds,
  asRefusal,
  beginning,
  chainToPem,
  CRL_LIFE_SECONDS,
  findingOf,
  judged,
  latest,
  MOST_LOOKED_THROUGH,
  parseInstant,
  refused,
  statusOf,
  toSecond,
  type CertificateStatusName,
} from "./model.ts";
export {
  createCertificateScope,
  createMayIn,
  createNamedAccess,
  type CertificateScope,
  type MayIn,
} from "./service.ts";
export { noteCertificateProject } from "./store.ts";
