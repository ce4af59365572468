/**
 * The ETag of a read: what was asked, what the reader may see, and the revision of everything that can be reached. It
 * changes in the same transaction as anything that changes the answer, and says nothing about the answer itself.
 */
import { hash } from "node:crypto";
import type { Ability } from "../permissions/index.ts";

/** What a read asks about; the last for those who ask for an old version. */
const ASPECTS = [
  ["describeSecret", "secrets"],
  ["readValue", "secrets"],
  ["read", "secret-rollback"],
] as const;
const fingerprints = new WeakMap<Ability, string>();

/** A digest of the rules about secrets; the same on every node. */
export function rightsOf(ability: Ability): string {
  const known = fingerprints.get(ability);
  if (known !== undefined) return known;
  const rules = ASPECTS.map(([action, subject]) =>
    ability
      .rulesFor(action, subject)
      .map((rule) => JSON.stringify(rule))
      .sort(),
  );
  const fingerprint = hash("sha256", JSON.stringify(rules), "base64url");
  fingerprints.set(ability, fingerprint);
  return fingerprint;
}

export function etagOf(shape: unknown, revision: string, abilities: readonly Ability[]): string {
  const text = JSON.stringify([shape, revision, abilities.map(rightsOf)]);
  return `"${hash("sha256", text, "base64url").slice(0, 27)}"`;
}

/** Does one of the tags that a client holds equal ours? Weak ones count: the body is the same text. */
export function isHeld(header: string | string[] | undefined, etag: string): boolean {
  if (header === undefined) return false;
  const held = (Array.isArray(header) ? header.join(",") : header).split(",");
  return held.some((tag) => tag.trim().replace(/^W\//, "") === etag);
}
