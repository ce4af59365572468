// `npm run copy-database`: compile what changed, then carry the instance into another PostgreSQL.
import { build } from "./build.mjs";

build();
await import("../server/dist/src/copy.js");
