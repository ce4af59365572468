/** For tests of whoever uses the package: a small CA with fixed dates, other people's programs as judges, and single bytes. */
export * as der from "./der.ts";
export { ask, chainHolds, needs, withFiles } from "./judges.ts";
export { encodeSerial, serialFromRandom } from "./serials.ts";
export { dns, issueLeaf, makeAuthority, sharedKeys } from "./test-authority.ts";
