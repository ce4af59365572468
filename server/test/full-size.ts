/**
 * What takes long runs small in every `npm test` and at its full size in `npm run test:full`; what only means something
 * at its full size is left out of the small run, and shown as skipped.
 */
const isFull = process.env["KEYWARD_FULL"] === "1";

export const sized = <T>(small: T, full: T): T => (isFull ? full : small);

/** For `{ skip: fullOnly }`. */
export const fullOnly: false | string = isFull ? false : "npm run test:full";
