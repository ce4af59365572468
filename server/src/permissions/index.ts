export { accessChanged } from "./events.ts";
export { missingInChunks } from "./service/compare-rights.ts";
export { JudgingBudget, permittedOf, visiblePart } from "./service/filter-lists.ts";
export * from "./model/index.ts";
export { createPermissions, deny, orgOf, type Permissions, type EffectiveRights } from "./service.ts";
