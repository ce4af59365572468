export type { RoleAssignment } from "./contract.ts";
export { createMemberships, type Memberships } from "./service.ts";
export {
  addMembership,
  HELD_ROLES,
  isOrgMember,
  organizationsOf,
  removeMembership,
  removeMembershipsOf,
  replaceRoles,
  ROLE_COLUMNS,
  ROLE_RECORD,
  ROLE_VALUES,
  toHeldRole,
  type HeldRoleJson,
  type NewRoleRow,
} from "./store.ts";
