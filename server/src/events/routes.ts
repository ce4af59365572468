import { serveStream, type Route } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import { globFaults } from "./model.ts";
import type { Events } from "./service.ts";

export const eventRoutes = (events: Events): Route[] => [
  serveStream(
    contract.subscribeToProjectEvents,
    ({ actor, body, headers, reply }) =>
      events.subscribe(actor, body, { header: String(headers["authorization"]), open: reply.stream }),
    globFaults,
  ),
];
