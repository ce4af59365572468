export { sever } from "./cork.ts";
export type { AuditEntry, Database, Db, Query, Tx } from "./database.ts";
export { openDatabase } from "./database.ts";
export { isForeignKeyViolation, isUniqueViolation } from "./errors.ts";
export { migrate, MigrationError } from "./migrate.ts";
export { escapeLike, searchSql, slowSql, sql, type Statement } from "./statement.ts";
