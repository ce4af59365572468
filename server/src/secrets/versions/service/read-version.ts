import type { Db } from "../../../platform/db/index.ts";
import { versionUnknown, type SecretRow } from "../../model.ts";
import { findVersion } from "../store.ts";

export type Versions = ReturnType<typeof createVersions>;

export function createVersions({ db }: { readonly db: Db }) {
  return {
    /** The same secret as it was; under the name, tags and folder of then. */
    async at(secret: SecretRow, version: number): Promise<SecretRow> {
      if (version === secret.version) return secret;
      const row = await db.read((q) => findVersion(q, secret.id, version));
      if (!row || row.value === null) throw versionUnknown(version, secret.key);
      // Judged and shown as what it is today: an old name or tag must not open what the present one closes.
      return {
        ...row,
        value: row.value,
        key: secret.key,
        folderId: secret.folderId,
        tagIds: secret.tagIds,
        createdAt: secret.createdAt,
      };
    },
  };
}
