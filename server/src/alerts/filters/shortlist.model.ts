/**
 * A trigram index: which of many alerts can match a certificate at all. Most filters require three letters or more, so
 * an alert is indexed under three letters that a certificate must contain; a certificate is then matched only with those
 * under its own trigrams, not with all thousand. Alerts on the shortlist are still matched fully.
 */
import { addToGroup } from "../../platform/group-by.ts";
import type { CertificateFilter } from "./contract.ts";
import { fold, longestRun, type Prepared, type Steps } from "./model.ts";

const LENGTH = 3;

/** Texts of which a certificate must contain one to pass this filter; undefined if it may pass without any. */
function demandsOf({ field, operator, value }: CertificateFilter): string[] | undefined {
  if (field === "include_cas" || typeof value === "boolean") return undefined;
  const literals = [value].flat().map((one) => {
    const folded = fold(one);
    return operator === "matches" ? longestRun(folded) : folded;
  });
  return literals.every((literal) => literal.length >= LENGTH) ? literals : undefined;
}

function* threesOf(text: string): Generator<string> {
  for (let at = 0; at + LENGTH <= text.length; at += 1) yield text.slice(at, at + LENGTH);
}

/** Which of the items may match this certificate? All that do, and few that do not. */
export function* shortlistOf<Item>(
  items: readonly Item[],
  filtersOf: (item: Item) => readonly CertificateFilter[],
): Steps<(certificate: Prepared) => Steps<Iterable<Item>>> {
  const always: Item[] = [];
  const filed = new Map<string, Item[]>();
  /** Under the rarest trigram: everyone's names end in ".com". */
  const file = (literal: string, item: Item): void => {
    let best = "";
    for (const three of threesOf(literal))
      if (best === "" || (filed.get(three)?.length ?? 0) < (filed.get(best)?.length ?? 0)) best = three;
    addToGroup(filed, best, item);
  };
  for (const item of items) {
    let demands: string[] | undefined;
    for (const filter of filtersOf(item)) {
      demands ??= demandsOf(filter);
      yield;
    }
    if (demands === undefined) always.push(item);
    for (const literal of demands ?? []) {
      file(literal, item);
      yield;
    }
  }
  if (filed.size === 0)
    return function* () {
      return always;
    };
  return function* ({ names }) {
    const found = new Set(always);
    for (const { pieces } of names.any)
      for (const { joined } of pieces) {
        for (const three of threesOf(joined)) for (const item of filed.get(three) ?? []) found.add(item);
        yield;
      }
    return found;
  };
}
