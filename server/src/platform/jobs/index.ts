export { createJobs, inBatches, type Job, type Jobs } from "./jobs.ts";
export { takingTurns } from "./taking-turns.ts";
