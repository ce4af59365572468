import { newId } from "../platform/ids.ts";
import { badRequest } from "../platform/problem.ts";

export const identityProtected = () => badRequest("This identity is protected against deletion. Turn its delete protection off first.");

export interface MetadataItem {
  readonly id: string;
  readonly key: string;
  readonly value: string;
}

export const withIds = (items: readonly { readonly key: string; readonly value: string }[]): MetadataItem[] =>
  items.map(({ key, value }) => ({ id: newId(), key, value }));
