export { networkOf, regionOf } from "./client-address.ts";
export { formPage, formPageCsp } from "./form-page.ts";
export { docsPage, docsPageCsp } from "./docs-page.ts";
export { createDoor } from "./door.ts";
export type { Endpoint } from "./endpoint.ts";
export { idempotencyKey } from "./idempotency-key.ts";
export { createMetrics } from "./metrics.ts";
export { printOpenApi, toOpenApi } from "./openapi.ts";
export {
  byInstanceAdmin,
  idIn,
  inOrganization,
  inProject,
  inProjectAnyOf,
  toOneself,
  toThing,
  type Finder,
  type RightsJudge,
  type Named,
  type Right,
} from "./rights.ts";
export { createRateLimits, type RateLimits } from "./rate-limits.ts";
export { Raw, serve, servePublic, serveStream, type ReplyControl, type Route } from "./serve.ts";
export { Backlog, EventStream, Frame } from "./sse.ts";
export { closeDoor, sendElsewhere } from "./leaving.ts";
