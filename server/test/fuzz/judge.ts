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
/** What is refused before anybody knows which route was meant. */
const BEFORE_ROUTES = new Set([414, 431]);

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
  const publishedOf = (endpoint: Endpoint) =>
    published.paths[endpoint.path]?.[endpoint.method.toLowerCase()]?.responses ?? {};
  const readerOf = (endpoint: Endpoint): z.ZodType => {
    const known = readers.get(endpoint.id);
    if (known) return known;
    const answer = publishedOf(endpoint)["200"];
    const reader = z.fromJSONSchema(
      answer?.content["application/json"]?.schema as Parameters<typeof z.fromJSONSchema>[0],
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
    if (heard.status === 304) return undefined;
    const isPublished = endpoint === undefined || String(heard.status) in publishedOf(endpoint);
    if (!isPublished && !BEFORE_ROUTES.has(heard.status))
      return `the status ${heard.status} is not published`;
    if (heard.status !== 200) return refused(heard);
    if (endpoint === undefined) return undefined;
    const types = Object.keys(publishedOf(endpoint)["200"]?.content ?? {});
    if (!types.some((type) => heard.type.startsWith(type)))
      return `the answer is ${heard.type || "of no type"}, published is ${types.join(", ")}`;
    if (!heard.type.startsWith("application/json")) return undefined;
    const read = readerOf(endpoint).safeParse(JSON.parse(heard.text));
    return read.success
      ? undefined
      : `the answer is not as published: ${JSON.stringify(read.error.issues.slice(0, 3))}`;
  };
}
