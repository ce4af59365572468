import type { Db } from "../../platform/db/index.ts";
import { deny } from "../../permissions/index.ts";
import { mayAll } from "../model.ts";
import { findVersion } from "../store.ts";
import { learnThen } from "./judge-version.ts";
import {
  requireRight,
  type ProjectScope,
  versionUnknown,
  type FolderPlace,
  type SecretRow,
  type Tags,
} from "../../secrets/index.ts";

interface PastSecret {
  /** The content of then under the name, tags and folder of today, by which it has yet to be judged. */
  readonly row: SecretRow;
  /** Whether what it was then lets this reader see its value. */
  readonly isReadable: boolean;
}

export function createVersions({ db, tags }: { readonly db: Db; readonly tags: Tags }) {
  return {
    /** For somebody who may know of the secret as it is today. */
    async at(
      { ability }: ProjectScope,
      secret: SecretRow,
      folder: FolderPlace,
      version: number,
    ): Promise<PastSecret> {
      const place = { environment: folder.environment, secretPath: folder.path };
      requireRight(ability, "read", "secret-rollback", place);
      const row = await db.read((q) => findVersion(q, secret.id, version));
      if (!row || row.value === null) throw versionUnknown(version, secret.key);
      const [then] = await db.read((q) => learnThen(q, tags, folder, [row]));
      // The refusal names today's path only: the old one must not be revealed.
      if (!then || !mayAll(ability, "describeSecret", then.attributes))
        return deny(ability, { action: "describeSecret", subject: "secrets", attributes: place });
      return {
        row: {
          ...row,
          value: row.value,
          key: secret.key,
          folderId: secret.folderId,
          tagIds: secret.tagIds,
          createdAt: secret.createdAt,
        },
        isReadable: mayAll(ability, "readValue", then.attributes),
      };
    },
  };
}
