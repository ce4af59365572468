import { badRequest } from "../platform/problem.ts";
import type { Ability } from "../permissions/index.ts";

export const lastAdmin = () =>
  badRequest("This is the last admin of the organisation. Make someone else an admin first.");

export interface MemberPage {
  readonly offset: number;
  readonly limit: number;
}

/** More people than this are not checked one by one; a reader with conditions sees those that come first. */
export const MOST_LOOKED_THROUGH = 10_000;

/** Whether no condition stands between this reader and anybody: then the database can do the paging. */
export const seesEverybody = (reader: Ability): boolean => reader.can("read", "member", {});

/** For a reader whom conditions keep from some: whom may they see? */
export const maySee =
  (reader: Ability) =>
  (row: { readonly email: string }): boolean =>
    reader.can("read", "member", { userEmail: row.email });
