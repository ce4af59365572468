import { z } from "zod";

const FILTER_FIELDS = ["any", "profile_name", "common_name", "san", "include_cas"] as const;
const FILTER_OPERATORS = ["contains", "equals", "matches", "starts_with", "ends_with"] as const;

/** Of these a certificate has one; of alternative names it has many, and two may be asked for. */
export const SINGLE_FIELDS = ["common_name", "profile_name"] as const;

const word = z.string().max(1024);

/** A filter with nothing but a `value` looks for that text in the profile, the common name and every SAN. */
const filterInput = z
  .object({
    field: z.enum(FILTER_FIELDS).optional(),
    operator: z.enum(FILTER_OPERATORS).optional(),
    value: z.union([word, z.array(word).max(100), z.boolean()]),
  })
  .transform(({ field = "any", operator, value }, context) => {
    const refuse = (path: string, message: string) => {
      context.addIssue({ code: "custom", path: [path], message });
      return z.NEVER;
    };
    if (field === "include_cas") {
      if (typeof value !== "boolean") return refuse("value", "include_cas takes true or false");
      if (operator !== undefined && operator !== "equals")
        return refuse("operator", "include_cas can only be equal to true or false");
      return { field, operator: "equals" as const, value };
    }
    if (typeof value === "boolean")
      return refuse("value", `${field} is text; true or false can never match it`);
    if (Array.isArray(value) && value.length === 0) return refuse("value", "an empty list can never match");
    return { field, operator: operator ?? ("contains" as const), value };
  });

/** Of all filters of one alert together: each certificate is matched against every one of them. */
const MOST_VALUES = 1000;

export const filtersInput = z
  .array(filterInput)
  .max(50)
  .superRefine((filters, context) => {
    if (filters.reduce((sum, { value }) => sum + [value].flat().length, 0) > MOST_VALUES) {
      const message = `the filters of one alert have ${MOST_VALUES} values together at most`;
      context.addIssue({ code: "custom", message });
      return;
    }
    const wishes = new Set(
      filters.filter((filter) => filter.field === "include_cas").map((filter) => filter.value),
    );
    if (wishes.size > 1)
      context.addIssue({ code: "custom", message: "include_cas cannot be both true and false" });
    for (const field of SINGLE_FIELDS) {
      const lists = filters.flatMap((filter, index) =>
        filter.field === field && filter.operator === "equals" && typeof filter.value !== "boolean"
          ? [{ index, values: new Set([filter.value].flat()) }]
          : [],
      );
      let common: ReadonlySet<string> | undefined;
      for (const { index, values } of lists) {
        const before = common;
        common = new Set([...values].filter((value) => before?.has(value) ?? true));
        if (common.size > 0) continue;
        const message = `${field} cannot equal this and what another filter asks for: filters are combined with and`;
        context.addIssue({ code: "custom", path: [index, "value"], message });
        break;
      }
    }
  });

/** As it is kept and answered. */
export const filter = z.object({
  field: z.enum(FILTER_FIELDS),
  operator: z.enum(FILTER_OPERATORS),
  value: z.union([z.string(), z.array(z.string()), z.boolean()]),
});
export type CertificateFilter = z.output<typeof filter>;
