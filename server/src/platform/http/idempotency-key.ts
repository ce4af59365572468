import { invalidField } from "../problem.ts";

type KeyReplyHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** One `Idempotency-Key` per request; its form is up to the caller. */
export function idempotencyKey(headers: KeyReplyHeaders): string | undefined {
  const key = headers["idempotency-key"];
  if (key === undefined || key === "") return undefined;
  if (typeof key !== "string" || key.length > 255)
    throw invalidField(["Idempotency-Key"], "Idempotency-Key must be one text of at most 255 characters");
  return key;
}
