import { badRequest } from "../platform/problem.ts";

/**
 * Of one folder. Every read of it reads all of them, a move renumbers all of them, and they are shown at once;
 * people have tens.
 */
export const MOST_IMPORTS = 1000;

export const tooManyImports = (path: string) =>
  badRequest(
    `A folder has at most ${MOST_IMPORTS.toLocaleString("en")} imports; ${JSON.stringify(path)} would have more.`,
  );
