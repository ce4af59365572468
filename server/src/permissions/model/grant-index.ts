// Which rules can apply to a thing at all. Large roles are mostly lists of "this environment", "that folder", "this
// name": those are indexed by the value they require, so that a decision evaluates the ones about its own object and
// the few that require something else. (A thousand rules by name cost a list of 5,000 secrets seconds otherwise.)

import { addToGroup } from "../../platform/group-by.ts";
import { type ConditionAttributes, type Test, isText, onlyValues } from "./conditions.ts";
import type { Rule } from "./rules.ts";

/** One rule as it applies to one pair of subject and action. */
export interface Grant {
  readonly rule: Rule;
  readonly tests: readonly { readonly attribute: string; readonly test: Test }[];
  readonly everySubject: boolean;
  readonly everyAction: boolean;
}

export interface Grants {
  readonly allows: readonly Grant[];
  readonly denies: readonly Grant[];
}

/** Below this, looking at each is cheaper than looking them up. */
const FEW = 8;

interface GrantBucket {
  readonly attribute: string;
  readonly kind: "text" | "path";
  readonly all: Grant[];
  readonly byValue: Map<string, Grant[]>;
}

export class GrantIndex {
  readonly all: readonly Grant[];
  readonly #loose: readonly Grant[];
  readonly #shelves: readonly GrantBucket[];

  constructor(all: readonly Grant[]) {
    this.all = all;
    const shelves = new Map<string, GrantBucket>();
    this.#loose = all.length <= FEW ? all : all.filter((grant) => !shelve(shelves, grant));
    this.#shelves = [...shelves.values()];
  }

  /** The first that applies, if any. Without attributes all of them are in question. */
  find(attributes: ConditionAttributes | undefined, applies: (grant: Grant) => boolean): Grant | undefined {
    if (attributes === undefined || this.#shelves.length === 0) return this.all.find(applies);
    const loose = this.#loose.find(applies);
    if (loose) return loose;
    for (const { attribute, kind, all, byValue } of this.#shelves) {
      const value = attributes[attribute];
      // What is not known, or not of its kind, is an open question to every rule (see `holds`).
      const filed = isText(kind, value) ? byValue.get(value) : all;
      const found = filed?.find(applies);
      if (found) return found;
    }
    return undefined;
  }
}

function shelve(shelves: Map<string, GrantBucket>, grant: Grant): boolean {
  for (const { attribute, test } of grant.tests) {
    const values = onlyValues(test);
    if (values === null) continue;
    const kind = test.kind as GrantBucket["kind"];
    const shelf: GrantBucket = shelves.get(attribute) ?? { attribute, kind, all: [], byValue: new Map() };
    if (shelf.kind !== kind) continue;
    shelves.set(attribute, shelf);
    shelf.all.push(grant);
    for (const value of values) addToGroup(shelf.byValue, value, grant);
    return true;
  }
  return false;
}
