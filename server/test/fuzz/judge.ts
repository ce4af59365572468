/** What every answer must be, whatever was asked. Answers the complaint, or nothing. */
import { z } from "zod";
import { toOpenApi, type Endpoint } from "../../src/platform/http/index.ts";

export interface Heard {
  readonly status: number;
  readonly type: string;
  readonly requestId: string | undefined;
  readonly text: string;
}

const ENVELOPE_KEYS = new Set(["reqId", "statusCode", "error", "message", "details"]);
const REFUSALS = new Set([400, 401, 402, 403, 404, 405, 409, 410, 413, 414, 415, 422, 429, 431]);

interface Published {
  readonly paths: Record<
    string,
    Record<string, { responses: Record<string, { content: Record<string, { schema: object }> }> }>
  >;
}

/** Reads the answers of each endpoint as the published OpenAPI document describes them. */
export function createJudge(endpoints: readonly Endpoint[]) {
  const published = toOpenApi(endpoints, "http://localhost", "0") as unknown as Published;
  const readers = new Map<string, z.ZodType>();
  const readerOf = (endpoint: Endpoint): z.ZodType => {
    const known = readers.get(endpoint.id);
    if (known) return known;
    const answer = published.paths[endpoint.path]?.[endpoint.method.toLowerCase()]?.responses["200"];
    const reader = z.fromJSONSchema(
      answer?.content[endpoint.replyType]?.schema as Parameters<typeof z.fromJSONSchema>[0],
    );
    readers.set(endpoint.id, reader);
    return reader;
  };

  const refused = ({ status, type, requestId, text }: Heard): string | undefined => {
    if (!type.startsWith("application/json")) return `a ${status} is of type ${type}`;
    const body = JSON.parse(text) as Record<string, unknown>;
    const strange = Object.keys(body).filter((key) => !ENVELOPE_KEYS.has(key));
    if (strange.length > 0) return `the envelope has the key ${strange.join(", ")}`;
    if (body["statusCode"] !== status)
      return `the envelope says ${String(body["statusCode"])}, the head says ${status}`;
    if (typeof body["error"] !== "string" || body["error"] === "") return "the envelope has no error word";
    if (typeof body["reqId"] !== "string" || (requestId !== undefined && body["reqId"] !== requestId))
      return "the request ids differ";
    const { message } = body;
    const isWord = typeof message === "string" && message !== "";
    const isIssues = status === 422 && Array.isArray(message) && message.length > 0;
    if (!isWord && !isIssues) return "the envelope has no message";
    if (text.length > 100_000) return `the refusal is ${text.length} characters long`;
    if (/\bat .*\.(js|ts):\d+|node_modules|SELECT |INSERT INTO/.test(text))
      return "the refusal shows our insides";
    return undefined;
  };

  return (endpoint: Endpoint | undefined, heard: Heard): string | undefined => {
    if (heard.status >= 500) return `${heard.status}: ${heard.text.slice(0, 300)}`;
    if (heard.status >= 300 && heard.status !== 304)
      return REFUSALS.has(heard.status) ? refused(heard) : `the status ${heard.status}`;
    if (endpoint === undefined || heard.status === 304 || !heard.type.startsWith("application/json"))
      return undefined;
    if (endpoint.replyType !== "application/json") return undefined;
    const read = readerOf(endpoint).safeParse(JSON.parse(heard.text));
    return read.success
      ? undefined
      : `the answer is not as published: ${JSON.stringify(read.error.issues.slice(0, 3))}`;
  };
}
