export { eventRoutes } from "./routes.ts";
export { createEvents, type Events } from "./service.ts";
export { createSlots } from "./slots/service.ts";
