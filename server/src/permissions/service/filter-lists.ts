/**
 * What a caller may see of a list. Checking is quick, but not free: a rule with wildcards that was made to be slow takes
 * milliseconds per name. So long lists yield to other requests while they are checked, and what would take too long
 * is refused.
 */
import { matchingSteps } from "../../platform/glob.ts";
import { Pace } from "../../platform/pace.ts";
import { badRequest } from "../../platform/problem.ts";

/** About a second of matching; honest roles need a thousandth of it for the longest list there is. */
const MOST_STEPS = 400_000_000;

const tooCostly = () =>
  badRequest(
    "Your roles' wildcard patterns are too costly to judge so long a list by. Ask for fewer at a time, or have the patterns simplified.",
  );

/** Counts what one list costs, although many are checked in turns. */
export class JudgingBudget {
  readonly #pace = new Pace();
  #left = MOST_STEPS;
  #countedTo = matchingSteps();

  /** After each judgement: throws if it is too much by now; answers whether it is time to give way. */
  isDue(): boolean {
    const now = matchingSteps();
    this.#left -= now - this.#countedTo;
    this.#countedTo = now;
    if (this.#left < 0) throw tooCostly();
    return this.#pace.isDue();
  }

  async giveWay(): Promise<void> {
    await this.#pace.rest();
    // What others matched meanwhile is theirs.
    this.#countedTo = matchingSteps();
  }
}

export async function permittedOf<Item>(
  items: readonly Item[],
  isPermitted: (item: Item) => boolean,
): Promise<Item[]> {
  const budget = new JudgingBudget();
  const permitted: Item[] = [];
  for (const item of items) {
    if (isPermitted(item)) permitted.push(item);
    if (budget.isDue()) await budget.giveWay();
  }
  return permitted;
}

/** The part of a list that someone may see, and its length: what is hidden must not even be counted. */
export async function visiblePart<Row>(
  rows: readonly Row[],
  isVisible: (row: Row) => boolean,
  { offset, limit }: { readonly offset: number; readonly limit: number },
): Promise<{ rows: Row[]; total: number }> {
  const visible = await permittedOf(rows, isVisible);
  return { rows: visible.slice(offset, offset + limit), total: visible.length };
}
