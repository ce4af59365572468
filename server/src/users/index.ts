export type { UserView } from "./contract.ts";
export {
  findUser,
  findUserByEmail,
  holdUser,
  insertUser,
  listInstanceAdmins,
  setPasswordHash,
  type UserRow,
} from "./store.ts";
