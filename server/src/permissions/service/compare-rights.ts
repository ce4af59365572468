/** What a comparison of rights finds missing, in chunks: between the largest roles there are it takes a second. */
import { Pace } from "../../platform/pace.ts";
import { comparing, type Ability, type MissingPermission, type Rule } from "../model/index.ts";

export async function missingInChunks(
  holder: Ability,
  wanted: readonly Rule[],
): Promise<MissingPermission[]> {
  const steps = comparing(holder, wanted);
  const pace = new Pace();
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    if (pace.isDue()) await pace.rest();
  }
}
