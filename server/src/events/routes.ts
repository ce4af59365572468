import { serveStream, type Route, inProjectAnyOf } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import { ACTION_OF, globFaults, SUBJECT } from "./model.ts";
import type { Events } from "./service.ts";

const HEAR_ANYTHING = inProjectAnyOf(
  ...Object.values(ACTION_OF).map((action) => ({ action, subject: SUBJECT })),
);

export const eventRoutes = (events: Events): Route[] => [
  serveStream(
    contract.subscribeToProjectEvents,
    ({ actor, body, headers, reply }) =>
      events.subscribe(actor, body, { header: String(headers["authorization"]), open: reply.stream }),
    HEAR_ANYTHING,
    globFaults,
  ),
];
