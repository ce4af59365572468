export { fact, type Fact, type NumberedFact } from "./fact.ts";
export { createFactCache, type FactCache } from "./fact-cache.ts";
export { createTail, type Tail } from "./tail.ts";
export { Touches, type TopicWatch } from "./touches.ts";
export { outboxJobs } from "./jobs.ts";
