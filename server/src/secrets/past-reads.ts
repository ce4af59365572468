import type { ProjectScope } from "./access.ts";
import type { FolderPlace, SecretRow } from "./model.ts";

/** Reads old versions of a secret: the room that keeps versions is above this one. */
export interface PastReads {
  at(
    scope: ProjectScope,
    secret: SecretRow,
    folder: FolderPlace,
    version: number,
  ): Promise<{ readonly row: SecretRow; readonly isReadable: boolean }>;
}
