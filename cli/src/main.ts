import { x } from "@keyward/server"; export const y = x;
