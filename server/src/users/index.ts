export type { UserView } from "./contract.ts";
export {
  findUser,
  findUserByEmail,
  insertUser,
  listInstanceAdmins,
  setPasswordHash,
  type UserRow,
} from "./store.ts";
