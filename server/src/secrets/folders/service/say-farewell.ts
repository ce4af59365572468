/** What is said when an environment goes: the names in each of its folders, and a word to whoever showed them. */
import type { Environments } from "../../../projects/index.ts";
import { announceAffected } from "../../changes/service.ts";
import { findDependants } from "../../changes/store.ts";
import { secretsChanged } from "../../events.ts";
import { holdTreeAlone } from "../../store.ts";
import { namesInEnvironment } from "../store.ts";

const MAX_KEYS = 5000;

export const sayFarewell: Parameters<Environments["onDelete"]>[0] = async (
  tx,
  _actor,
  project,
  environment,
) => {
  await holdTreeAlone(tx, project.id);
  const folders = await namesInEnvironment(tx, environment.id);
  const spots = [...folders.keys()].map((path) => ({ environmentId: environment.id, path, key: null }));
  const affected = await findDependants(tx, spots);
  for (const [path, keys] of folders) {
    for (let from = 0; from < keys.length; from += MAX_KEYS) {
      const fact = {
        orgId: project.orgId,
        projectId: project.id,
        environment: environment.slug,
        path,
        change: "delete" as const,
      };
      tx.emit(secretsChanged({ ...fact, keys: keys.slice(from, from + MAX_KEYS) }));
    }
  }
  announceAffected(tx, affected, spots);
};
