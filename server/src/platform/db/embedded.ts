/** The embedded PostgreSQL under our name, with error messages that name our variables. */
import { startEmbeddedPostgres, type EmbeddedPostgres } from "@keyward/embedded-postgres";

type Options = Omit<Parameters<typeof startEmbeddedPostgres>[0], "name" | "advice">;

export const startOwnPostgres = (options: Options): Promise<EmbeddedPostgres> =>
  startEmbeddedPostgres({
    ...options,
    // Data directories that are in use carry it: in their roles, their lock file, their marks.
    name: "keyward",
    advice: {
      otherDirectory: "point KEYWARD_DATA_DIR elsewhere",
      ownDatabase: "set DATABASE_URL to a PostgreSQL of your own",
    },
  });
