import { fact } from "../platform/outbox/index.ts";

/** Shared secrets of one folder changed, all in the same way. Names only: a value never becomes a fact. */
export const secretsChanged = fact<{
  readonly orgId: string;
  readonly projectId: string;
  readonly environment: string;
  readonly path: string;
  readonly change: "create" | "update" | "delete";
  readonly keys: readonly string[];
}>("secrets.changed");

/** What a folder shows changed through an import or a reference. */
export const importsMutated = fact<{
  readonly orgId: string;
  readonly projectId: string;
  readonly environment: string;
  readonly path: string;
}>("secrets.import-mutated");
