/** What a rollback has to do, step by step. */
import type { LastPlace, VersionRow } from "../store.ts";
import type { FolderPlace, SecretRow, SecretState } from "../../secrets/index.ts";

/** A secret as it was, and where. */
export interface FolderThen {
  readonly row: VersionRow & { readonly value: Buffer };
  readonly path: string;
}

/** What has to happen; a folder that is missing is known by its path only. */
export type RollbackStep =
  | { readonly kind: "delete"; readonly row: SecretRow; readonly from: FolderPlace }
  | {
      readonly kind: "update";
      readonly row: SecretRow;
      readonly from: FolderPlace;
      readonly path: string;
      readonly key: string;
      readonly state: SecretState;
    }
  | {
      readonly kind: "create";
      readonly past: FolderThen;
      /** Where it lives now, or lived last. */
      readonly origin: LastPlace;
      readonly id: string;
      readonly version: number;
      readonly createdAt: Date;
      readonly state: SecretState;
    };

export const stepPath = (step: RollbackStep): string =>
  step.kind === "delete" ? step.from.path : step.kind === "update" ? step.path : step.past.path;
export const stepKey = (step: RollbackStep): string =>
  step.kind === "delete" ? step.row.key : step.kind === "update" ? step.key : step.past.row.key;
export const stepId = (step: RollbackStep): string => (step.kind === "create" ? step.id : step.row.id);
