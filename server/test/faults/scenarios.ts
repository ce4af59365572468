/**
 * What goes wrong in a data centre, done on purpose to real processes. Each scenario answers what it saw and the list
 * of broken promises, which must be empty.
 */
export { badWire } from "./scenarios/bad-wire.ts";
export { crashes } from "./scenarios/crashes.ts";
export { pausedNode } from "./scenarios/paused-node.ts";
export { fullDisk } from "./scenarios/full-disk.ts";
export { databaseAway } from "./scenarios/database-away.ts";
export { everyWrite } from "./scenarios/every-write.ts";
export { clockSteps } from "./scenarios/clock-steps.ts";
export { failOver, switchOver } from "./scenarios/fail-over.ts";
export { twoRoles } from "./scenarios/two-roles.ts";
export { standbyAway } from "./scenarios/standby-away.ts";
export { rollingRestart } from "./scenarios/rolling-restart.ts";
export { silentConnections } from "./scenarios/silent-connections.ts";
export { clocks } from "./scenarios/clocks.ts";
export { databaseLate } from "./scenarios/database-late.ts";
export { neighbours } from "./scenarios/neighbours.ts";
