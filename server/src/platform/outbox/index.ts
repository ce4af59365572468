export { fact, type Fact, type FactKind } from "./fact.ts";
export { createFactCache, type FactCache } from "./fact-cache.ts";
export { createTail, RETENTION_SECONDS, type NumberedFact, type Tail } from "./tail.ts";
export { outboxJobs } from "./jobs.ts";
