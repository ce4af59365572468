/**
 * Bodies of many megabytes: read only for a few callers at the same time, one per organisation, and parsed
 * on a worker thread. So the memory is bounded, and other requests do not wait.
 */
import { Worker } from "node:worker_threads";
import type { ServerResponse } from "node:http";
import type { FastifyRequest } from "fastify";
import { tooManyRequests } from "../problem.ts";
import type { ParseAnswer } from "./large-bodies-worker.ts";

/** What can be read and parsed without delaying others. */
export const LARGE = 8 * 1024 * 1024;
const AT_ONCE = 4;

export function createLargeBodies() {
  const owners = new Set<string>();

  return {
    /** Before a large body is read; given back when the answer is out. */
    admit(request: FastifyRequest, response: ServerResponse): void {
      const limit = request.routeOptions.config.route?.endpoint.maxBodyBytes ?? 0;
      const length = Number(request.headers["content-length"] ?? Number.POSITIVE_INFINITY);
      if (limit <= LARGE || length <= LARGE) return;
      const owner = request.requestContext.actor?.orgId ?? "";
      if (owners.has(owner) || owners.size >= AT_ONCE)
        throw tooManyRequests(5, "Another large file is being taken in at the moment.");
      owners.add(owner);
      response.once("close", () => owners.delete(owner));
    },

    /** The bytes are given away: they are of no use here afterwards. */
    parse: (body: Buffer): Promise<ParseAnswer> =>
      new Promise((resolve, reject) => {
        const worker = new Worker(new URL("./large-bodies-worker.js", import.meta.url));
        worker.once("message", (answer: ParseAnswer) => {
          resolve(answer);
          void worker.terminate();
        });
        worker.once("error", reject);
        worker.postMessage(
          body,
          body.byteLength === body.buffer.byteLength ? [body.buffer as ArrayBuffer] : [],
        );
      }),
  };
}

export type LargeBodies = ReturnType<typeof createLargeBodies>;
