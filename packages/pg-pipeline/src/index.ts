export { NeverRan, Pipeline, sever } from "./pipeline.ts";
export { openReadPipelines } from "./read-pipelines.ts";
export { SessionClient, type SessionConfig } from "./session.ts";
export type { PipelineStatement } from "./statement.ts";
