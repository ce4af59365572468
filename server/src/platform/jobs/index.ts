export { createJobs, inBatches, type Job, type Jobs } from "./jobs.ts";
