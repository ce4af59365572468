import { docsPage, docsPageCsp, Raw, servePublic, type Route } from "../platform/http/index.ts";
import { getDocs, getLive, getOpenApi, getReady, getStatus } from "./contract.ts";
import type { StatusService } from "./service.ts";

export const statusRoutes = (status: StatusService, routes: () => readonly Route[]): Route[] => [
  servePublic(getStatus, () => status.check()),
  servePublic(getLive, async () => ({ status: "live" as const })),
  servePublic(getReady, () => status.ready()),
  servePublic(getOpenApi, async ({ reply }) => {
    reply.header("content-type", "application/json");
    return new Raw(await status.openApi(routes().map((route) => route.endpoint)));
  }),
  servePublic(getDocs, async ({ reply }) => {
    reply.header("content-type", "text/html; charset=utf-8");
    reply.header("content-security-policy", docsPageCsp);
    return new Raw(docsPage());
  }),
];
