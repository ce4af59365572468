/** The same rules as in model.ts, said in SQL over `certificates c` and its profile `p`. Values are always parameters. */
import { escapeLike } from "../../platform/db/index.ts";
import type { CertificateFilter } from "./contract.ts";
import { fold, includesAuthorities } from "./model.ts";

/** Collects parameters in the order in which the text names them. */
interface Parameters {
  readonly values: unknown[];
  add(value: unknown): string;
}

export function parameters(...first: unknown[]): Parameters {
  const values = [...first];
  return { values, add: (value) => `$${values.push(value)}` };
}

/** The "C" collation makes lower() touch ASCII letters only, as the model does. */
const folded = (expression: string): string => `lower(${expression} COLLATE "C")`;

function patternOf(operator: CertificateFilter["operator"], value: string): string {
  const plain = escapeLike(fold(value));
  switch (operator) {
    case "contains":
      return `%${plain}%`;
    case "starts_with":
      return `${plain}%`;
    case "ends_with":
      return `%${plain}`;
    case "matches":
      return plain.replaceAll("*", "%").replaceAll("?", "_");
    case "equals":
      return plain;
  }
}

function condition(filter: CertificateFilter, params: Parameters): string {
  const values = (Array.isArray(filter.value) ? filter.value : [String(filter.value)]) as readonly string[];
  const isExact = filter.operator === "equals";
  const list = params.add(isExact ? values : values.map((value) => patternOf(filter.operator, value)));
  const holds = (expression: string): string =>
    isExact ? `${expression} = ANY(${list}::text[])` : `${folded(expression)} LIKE ANY(${list}::text[])`;
  const parts = {
    profile_name: `coalesce(${holds("p.slug")}, false)`,
    common_name: holds("c.common_name"),
    san: `EXISTS (SELECT 1 FROM jsonb_array_elements(c.alt_names) AS n WHERE ${holds("(n ->> 'value')")})`,
  };
  if (filter.field === "any") return `(${parts.profile_name} OR ${parts.common_name} OR ${parts.san})`;
  return filter.field === "include_cas" ? "true" : parts[filter.field];
}

export function filterConditions(filters: readonly CertificateFilter[], params: Parameters): string {
  const texts = filters
    .filter((filter) => filter.field !== "include_cas")
    .map((filter) => condition(filter, params));
  return [...(includesAuthorities(filters) ? [] : ["NOT c.is_ca"]), ...texts].join(" AND ") || "true";
}
