export type { Database } from "./database.ts";
export { UPKEEP_TURN } from "./handles.ts";
export type { AuditEntry, Db, Pen, Query, SlowQuery, TurnOf, Tx } from "./handles.ts";
export { openDatabase } from "./database.ts";
export { isForeignKeyViolation, isFullOrStarting, isUniqueViolation } from "./errors.ts";
export { copyDatabase, CopyError } from "./copy.ts";
export { migrate, MIGRATIONS, MigrationError } from "./migrate.ts";
export { escapeLike, searchSql, slowSql, sql, type Statement } from "./statement.ts";
export { sever } from "./wire.ts";
