/** The thread that reads a large YAML file (yaml.ts). */
import { parentPort, workerData } from "node:worker_threads";
import { FormatError, readAll, type FileEntries } from "./entries.ts";
import { yamlReading } from "./yaml-reader.ts";

export type ReadFile = { readonly entries: FileEntries } | { readonly refusal: string };

function read(text: string): ReadFile {
  try {
    return { entries: readAll(yamlReading(text)) };
  } catch (error) {
    if (error instanceof FormatError) return { refusal: error.message };
    throw error;
  }
}

parentPort?.postMessage(read(workerData as string));
