/** For tests of users of the package: a small CA with fixed dates, checks by other implementations, and single bytes. */
export * as der from "./der.ts";
export { ask, chainHolds, needs, withFiles } from "./judges.ts";
export { encodeSerial, serialFromRandom } from "./serials.ts";
export { dns, issueLeaf, makeAuthority, sharedKeys } from "./test-authority.ts";
