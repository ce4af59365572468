#!/usr/bin/env node
import { main } from "../dist/main.js";
import { processWorld } from "../dist/world.js";

process.exitCode = await main(process.argv.slice(2), processWorld);
