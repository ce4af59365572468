/**
 * The right that a caller must at least have before any work is done for a request. Each route that changes something
 * declares it; the door checks it before it reads the body where the URL says what it is about, and
 * otherwise as soon as it knows. This is the coarse right: allowed for any object there. The use case still checks
 * the exact one.
 */
import { z } from "zod";
import type { MemberActor } from "../actor.ts";
import { idInOneSpelling, type Endpoint } from "./endpoint.ts";

interface WantedRight {
  readonly action: string;
  readonly subject: string;
}

/** What a request is about, as it came: nothing of it is validated yet. */
export interface Named {
  readonly params: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Looks up what is named and throws the problem to answer if the caller may not do this to it. */
export type Finder = (actor: MemberActor, named: Named) => Promise<unknown>;

export type Right =
  /** In the project that path or body name; without a right, being a member is enough. */
  | {
      readonly of: "project";
      readonly wishes: readonly WantedRight[];
      readonly otherwise: Finder | undefined;
    }
  | { readonly of: "organization"; readonly wish: WantedRight }
  | { readonly of: "instance" }
  /** Where the project is known only after a query. */
  | { readonly of: "thing"; readonly find: Finder }
  /** What callers may do to themselves. */
  | { readonly of: "caller" };

export const inProject = (action: string, subject: string, otherwise?: Finder): Right => ({
  of: "project",
  wishes: [{ action, subject }],
  otherwise,
});
/** Any one of them is enough. */
export const inProjectAnyOf = (...wishes: readonly WantedRight[]): Right => ({
  of: "project",
  wishes,
  otherwise: undefined,
});
export const inOrganization = (action: string, subject: string): Right => ({
  of: "organization",
  wish: { action, subject },
});
export const byInstanceAdmin: Right = { of: "instance" };
export const toOneself: Right = { of: "caller" };
export const toThing = (find: Finder): Right => ({ of: "thing", find });

/** Checks the right; throws the problem to answer. `projectRef` is an id or a slug. */
export type RightsJudge = (actor: MemberActor, right: Right, projectRef: string | undefined) => Promise<void>;

const uuid = z.uuid();
/** An id in a body that is not validated yet. */
export function idIn(value: unknown): string | undefined {
  return uuid.safeParse(value).success ? idInOneSpelling(value as string) : undefined;
}

/** In the order in which the contracts look at them. */
const PROJECT_NAMES = ["workspaceId", "projectId", "workspaceSlug", "projectSlug"] as const;
const MAX_REF = 64;

/** Under which names the body of an endpoint names its project. */
export function projectFieldsOf(endpoint: Endpoint): readonly string[] {
  const { properties = {} } = z.toJSONSchema(endpoint.body, { io: "input", unrepresentable: "any" });
  return PROJECT_NAMES.filter((name) => name in properties);
}

export const isNamedByPath = (endpoint: Endpoint): boolean => endpoint.path.includes("{projectId}");

/** The first that says anything; what is too long is no project's name, and the contract will say so. */
export function refAmong(values: readonly unknown[]): string | undefined {
  const ref = values.find((value) => typeof value === "string" && value !== "");
  return typeof ref === "string" && ref.length <= MAX_REF ? idInOneSpelling(ref) : undefined;
}
