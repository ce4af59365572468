// `npm start`: compile what changed, then become the server (same process, so that signals reach it).
import { build } from "./build.mjs";

build();
await import("../server/dist/src/main.js");
