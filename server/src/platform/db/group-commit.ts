/** New rows of many callers in one transaction: writes that read nothing first need no transaction of their own. */
import type { Db, WriteTx, WriteOptions } from "./handles.ts";
import { createWriteGroups } from "./write-groups.ts";

interface Part {
  readonly change: (tx: WriteTx) => void;
  readonly options: WriteOptions | undefined;
}

/** A part that was refused before anything was written, with whatever error: the others must not be affected. */
class Refused extends Error {}

const MOST_TOGETHER = 64;

function writePart(tx: WriteTx, { change, options }: Part): void {
  let hasAudited = false;
  const audit: WriteTx["audit"] = (...args) => {
    hasAudited = true;
    tx.audit(...args);
  };
  try {
    change({ defer: tx.defer, emit: tx.emit, audit });
  } catch (cause) {
    throw new Refused("a part of a shared write was refused", { cause });
  }
  if (!hasAudited && options?.audited !== false) throw new Refused("a write left no audit row");
}

export function createGroupCommit(write: Db["write"]): Db["groupCommit"] {
  const submit = createWriteGroups<Part, void>({
    atOnce: 2,
    stuck: { afterMs: 100, mostAtOnce: 8 },
    take: () => MOST_TOGETHER,
    alone: ({ change, options }) => write(async (tx) => change(tx), options),
    async together(parts) {
      await write(
        async (tx) => {
          for (const part of parts) writePart(tx, part);
        },
        { audited: false },
      );
      return parts.map(() => ({ status: "fulfilled", value: undefined }));
    },
  });
  return (change, options) => submit({ change, options });
}
