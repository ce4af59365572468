export { NeverRan, Pipeline } from "./pipeline.ts";
export { sever, streamOf } from "./private-parts.ts";
export { openReadPipelines } from "./read-pipelines.ts";
export { SessionClient, type SessionConfig } from "./session.ts";
export type { PipelineStatement } from "./statement.ts";
