/** How an HTTP receiver's answer, or the lack of one, decides about the next attempt. */
import { OutboundRefused, type Outbound, type OutboundRequest } from "../../platform/outbound.ts";
import type { DeliveryOutcome } from "../contract.ts";

/** 408 and 429 are the two of the 4xx that mean "not now" instead of "never". */
const PASSING = new Set([408, 429]);

export async function postOutcome(outbound: Outbound, request: OutboundRequest): Promise<DeliveryOutcome> {
  try {
    const { status, retryAfterSeconds } = await outbound.post(request);
    if (status >= 200 && status < 300) return { kind: "taken" };
    const reason =
      status >= 300 && status < 400
        ? `answered with the redirect ${status}, which is not followed`
        : `answered ${status}`;
    // Below 200 is a change of protocol: that is not a webhook receiver.
    const isNever = status < 200 || (status >= 400 && status < 500 && !PASSING.has(status));
    if (isNever) return { kind: "refused", reason };
    return {
      kind: "later",
      reason,
      ...(retryAfterSeconds === undefined ? {} : { afterSeconds: retryAfterSeconds }),
    };
  } catch (error) {
    if (error instanceof OutboundRefused) return { kind: "refused", reason: error.message };
    return { kind: "later", reason: reasonOf(error) };
  }
}

/** Network errors name hosts and ports of the user's own target, which is fine; they are still kept short. */
export function reasonOf(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const text =
    typeof message === "string" && message !== ""
      ? message
      : typeof code === "string"
        ? code
        : "unknown error";
  return text.replace(/[^\x20-\x7e]/g, " ").slice(0, 300);
}
