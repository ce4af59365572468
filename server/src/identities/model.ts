import { newId } from "../platform/ids.ts";
import { badRequest, notFound } from "../platform/problem.ts";
import { permittedOf, type Ability } from "../permissions/index.ts";

export const identityProtected = () =>
  badRequest("This identity is protected against deletion. Turn its delete protection off first.");

/** The project, the identity or a role to assign was deleted since it was read. */
export const goneMeanwhile = () => notFound("The project, the identity or one of the roles");

export interface IdentityMetadataItem {
  readonly id: string;
  readonly key: string;
  readonly value: string;
}

export const withIds = (
  items: readonly { readonly key: string; readonly value: string }[],
): IdentityMetadataItem[] => items.map(({ key, value }) => ({ id: newId(), key, value }));

/**
 * A list shows, and counts, what its reader could read one by one. Null = all of them: the common case, in which no
 * rule speaks about particular identities, needs no look at the ids.
 */
export async function readable(ability: Ability, ids: () => Promise<string[]>): Promise<string[] | null> {
  const isPlain = ability
    .rulesFor("read", "identity")
    .every((rule) => Object.keys(rule.conditions ?? {}).length === 0);
  return isPlain
    ? null
    : permittedOf(await ids(), (identityId) => ability.can("read", "identity", { identityId }));
}
