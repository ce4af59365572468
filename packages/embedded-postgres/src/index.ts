export { EmbeddedPostgresError } from "./failure.ts";
export { startEmbeddedPostgres } from "./launcher.ts";
export type { EmbeddedPostgres } from "./launcher.ts";
