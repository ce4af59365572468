#!/usr/bin/env node
import { main } from "../dist/main.js";
import { processWorld } from "../dist/world.js";

// Whoever reads only the first lines (| head) has what they want: no failure, and no stack.
process.stdout.on("error", (error) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});

process.exitCode = await main(process.argv.slice(2), processWorld);
